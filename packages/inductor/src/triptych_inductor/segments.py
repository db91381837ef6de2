"""A graph of which only parts can be recorded as CUDA graphs: cut into parts, each compiled for itself.

An op that waits for the GPU, that works on another device, or whose sizes are symbolic, runs as it is; what lies
before, between and after such ops is recorded and replayed. Ops are taken in an order that changes sides as seldom as
their dependencies allow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from triptych_inductor.compiled import CompiledGraph, KernelInfo
from triptych_inductor.container import ArtifactError
from triptych_inductor.passes.cleanup import is_pure
from triptych_inductor.passes.pipeline import WorkingGraph
from triptych_inductor.runtime.cuda import replay

FEWEST = 3  # ops of a part that is worth a recording of its own


@dataclass
class Part:
    """A run of nodes of one kind. inputs, outputs: nodes of the whole graph that come in and go out."""

    recorded: bool
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(n.op == "call_function" and n.target is not operator.getitem for n in self.nodes)


def split(gm: GraphModule) -> tuple[list[Part], list[str]]:
    """The parts in the order of their running, and why some are not recorded. No parts: recording gains nothing."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    device = _main_device(gm)
    reasons: dict[Node, str] = {}
    for node in nodes:
        inherited = reasons.get(node.args[0]) if node.target is operator.getitem else None  # type: ignore[arg-type]
        reason = inherited or replay.obstacle(node, device)
        if reason:
            reasons[node] = reason
    parts = _ordered(nodes, reasons)
    for part in parts:
        part.recorded = part.recorded and part.calls >= FEWEST
    if not any(p.recorded for p in parts) or all(p.recorded for p in parts):
        return [], sorted(set(reasons.values()))
    _connect(gm, parts)
    return parts, sorted(set(reasons.values()))


def _main_device(gm: GraphModule) -> torch.device | None:
    """The GPU that most values lie on."""
    count: dict[torch.device, int] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == replay.RECORDED:
            count[value.device] = count.get(value.device, 0) + 1
    return max(count, key=count.__getitem__) if count else None


def _ordered(nodes: list[Node], reasons: dict[Node, str]) -> list[Part]:
    """List scheduling: all that can run on the present side, then change sides."""
    position = {n: k for k, n in enumerate(nodes)}
    needs = {n: {m for m in n.all_input_nodes if m in position} for n in nodes}
    effects: list[Node] = []
    for node in nodes:  # what writes comes after all that is before it; effects keep their order
        if not is_pure(node) and node.target is not operator.getitem:
            schema = getattr(node.target, "_schema", None)
            writes = schema is None or schema.is_mutable
            needs[node] |= set(nodes[: position[node]]) if writes else set(effects[-1:])
            effects.append(node)
    waiting = {n: len(needs[n]) for n in nodes}
    readers: dict[Node, list[Node]] = {n: [] for n in nodes}
    for node in nodes:
        for needed in needs[node]:
            readers[needed].append(node)
    ready: dict[bool, list[Node]] = {True: [], False: []}
    for node in nodes:
        if not waiting[node]:
            ready[node not in reasons].append(node)
    parts: list[Part] = []
    side = bool(ready[True])
    while ready[True] or ready[False]:
        if not ready[side]:
            side = not side
        if not parts or parts[-1].recorded is not side:
            parts.append(Part(side))
        node = min(ready[side], key=position.__getitem__)
        ready[side].remove(node)
        parts[-1].nodes.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready[reader not in reasons].append(reader)
    return parts


def _connect(gm: GraphModule, parts: list[Part]) -> None:
    """Find out what goes into each part and comes out of it."""
    owner = {n: part for part in parts for n in part.nodes}
    returned = set(gm.graph.output_node().all_input_nodes)
    for part in parts:
        inputs: dict[Node, None] = {}
        for node in part.nodes:
            inputs.update(
                dict.fromkeys(m for m in node.all_input_nodes if m.op != "get_attr" and owner.get(m) is not part)
            )
        part.inputs = list(inputs)
    read = {m for part in parts for m in part.inputs} | returned
    for part in parts:
        part.outputs = [n for n in part.nodes if n in read]


