"""`schedule`: from an `IRGraph` to a `Program`, the ordered list of kernel calls and extern calls with their memory
plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from triptych_inductor.backends import CODE_GENERATORS
from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.nodes import ExternNode, IRGraph, LoopNode
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.options import Options
from triptych_inductor.schedule import axes, memory
from triptych_inductor.schedule.columns import pair_columns
from triptych_inductor.schedule.fuse import Step, describe, fuse
from triptych_inductor.schedule.groups import Group
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
    program = Program(graph, description=describe(steps))
    by_key: dict[str, Kernel] = {}
    outside = _read_outside(graph, steps)
    for k, step in enumerate(steps):
        if isinstance(step.content, ExternNode):
            program.steps.append(step.content)
        else:
            program.steps.append(_kernel_call(step.content, graph, outside[k], by_key, hint))
    program.steps = pair_columns(
        program.steps, lambda device: device.type in CODE_GENERATORS and CODE_GENERATORS[device.type].pairs
    )
    usages = [_usage(step, graph) for step in program.steps]
    usages.append(memory.Usage(graph.returned, []))
    over: dict[str, str] = {}
    if options.inplace_buffers:
        over = overwritten(program.steps, graph, memory.Lifetimes.of(graph, usages).last, graph.returned)
    arenas = options.memory_arenas and options.inplace_buffers
    program.memory = memory.plan(graph, usages, options.inplace_buffers, hint, arenas, over)
    program.description += "".join(f"\n{arena}" for step in program.memory for arena in step.opens)
    program.kernels = _distinct(program.steps)
    return program


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
