"""A graph of which only parts can be recorded as CUDA graphs: cut into parts, each compiled for itself.

An op that waits for the GPU, that works on another device, or whose sizes are symbolic, runs as it is; what lies
before, between and after such ops is recorded and replayed. Ops are taken in an order that changes sides as seldom as
their dependencies allow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from triptych_inductor.__about__ import __version__
from triptych_inductor.compiled import FORMS, CompiledGraph, KernelInfo, Timings
from triptych_inductor.container import ArtifactError, pack
from triptych_inductor.ir.nodes import map_leaves
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
    seen = _visible(gm)
    output = graph.output(tuple([copies[n] for n in part.outputs]))
    output.meta[replay.PRIVATE] = tuple([k for k, n in enumerate(part.outputs) if n not in seen])
    return WorkingGraph(getattr(gm, "owner", gm), graph)  # type: ignore[return-value]


def _visible(gm: GraphModule) -> set[Node]:
    """Nodes that the whole graph returns to more than its caller's own machinery."""
    output = gm.graph.output_node()
    private = output.meta.get(replay.PRIVATE, ())
    returned: Any = output.args[0]
    items = enumerate(returned) if isinstance(returned, (tuple, list)) else [(0, returned)]
    seen: dict[Node, None] = {}
    torch.fx.node.map_arg([value for k, value in items if k not in private], lambda n: seen.setdefault(n))
    return set(seen)


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

    def __init__(self, flow: Flow, compiled: Sequence[CompiledGraph], why: str) -> None:
        self.compiled = list(compiled)
        self._flow = flow
        recorded = sum(c.replay is not None for c in compiled)
        self.replay = SegmentReplay(recorded, len(compiled) - recorded, why)  # type: ignore[assignment]
        self.provenance, self.cache_key, self.from_cache = {}, "", False
        self.timings = Timings()
        for one in compiled:
            for name, seconds in one.timings.parts.items() if one.timings is not None else ():
                self.timings.parts[name] = self.timings.parts.get(name, 0.0) + seconds
        self._run = flow.run([c.call for c in compiled])

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

    def to_bytes(self, bound: Mapping[str, int] | None = None) -> bytes:
        """The parts' artifacts, and how values go between them."""
        header = {
            "form": FORM,
            "version": __version__,
            "flow": self._flow.to_json(),
            "why": self.replay.reason,  # type: ignore[union-attr]
            "provenance": self.provenance,
        }
        return pack(header, {f"part/{k}": one.to_bytes() for k, one in enumerate(self.compiled)})

    @staticmethod
    def of_artifact(header: dict[str, Any], blobs: dict[str, bytes]) -> SegmentedGraph:
        """What `to_bytes` wrote. `ArtifactError` where another version did."""
        if header["version"] != __version__:
            raise ArtifactError(f"the artifact was made by version {header['version']}, this is {__version__}")
        parts = [CompiledGraph.from_bytes(blobs[f"part/{k}"]) for k in range(len(blobs))]
        made = SegmentedGraph(Flow.from_json(header["flow"]), parts, header["why"])
        made.provenance = header["provenance"]
        return made


FORM = "parts"
FORMS[FORM] = SegmentedGraph.of_artifact

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """How values go between parts. Values have numbers: the inputs first, then what parts give, in order.

    inputs: how many there are. steps: for each part what goes in, what comes out, and what is dropped after it. result:
    the output's structure, with `Slot`s for values and attributes of the graph. attributes: those, by name.
    """

    inputs: int
    steps: tuple[tuple[Numbers, Numbers, Numbers], ...]
    result: Any
    attributes: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(gm: GraphModule, parts: Sequence[Part]) -> Flow:
        """The flow of a graph that was cut into parts."""
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        number = {n: k for k, n in enumerate([*placeholders, *(n for part in parts for n in part.outputs)])}
        kept = set(gm.graph.output_node().all_input_nodes)
        last = {n: k for k, part in enumerate(parts) for n in part.inputs}
        steps = []
        for k, part in enumerate(parts):
            done = [number[n] for n in part.inputs if last[n] == k and n not in kept]
            steps.append(
                (tuple([number[n] for n in part.inputs]), tuple([number[n] for n in part.outputs]), tuple(done))
            )
        attributes = {str(n.target): _attribute(gm, n) for n in kept if n.op == "get_attr"}
        structure = torch.fx.node.map_arg(
            gm.graph.output_node().args[0],
            lambda n: Slot(number.get(n, -1), str(n.target) if n.op == "get_attr" else ""),
        )
        return Flow(len(placeholders), tuple(steps), structure, attributes)

    def run(self, calls: Sequence[Callable[[list[Any]], Any]]) -> Callable[[list[Any]], Any]:
        """One function of a list of inputs, which it empties; values are dropped after their last use."""
        steps = [(call, *step) for call, step in zip(calls, self.steps, strict=True)]
        attributes, result = self.attributes, self.result

        def run(args: list[Any]) -> Any:
            values = dict(enumerate(args))
            args.clear()
            for call, inputs, outputs, done in steps:
                given = [values[n] for n in inputs]
                for number in done:
                    del values[number]
                values.update(zip(outputs, call(given), strict=True))
            return map_leaves(lambda leaf: leaf.of(values, attributes) if isinstance(leaf, Slot) else leaf, result)

        return run

    def to_json(self) -> dict[str, Any]:
        """The flow as JSON-able data. `ArtifactError` where the graph gives tensors of its own."""
        if self.attributes:
            raise ArtifactError("a graph in parts that gives tensors of its own has no stored form")
        return {"inputs": self.inputs, "steps": self.steps, "result": _encoded(self.result)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Flow:
        """What `to_json` wrote."""
        steps = tuple([tuple([tuple(numbers) for numbers in step]) for step in data["steps"]])
        return Flow(data["inputs"], steps, _decoded(data["result"]))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Slot:
    """A place in the output: a value by number, or an attribute by name."""

    number: int
    attribute: str = ""

    def of(self, values: dict[int, Any], attributes: dict[str, Any]) -> Any:
        return attributes[self.attribute] if self.attribute else values[self.number]


def _encoded(structure: Any) -> Any:
    if isinstance(structure, Slot):
        return {"value": structure.number}
    if isinstance(structure, (tuple, list)):
        return {"list" if isinstance(structure, list) else "tuple": [_encoded(item) for item in structure]}
    if structure is None or isinstance(structure, (bool, int, float, str)):
        return {"constant": structure}
    raise ArtifactError(f"the graph gives a {type(structure).__name__}, which cannot be stored")


def _decoded(data: dict[str, Any]) -> Any:
    ((kind, content),) = data.items()
    if kind == "value":
        return Slot(content)
    if kind == "constant":
        return content
    items = [_decoded(item) for item in content]
    return items if kind == "list" else tuple(items)


def _attribute(gm: GraphModule, node: Node) -> Any:
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value