def graph_of(gm: GraphModule, part: Part) -> GraphModule:
    """The part as a graph of its own."""
    graph, copies = Graph(), {}
    for node in part.inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in part.nodes:
        for used in node.all_input_nodes:
            if used.op == "get_attr" and used not in copies:
                copies[used] = graph.node_copy(used)
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple([copies[n] for n in part.outputs]))
    return WorkingGraph(getattr(gm, "owner", gm), graph)  # type: ignore[return-value]


@dataclass(frozen=True)
class SegmentReplay:
    """How a graph in parts is replayed. `reason`: why not all of it is."""

    recorded: int
    plain: int
    reason: str

    def __str__(self) -> str:
        return f"{self.recorded} of {self.recorded + self.plain} parts replayed as CUDA graphs ({self.reason})"


class SegmentedGraph(CompiledGraph):
    """Compiled parts that run in order as one compiled graph."""

    def __init__(self, gm: GraphModule, parts: Sequence[Part], compiled: Sequence[CompiledGraph], why: str) -> None:
        self.compiled = list(compiled)
        recorded = sum(p.recorded for p in parts)
        self.replay = SegmentReplay(recorded, len(parts) - recorded, why)  # type: ignore[assignment]
        self.provenance, self.cache_key, self.from_cache = {}, "", False
        self.timings = compiled[0].timings
        for one in compiled[1:]:
            for name, seconds in one.timings.parts.items():
                self.timings.parts[name] = self.timings.parts.get(name, 0.0) + seconds
        self._run = _in_order(gm, parts, [c.call for c in compiled])

    source = property(lambda self: "\n\n".join(f"# part {k}\n{c.source}" for k, c in enumerate(self.compiled)))
    files = property(
        lambda self: {f"part{k}_{name}": text for k, c in enumerate(self.compiled) for name, text in c.files.items()}
    )
    key = property(lambda self: "-".join(c.key[:16] for c in self.compiled))
    schedule = property(lambda self: "\n".join(c.schedule for c in self.compiled))

    @property
    def kernels(self) -> list[KernelInfo]:  # type: ignore[override]
        """Facts of each kernel, part by part."""
        return [kernel for c in self.compiled for kernel in c.kernels]

    @property
    def fallbacks(self) -> dict[str, int]:  # type: ignore[override]
        """Op -> number of calls without a lowering."""
        total: dict[str, int] = {}
        for one in self.compiled:
            for name, count in one.fallbacks.items():
                total[name] = total.get(name, 0) + count
        return total

    def to_bytes(self) -> bytes:
        """Raises `ArtifactError`: what is recorded in parts is compiled anew in each process."""
        raise ArtifactError("a graph that is recorded in parts has no stored form")


def _in_order(
    gm: GraphModule, parts: Sequence[Part], calls: Sequence[Callable[[list[Any]], Any]]
) -> Callable[[list[Any]], Any]:
    """One function of a list of inputs, which it empties; values are dropped after their last use."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    attributes = {n: _attribute(gm, n) for n in gm.graph.nodes if n.op == "get_attr"}
    structure = gm.graph.output_node().args[0]
    kept = set(gm.graph.output_node().all_input_nodes)
    last = {n: k for k, part in enumerate(parts) for n in part.inputs}
    steps = [
        (call, part.inputs, part.outputs, [n for n in part.inputs if last[n] == k and n not in kept])
        for k, (call, part) in enumerate(zip(calls, parts, strict=True))
    ]

    def run(args: list[Any]) -> Any:
        values = dict(zip(placeholders, args, strict=True))
        args.clear()
        for call, inputs, outputs, done in steps:
            given = [values[n] for n in inputs]
            for node in done:
                del values[node]
            values.update(zip(outputs, call(given), strict=True))
        return torch.fx.node.map_arg(structure, lambda n: values[n] if n in values else attributes[n])

    return run


def _attribute(gm: GraphModule, node: Node) -> Any:
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value
