"""`schedule`: from an `IRGraph` to a `Program`, the ordered list of kernel calls and extern calls with their memory
plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from triptych_inductor.backends import CODE_GENERATORS
from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.nodes import Buffer, ExternNode, IRGraph, LoopNode
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.options import Options
from triptych_inductor.schedule import axes, memory
from triptych_inductor.schedule.columns import pair_columns
from triptych_inductor.schedule.fuse import Step, describe, fuse
from triptych_inductor.schedule.groups import Group
from triptych_inductor.schedule.order import lower_peak
from triptych_inductor.schedule.overwrite import overwritten
from triptych_inductor.schedule.stages import KernelBuilder, KernelCall


@dataclass
class Program:
    """What the wrapper is written from. `kernels`: distinct kernels; calls refer to them by name."""

    graph: IRGraph
    steps: list[KernelCall | ExternNode] = field(default_factory=list)
    memory: list[memory.StepMemory] = field(default_factory=list)  # one more than steps: the last is before the return
    kernels: list[Kernel] = field(default_factory=list)
    description: str = ""


def schedule(graph: IRGraph, options: Options, hint: Callable[[Extent], int]) -> Program:
    """Fuse, build kernels (equal ones once), and plan memory."""
    remove_unused(graph)
    steps = fuse(graph, options, hint)
    outside = _read_outside(graph, steps)
    by_key: dict[str, Kernel] = {}
    contents: list[KernelCall | ExternNode] = [
        step.content
        if isinstance(step.content, ExternNode)
        else _kernel_call(step.content, graph, outside[k], by_key, hint)
        for k, step in enumerate(steps)
    ]
    size = memory.Sizes(hint)
    chosen = _Arrangement(graph, contents, range(len(steps)), options, size)
    order = lower_peak(steps, graph, outside, size)
    if order != list(range(len(steps))):
        other = _Arrangement(graph, contents, order, options, size)
        if other.peaks < chosen.peaks and all(a <= b for a, b in zip(other.peaks, chosen.peaks, strict=True)):
            chosen = other
    program = Program(graph, chosen.steps, description=describe([steps[k] for k in chosen.order]))
    arenas = options.memory_arenas and options.inplace_buffers
    program.memory = memory.plan(graph, chosen.usages, options.inplace_buffers, hint, arenas, chosen.over)
    program.description += "".join(f"\n{arena}" for step in program.memory for arena in step.opens)
    program.kernels = _distinct(program.steps)
    return program


class _Arrangement:
    """Steps in one order: what they use, which results are written over operands, and the peaks of memory."""

    def __init__(
        self,
        graph: IRGraph,
        contents: Sequence[KernelCall | ExternNode],
        order: Sequence[int],
        options: Options,
        size: Callable[[Buffer], int],
    ) -> None:
        self.order = order
        self.steps = pair_columns([contents[k] for k in order], _pairs)
        self.usages = [*[_usage(step, graph) for step in self.steps], memory.Usage(graph.returned, [])]
        self.lives = memory.Lifetimes.of(graph, self.usages)
        self.over: dict[str, str] = {}
        if options.inplace_buffers:
            self.over = overwritten(self.steps, graph, self.lives.last, graph.returned)
        self.peaks = memory.peaks(graph, self.usages, self.over, size)


def _pairs(device: torch.device) -> bool:
    return device.type in CODE_GENERATORS and CODE_GENERATORS[device.type].pairs


LETS_GO = frozenset({"aten", "prims", "triptych_triton"})
"""Libraries whose ops keep no tensor for later that they are given."""


def _usage(step: KernelCall | ExternNode, graph: IRGraph) -> memory.Usage:
    """What a step touches and makes."""
    if isinstance(step, ExternNode):
        if getattr(step.target, "namespace", "aten") not in LETS_GO:
            for name in step.read_names:
                graph.buffers[name].aliased = True  # the op may keep what it is given
        return memory.Usage(step.read_names | step.write_names, [b.name for b in step.outputs if b is not None])
    return memory.Usage(set(step.inputs) | set(step.outputs), list(step.outputs))


def _distinct(steps: list[KernelCall | ExternNode]) -> list[Kernel]:
    """The kernels that are called, equal ones (by key) once."""
    found: dict[str, Kernel] = {}
    for step in steps:
        if isinstance(step, KernelCall):
            step.kernel = found.setdefault(step.key, step.kernel)
    return list(found.values())


def _kernel_call(
    group: Group, graph: IRGraph, kept: set[str], by_key: dict[str, Kernel], hint: Callable[[Extent], int]
) -> KernelCall:
    axes.finalize(group, hint)
    call = KernelBuilder(group, graph, kept).build(f"kernel_{len(by_key)}")
    call.kernel = by_key.setdefault(call.key, call.kernel)
    return call


def _read_outside(graph: IRGraph, steps: list[Step]) -> list[set[str]]:
    """For each step the buffers it writes that must reach memory: read by another step, returned, or not our own."""
    readers: dict[str, set[int]] = {}
    for k, step in enumerate(steps):
        content = step.content
        names = content.read_names | (content.write_names if isinstance(content, ExternNode) else set(content.written))
        for name in names:
            readers.setdefault(name, set()).add(k)
    returned = graph.returned
    result: list[set[str]] = []
    for k, step in enumerate(steps):
        written = set(step.content.written) if isinstance(step.content, Group) else set()
        result.append(
            {
                name
                for name in written
                if name in returned or graph.buffers[name].kind != "temporary" or readers[name] - {k}
            }
        )
    return result


def remove_unused(graph: IRGraph) -> None:
    """Drop loop nodes whose buffers nobody reads, and extern calls without effects whose results nobody reads."""
    needed = graph.returned
    kept = []
    for node in reversed(graph.nodes):
        fixed = isinstance(node, ExternNode) and (node.ordered or bool(node.symbols) or bool(node.mutates))
        foreign = (
            any(graph.buffers[n].kind != "temporary" for n in node.write_names) if isinstance(node, LoopNode) else False
        )
        if fixed or foreign or not needed.isdisjoint(node.write_names):
            kept.append(node)
            needed |= node.read_names
    graph.nodes[:] = kept[::-1]
