"""`Partition`, and the building of its two graphs once it is decided what the backward gets from the forward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.graph_module import LazyGraphModule
from triptych_aot_autograd.partition.symbols import untold_symbols
from triptych_aot_autograd.partition.ways import way_to

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph

aten = torch.ops.aten


@dataclass
class Partition:
    """Forward and backward of a joint graph.

    forward: inputs are the primals; outputs are `num_outputs` results, then saved tensors, then saved symbols. The meta
    of its output node says under "private_outputs" which outputs only the backward sees.
    backward: inputs are saved primals, saved tensors, saved symbols, tangents; outputs are the gradients of the
    primals `gradients`.
    """

    forward: GraphModule
    backward: GraphModule | None
    num_outputs: int
    saved_primals: list[int] = field(default_factory=list)
    saved_tensors: list[str] = field(default_factory=list)  # names of forward nodes
    saved_symbols: list[str] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    dependencies: list[frozenset[int]] = field(default_factory=list)  # for each gradient: the tangents it is made of
    recomputed: list[str] = field(default_factory=list)  # forward nodes computed again in the backward

    def saved_bytes(self) -> int:
        """Bytes that the forward keeps for the backward, inputs not counted."""
        values = {n.name: n.meta.get("val") for n in self.forward.graph.nodes}
        return sum(node_bytes(values[name]) for name in self.saved_tensors if name in values)

    def __str__(self) -> str:
        lines = [
            f"saved inputs:  {self.saved_primals}",
            f"saved tensors: {', '.join(self.saved_tensors)} ({self.saved_bytes()} bytes)",
            f"saved symbols: {', '.join(self.saved_symbols)}",
            f"recomputed:    {', '.join(self.recomputed)}",
            "forward " + str(self.forward.graph),
        ]
        if self.backward is not None:
            lines.append("backward " + str(self.backward.graph))
        return "\n".join(lines)


def node_bytes(value: Any) -> int:
    """Bytes of a tensor value; symbolic sizes count by their hints."""
    if isinstance(value, torch.Tensor):
        count = 1
        for n in value.size():
            count *= n.node.hint or 1 if isinstance(n, torch.SymInt) else n
        return count * value.dtype.itemsize
    if isinstance(value, (list, tuple)):
        return sum(node_bytes(v) for v in value)
    return 8 if compat.is_symbolic(value) else 0


def is_symbol(node: Node) -> bool:
    """Whether the node's value is a symbolic (or plain) number."""
    return isinstance(node.meta.get("val"), (*compat.SYMBOLIC, int, float, bool))


def view_root(node: Node) -> Node:
    """The node whose memory `node` shows."""
    while node.op == "call_function":
        target: Any = node.target
        if target is compat.getitem:
            target = node.args[0].target  # type: ignore[union-attr]
        if not compat.is_view_target(target):
            break
        node = node.args[0]  # type: ignore[assignment]
    return node


def tangent_dependents(joint: JointGraph) -> dict[Node, frozenset[int]]:
    """For each node that depends on tangents: which."""
    found: dict[Node, frozenset[int]] = {t: frozenset([i]) for i, t in enumerate(joint.tangents)}
    for node in joint.graph.nodes:
        if node.op == "call_function":
            sets = [found[n] for n in node.all_input_nodes if n in found]
            if sets:
                found[node] = frozenset().union(*sets)
    return found


def eager_saved(joint: JointGraph) -> set[Node]:
    """Forward values that backward ops read, as eager would save them; a view counts as the tensor it shows."""
    saved: set[Node] = set()
    for node in joint.graph.nodes:
        if node.meta.get("phase") != "backward" or node.op != "call_function":
            continue
        saved.update(
            view_root(n) for n in node.all_input_nodes if n.meta.get("phase") == "forward" and not is_symbol(n)
        )
    for node, _ in joint.of_kind("gradient"):
        if isinstance(node, Node) and node.meta.get("phase") == "forward":
            saved.add(view_root(node))
    return saved


def only_copied(joint: JointGraph, nodes: Iterable[Node]) -> list[Node]:
    """Those whose memory the program holds and may change before the backward, which eager would not notice."""
    visible = {view_root(n) for n, _ in joint.of_kind("output", "base") if isinstance(n, Node)}
    held = [n for n in nodes if view_root(n).op == "placeholder" or view_root(n) in visible]
    if not held:
        return []
    eager = eager_saved(joint)
    return [n for n in held if view_root(n) not in eager]


