"""Clean-up passes over the recorded graph. Each changes the graph in place and returns how many nodes went.

`run` applies them in order: `remove_noop_ops`, `remove_round_trips`, `merge_equal_nodes`, `remove_dead_nodes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.partition.parts import view_root
from triptych_aot_autograd.partition.rules import Recompute, target_level
from triptych_aot_autograd.tracing.facts import Facts

aten = torch.ops.aten


def run(graph: Graph, outputs: Sequence[Any]) -> dict[str, int]:
    """All clean-up passes; returns how many nodes each removed. `outputs`: results that the program will hold."""
    held = {view_root(n) for n in outputs if isinstance(n, Node)}
    return {
        "noop": remove_noop_ops(graph, held),
        "round_trip": remove_round_trips(graph, held),
        "equal": merge_equal_nodes(graph, held),
        "dead": remove_dead_nodes(graph),
    }


NOOP_WHEN_FACTS_EQUAL = frozenset(
    (
        aten.view.default,
        aten._unsafe_view.default,
        aten._reshape_alias.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.alias.default,
        aten.detach.default,
        aten.permute.default,
        aten.as_strided.default,
        aten.clone.default,
        aten._to_copy.default,
        aten.squeeze.dims,
        aten.squeeze.dim,
    )
)


def remove_noop_ops(graph: Graph, held: set[Node]) -> int:
    """Views and copies that leave size, stride, offset and dtype as they were are replaced by their source.

    A copy stays where the program can tell: of or into memory that it holds (inputs, outputs), which it may
    overwrite later.
    """
    removed = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in NOOP_WHEN_FACTS_EQUAL:
            continue
        source = node.args[0]
        if not isinstance(source, Node) or source.meta.get("facts") is not node.meta["facts"]:
            continue
        if type(node.meta["facts"]) is not Facts or _reorders(node):
            continue
        if not compat.is_view_target(node.target) and (node in held or _held_by_program(source, held)):
            continue
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        removed += 1
    return removed


def _held_by_program(source: Node, held: set[Node]) -> bool:
    root = view_root(source)
    return root in held or root.op != "call_function"


def _reorders(node: Node) -> bool:
    """A permutation of equal sizes has equal facts only when it is the identity; stride-1 repeats need a look."""
    if node.target is not aten.permute.default:
        return False
    dims: Any = node.args[1]
    return [d % len(dims) for d in dims] != list(range(len(dims)))


def remove_round_trips(graph: Graph, held: set[Node]) -> int:
    """A value made wider and brought back to its type is what it was: users of the second copy read the value.

    Models that keep some weights in float32 do so around a product under autocast. Copies of memory that the program
    holds stay, as in `remove_noop_ops`.
    """
    removed = 0
    for node in graph.find_nodes(op="call_function", target=aten._to_copy.default):
        wide = node.args[0]
        if wide.target is not aten._to_copy.default or node in held:
            continue
        source = wide.args[0]
        facts = [n.meta["facts"] for n in (source, wide, node)]
        if facts[0] is not facts[2] or type(facts[0]) is not Facts or _held_by_program(source, held):
            continue
        if _keeps_all(facts[0].dtype, facts[1].dtype):
            node.replace_all_uses_with(source)
            graph.erase_node(node)
            removed += 1
    return removed


def _keeps_all(narrow: torch.dtype, wide: torch.dtype) -> bool:
    """Whether each number of the one floating type is one of the other."""
    both = narrow.is_floating_point and wide.is_floating_point and min(narrow.itemsize, wide.itemsize) > 1
    return both and torch.promote_types(narrow, wide) is wide


def merge_equal_nodes(graph: Graph, held: set[Node]) -> int:
    """Nodes with equal target and arguments become one.

    Apart stay random ops, copies that the program asks for or holds, and results that are to be separate memories.
    What the backward runs a second time (a checkpointed region) is merged too, its random draws with those they
    repeat; the dear ops among it are marked to be recomputed.
    """
    seen: dict[Any, Node] = {}
    draws = _Draws()
    merged = 0
    for node in list(graph.nodes):
        if node.op not in ("call_function", "get_attr") or node.target in SEPARATE:
            continue
        try:
            key = (node.op, node.target, _freeze(node.args), _freeze(node.kwargs))
            first = draws.match(key, node) if compat.draws(node) else seen.setdefault(key, node)
        except TypeError:  # an argument that does not hash
            continue
        if first is node or (first in held and node in held):
            continue
        if node.target is aten._to_copy.default and (first in held or node in held):
            continue
        if first.meta["phase"] != node.meta["phase"] and target_level(node.target) in (
            Recompute.REDUCTION,
            Recompute.COSTLY,
        ):
            first.meta["recompute"] = "MUST_RECOMPUTE"
        node.replace_all_uses_with(first)
        graph.erase_node(node)
        merged += 1
    return merged


SEPARATE = (aten.clone.default,)


class _Draws:
    """Random nodes of the forward, and those of the backward that repeat them, matched in order."""

    def __init__(self) -> None:
        self._forward: dict[Any, list[Node]] = {}
        self._repeated: dict[Any, int] = {}

    def match(self, key: Any, node: Node) -> Node:
        """The forward node that `node` repeats; itself for a draw of the forward."""
        draws = self._forward.setdefault(key, [])
        if node.meta["phase"] == "forward":
            draws.append(node)
            return node
        at = self._repeated.get(key, 0)
        self._repeated[key] = at + 1
        if not draws:
            raise UnsupportedOperationError(f"{node.target}: the backward draws random numbers of its own")
        return draws[at % len(draws)]


def _freeze(value: Any) -> Any:
    kind = type(value)
    if kind is Node:
        return value
    if isinstance(value, (list, tuple)):
        return (kind, *[_freeze(v) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _freeze(v)) for k, v in sorted(value.items())])
    if kind is float:
        return (kind, value.hex())
    return (kind, value)


def remove_dead_nodes(graph: Graph) -> int:
    """Nodes without users go, but for those with an effect: the generator has to advance, checks have to be made."""
    removed = 0
    for node in reversed(list(graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users and not compat.has_effect(node):
            graph.erase_node(node)
            removed += 1
    return removed
