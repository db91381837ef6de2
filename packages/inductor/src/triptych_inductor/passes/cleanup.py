"""Dead code, operations without effect, and common subexpressions."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten

_RANDOM = torch.Tag.nondeterministic_seeded


def is_pure(node: Node) -> bool:
    """Whether a call has no effect besides its result and gives the same for the same arguments."""
    target = node.target
    if node.op != "call_function":
        return False
    if isinstance(target, torch._ops.OpOverload):
        return not target._schema.is_mutable and _RANDOM not in target.tags and bool(target._schema.returns)
    return getattr(target, "__module__", "") in ("_operator", "math")


def remove_dead_code(gm: GraphModule) -> None:
    """In: any graph. Out: no pure node without users."""
    for node in reversed(list(gm.graph.nodes)):
        if not node.users and is_pure(node):
            gm.graph.erase_node(node)


# Ops that give their first argument back when nothing changes.
_ALIASES = (aten.alias.default, aten.detach.default, aten.lift_fresh.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default)


def remove_no_ops(gm: GraphModule) -> None:
    """In: any graph. Out: aliases and views to the same shape are gone; users read the argument."""
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            continue
        source = node.args[0]
        if node.target in _ALIASES or (node.target in _VIEWS and _same_layout(source, node)):
            if source.op == "placeholder" and any(u.op == "output" for u in node.users):
                continue
            node.replace_all_uses_with(source)
            gm.graph.erase_node(node)


def _same_layout(a: Node, b: Node) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or x.dtype is not y.dtype or x.ndim != y.ndim:
        return False
    pairs = [*zip(x.shape, y.shape, strict=True), *zip(x.stride(), y.stride(), strict=True)]
    return all(_equal(p, q) for p, q in pairs)


def _equal(a: Any, b: Any) -> bool:
    """Equality of sizes that adds no guard."""
    a, b = (v.node.expr if isinstance(v, torch.SymInt) else v for v in (a, b))
    return bool(a == b)


def _key(value: Any, names: dict[Node, Node]) -> Any:
    """A hashable stand-in for an argument."""
    if isinstance(value, Node):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, tuple([_key(v, names) for v in value]))
    if isinstance(value, dict):
        return tuple(sorted((k, _key(v, names)) for k, v in value.items()))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return ("symbolic", value.node.expr)
    return (type(value).__name__, repr(value))


def common_subexpressions(gm: GraphModule) -> None:
    """In: any graph. Out: equal pure calls are made once (results that are returned or mutated stay apart)."""
    mutated = _mutated(gm)
    known: dict[Any, Node] = {}
    for node in list(gm.graph.nodes):
        if not is_pure(node) or node in mutated or any(a in mutated for a in node.all_input_nodes):
            continue
        if node.target in _MAKERS or any(u.op == "output" for u in node.users):
            continue
        key = (node.target, _key(node.args, {}), _key(node.kwargs, {}))
        found = known.setdefault(key, node)
        if found is not node:
            node.replace_all_uses_with(found)
            gm.graph.erase_node(node)


# Results that callers may write into: each call is memory of its own.
_MAKERS = frozenset({aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, operator.setitem})


def _mutated(gm: GraphModule) -> set[Node]:
    """Nodes that some call writes into, and all that share their memory."""
    written: set[Node] = set()
    for node in gm.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            written.update(node.all_input_nodes)
    if not written:
        return written
    base: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        shown = _memory_of(node)
        base[node] = node if shown is None else base[shown]
    bases = {base[node] for node in written}
    return {node for node, found in base.items() if found in bases}


def _memory_of(node: Node) -> Node | None:
    """The argument whose memory the result of a call shows, if any."""
    if node.target is operator.getitem:
        return node.args[0] if isinstance(node.args[0], Node) else None
    if isinstance(node.target, torch._ops.OpOverload) and any(r.alias_info for r in node.target._schema.returns):
        for spec, arg in zip(node.target._schema.arguments, node.args, strict=False):
            if spec.alias_info is not None and isinstance(arg, Node):
                return arg
    return None