class _Emitter:
    """Builds both graphs for a set of nodes to be saved."""

    def __init__(self, joint: JointGraph, saved: Iterable[Node]) -> None:
        self.joint = joint
        self.saved = set(saved)
        self.primals = joint.primals
        self.primal_index = {n: i for i, n in enumerate(self.primals)}
        self.changed = {self.primals[i] for i, f in enumerate(joint.facts.inputs) if f.changed}
        self.copied = self.changed | {view_root(n) for n in only_copied(joint, self.saved)}
        self.gradients = joint.of_kind("gradient")
        self.second: set[Node] = set()  # what the backward computes in the second way

    def emit(self) -> Partition:
        needed, used = self._walk_backward()
        saved_primals = [
            i for i, p in enumerate(self.primals) if p in used and p not in self.copied and not is_symbol(p)
        ]
        tensors = [n for n in used if not is_symbol(n) and (n.op != "placeholder" or n in self.copied)]
        symbols = [n for n in used if is_symbol(n)]
        if self.gradients:
            received = [self.primals[i] for i in saved_primals] + tensors + symbols
            symbols += untold_symbols(self.joint.graph, (*received, *self.joint.tangents))
        results = self.joint.of_kind("output", "base", "mutation", "symbol")
        forward, tensor_names = self._forward([n for n, _ in results], tensors, symbols)
        partition = Partition(forward, None, len(results), saved_primals, tensor_names, [n.name for n in symbols])
        if self.gradients:
            sources = [self.primals[i] for i in saved_primals] + tensors + symbols
            partition.backward = self._backward(sources, needed)
            partition.gradients = [d.index for _, d in self.gradients]
            depends = tangent_dependents(self.joint)
            partition.dependencies = [
                depends.get(n, frozenset()) if n is not None else frozenset() for n, _ in self.gradients
            ]
            partition.recomputed = [n.name for n in needed if n.meta.get("phase") == "forward"]
        return partition

    def _walk_backward(self) -> tuple[list[Node], list[Node]]:
        """Nodes of the backward graph, and forward values it takes over, both in graph order."""
        tangents = set(self.joint.tangents)
        needed: set[Node] = set()
        used: set[Node] = set()
        stack = [n for n, _ in self.gradients if isinstance(n, Node)]
        while stack:
            node = stack.pop()
            if node in needed or node in used or node in tangents:
                continue
            if (
                node in self.saved
                or node.op == "placeholder"
                or (is_symbol(node) and node.meta.get("phase") == "forward")
            ):
                used.add(node)
                continue
            needed.add(node)
            stack.extend(self._inputs(node))
        order = list(self.joint.graph.nodes)
        return [n for n in order if n in needed], [n for n in order if n in used]

    def _inputs(self, node: Node) -> Iterable[Node]:
        """What the backward computes the node from."""
        way = way_to(node)
        if way is None or not self.saved.issuperset(way.statistics):
            return node.all_input_nodes
        self.second.add(node)
        return way.inputs

    def _forward(self, results: list[Any], tensors: list[Node], symbols: list[Node]) -> tuple[GraphModule, list[str]]:
        epilogue = self.joint.of_kind("epilogue")
        wanted = [n for n in (*results, *tensors, *symbols, *[n for n, _ in epilogue]) if isinstance(n, Node)]
        wanted += [n for n in self.joint.graph.nodes if compat.has_effect(n) and n.meta.get("phase") == "forward"]
        graph = Graph()
        copies: dict[Node, Node] = {}
        for node in self.primals:
            copies[node] = self._copy(graph, node, copies)
        for node in _ancestors(self.joint.graph, wanted):
            if node not in copies:
                way = way_to(node)
                second = way is not None and way.always and all(n in copies for n in way.statistics)
                copies[node] = self._copy(graph, node, copies, second)
        saved = [self._safe(graph, n, copies) for n in tensors]
        for value, desc in epilogue:
            target = copies[self.primals[desc.index]]
            node = graph.call_function(aten.copy_.default, (target, copies[value]))
            node.meta.update(val=target.meta["val"], phase="forward", epilogue=True)
        outputs = [copies[n] if isinstance(n, Node) else n for n in results]
        output = graph.output((*outputs, *saved, *[copies[n] for n in symbols]))
        output.meta["private_outputs"] = tuple(range(len(outputs), len(outputs) + len(saved)))
        return LazyGraphModule(self.joint.graph_module, graph, "Forward"), [n.name for n in saved]

    def _safe(self, graph: Graph, node: Node, copies: dict[Node, Node]) -> Node:
        """The node to save; a copy where it shows memory that may be overwritten before the backward."""
        if view_root(node) not in self.copied:
            return copies[node]
        copy = graph.call_function(aten.clone.default, (copies[node],))
        copy.meta.update(copies[node].meta)
        return copy

    def _backward(self, sources: list[Node], needed: list[Node]) -> GraphModule:
        graph = Graph()
        copies: dict[Node, Node] = {}
        for node in (*sources, *self.joint.tangents):
            placeholder = graph.placeholder(node.name)
            placeholder.meta.update(node.meta)
            copies[node] = placeholder
        for node in self._late(needed):
            copies[node] = self._copy(graph, node, copies, node in self.second)
        graph.output(tuple([copies[n] if isinstance(n, Node) else None for n, _ in self.gradients]))
        return LazyGraphModule(self.joint.graph_module, graph, "Backward")

    def _late(self, needed: list[Node]) -> list[Node]:
        """`needed` with what is computed again just before it is first read: until then it takes no memory."""
        again = {n for n in needed if n.meta.get("phase") == "forward"}
        placed: dict[Node, None] = {}
        for node in (*[n for n in needed if n not in again], *[n for n in needed if n in again]):
            stack = [node]
            while stack:
                waiting = [n for n in self._inputs(stack[-1]) if n in again and n not in placed]
                if waiting:
                    stack.extend(waiting)
                else:
                    placed.setdefault(stack.pop())
        return list(placed)

    def _copy(self, graph: Graph, node: Node, copies: dict[Node, Node], second: bool = False) -> Node:
        way = way_to(node) if second else None
        if way is not None:
            return way.write(graph, copies.__getitem__)
        args = map_arg(node.args, copies.__getitem__)
        kwargs = map_arg(node.kwargs, copies.__getitem__)
        copy = graph.create_node(node.op, node.target, args, kwargs, node.name)
        copy.meta.update(node.meta)
        return copy


def _ancestors(graph: Graph, wanted: list[Node]) -> list[Node]:
    """`wanted` and all that they are computed from, in graph order."""
    found: set[Node] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return [n for n in graph.nodes if n in found]


def build_partition(joint: JointGraph, saved: Iterable[Node]) -> Partition:
    """The partition in which the backward gets the values of the nodes `saved`, if it needs them, and of inputs."""
    return _Emitter(joint, saved).emit()
