"""Parts of a traced program that become graphs of their own: the bodies of higher-order operators.

A body is traced like any code; the nodes that it added are then cut out of the main graph. What it used of the
surroundings becomes parameters of the subgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo._torch_compat import tensor_version

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value


@dataclass
class Body:
    """A traced body.

    Attributes:
        nodes: the nodes that it added, cut out of the main graph.
        outputs: the nodes of its results.
        free: nodes of the surroundings that it uses, in the order of their first use.
        result: the value that it gave.
    """

    nodes: list[fx.Node]
    outputs: list[fx.Node]
    free: list[fx.Node]
    result: Value


def trace_body(tx: Frame, run: Callable[[], Value], leaves: Callable[[Value], list[fx.Node]]) -> Body:
    """Run a body and take what it added to the graph.

    Args:
        run: calls the body.
        leaves: the nodes of the tensors in its result.
    """
    trace = tx.trace
    graph = trace.graph.graph
    before = set(graph.nodes)
    versions = {node: tensor_version(node.meta["val"]) for node in before if isinstance(_val(node), torch.Tensor)}
    effects, known, sizes = trace.effects.count, dict(trace.graph.by_fake), trace.shapes.remembered_sizes()
    result = run()
    outputs = leaves(result)
    if trace.effects.count != effects:
        tx.unsupported("higher-order", "the body of a higher-order operator has side effects")
    if any(tensor_version(node.meta["val"]) != version for node, version in versions.items()):
        tx.unsupported("higher-order", "the body of a higher-order operator writes to a tensor from outside")
    made = [node for node in graph.nodes if node not in before and node.op != "placeholder"]
    body = Body(made, outputs, _free_nodes(made, outputs), result)
    _forget(trace, known, sizes)
    return body


def _val(node: fx.Node) -> Any:
    return node.meta.get("val")


def _free_nodes(made: list[fx.Node], outputs: list[fx.Node]) -> list[fx.Node]:
    own = set(made)
    found: dict[fx.Node, None] = {}
    for node in made:
        for used in node.all_input_nodes:
            if used not in own:
                found[used] = None
    for node in outputs:
        if node not in own:
            found[node] = None
    return list(found)


def _forget(trace: Trace, known: dict[int, Any], sizes: dict[Any, Any]) -> None:
    """Values of the body are not values of the surroundings; tensors that it read first are."""
    inputs = set(trace.graph.inputs)
    for mark, entry in list(trace.graph.by_fake.items()):
        if mark not in known and getattr(entry[1], "node", None) not in inputs:
            del trace.graph.by_fake[mark]
    trace.shapes.restore_sizes(sizes)


def build(trace: Trace, body: Body, parameters: list[fx.Node], *, single: bool = False) -> fx.GraphModule:
    """The subgraph, with `parameters` (nodes of the main graph) as its parameters; its nodes leave the main graph.

    Results own their memory: one that shows that of a parameter or of another result is copied. They are a tuple, or
    the `single` one.
    """
    graph, root = fx.Graph(), torch.nn.Module()
    copies: dict[fx.Node, fx.Node] = {}
    for number, parameter in enumerate(parameters):
        copy = copies[parameter] = graph.placeholder(f"arg{number}")
        copy.meta.update(val=_val(parameter))
    for node in body.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            root.register_module(str(node.target), node.meta["module"])
    taken = {_storage(_val(parameter)) for parameter in parameters}
    results = []
    for node in body.outputs:
        copy = copies[node]
        if _storage(_val(node)) in taken:
            copy = graph.call_method("clone", (copy,))
            copy.meta.update(val=_val(node))
        taken.add(_storage(_val(node)))
        results.append(copy)
    graph.output(results[0] if single else tuple(results))
    for node in reversed(body.nodes):
        node.graph.erase_node(node)
    return fx.GraphModule(root, graph)


def _storage(value: Any) -> Any:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else object()


def attach(trace: Trace, stem: str, module: fx.GraphModule) -> fx.Node:
    """A node of the main graph that gives the subgraph."""
    name = f"{stem}_{len(trace.graph.modules)}"
    trace.graph.modules[name] = module
    node = trace.graph.graph.create_node("get_attr", name)
    node.meta.update(module=module, val=None, stack_trace="")
    return node
