"""Runs a torch-level graph module node by node under the recorder, so that each ATen op knows its source node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing.provenance import Provenance


def attribute(module: torch.nn.Module, target: str) -> Any:
    """`module.a.b.c` for the target 'a.b.c'."""
    return operator.attrgetter(target)(module)


def run_graph(
    gm: GraphModule,
    inputs: Sequence[Any],
    provenance: Provenance,
    attributes: dict[str, Any],
    higher_order: Callable[[Any, Any], Any] | None = None,
    region: Callable[[Node, GraphModule, Sequence[Any]], Any] | None = None,
) -> Any:
    """The output of `gm` on `inputs`.

    attributes: replaces parameters and buffers by target name. higher_order: runs a higher-order operator on arguments.
    region: runs a graph module without state that the graph calls.
    """
    values: dict[Node, Any] = {}
    arguments = iter(inputs)
    last_use = _last_uses(gm)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(arguments)
            continue
        if node.op == "get_attr":
            found = attributes.get(node.target)
            values[node] = attribute(gm, node.target) if found is None else found
            continue
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "output":
            return args[0]
        provenance.enter_node(node)
        if higher_order is not None and isinstance(node.target, compat.HigherOrderOperator):
            values[node] = higher_order(node.target, args)
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif region is not None and is_region(module := attribute(gm, str(node.target))):
            values[node] = region(node, module, args)
        else:
            values[node] = _call_module(gm, str(node.target), attributes, args, kwargs)
        for dead in last_use.get(node, ()):
            del values[dead]
    raise ValueError("the graph has no output node")


def is_region(module: torch.nn.Module) -> bool:
    """Whether a submodule is a graph that reads nothing but its arguments, and gives a tuple."""
    if not isinstance(module, GraphModule) or next(iter((*module.parameters(), *module.buffers())), None) is not None:
        return False
    return isinstance(module.graph.output_node().args[0], tuple)


def _call_module(gm: GraphModule, target: str, attributes: dict[str, Any], args: Any, kwargs: Any) -> Any:
    """Call a submodule with its parameters and buffers replaced."""
    prefix = f"{target}."
    state = {name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)}
    return torch.func.functional_call(attribute(gm, target), state, args, kwargs)


def held_state(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Tensors that the graph reads from the module itself or from its submodules, by qualified name, each once."""
    held: dict[str, torch.Tensor] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            held.setdefault(node.target, attribute(gm, node.target))
        elif node.op == "call_module":
            module = attribute(gm, node.target)
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                held.setdefault(f"{node.target}.{name}", tensor)
    return {n: t for n, t in held.items() if isinstance(t, torch.Tensor) and not isinstance(t, compat.FakeTensor)}


def _last_uses(gm: GraphModule) -> dict[Node, list[Node]]:
    seen: set[Node] = set()
    dead_after: dict[Node, list[Node]] = {}
    for node in reversed(gm.graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen and used.op not in ("placeholder", "get_attr"):
                seen.add(used)
                if node.op != "output":
                    dead_after.setdefault(node, []).append(used)
    return dead_after
