"""Results that take the place of an operand: a pointwise kernel writes over memory that it is the last to read.

In: kernel calls in order with what each touches. Out: `result -> operand` for each result that may lie where an operand
lay. Sound where every element is read once, by the point that overwrites it with a value made of it: then no order of
points, lanes or threads lets a read come after its write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triptych_inductor.ir.extents import product, same
from triptych_inductor.ir.index import Index, Indirect
from triptych_inductor.ir.nodes import Buffer, ExternNode, IRGraph, walk
from triptych_inductor.loops.handlers import Value
from triptych_inductor.schedule.stages import KernelCall

FRESH = frozenset(
    {
        "aten::convolution",
        "aten::convolution_backward",
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::baddbmm",
        "aten::_softmax",
        "aten::max_pool2d_with_indices",
        "aten::max_pool2d_with_indices_backward",
    }
)
"""Operators whose results are memory that nobody else holds."""


def overwritten(
    steps: Sequence[KernelCall | ExternNode], graph: IRGraph, last: dict[str, int], kept: set[str]
) -> dict[str, str]:
    """result -> operand whose memory it takes over, each operand at most once.

    last: the last step that touches each buffer. kept: buffers that are returned.
    """
    fresh = _fresh(steps)
    found: dict[str, str] = {}
    made: set[str] = set()
    for k, step in enumerate(steps):
        if isinstance(step, KernelCall) and _is_pointwise(step):
            dying = [n for n in step.inputs if last[n] == k and n not in kept and _ours(graph.buffers[n], fresh)]
            apart = (kept, made, step.inputs)
            results = [n for n in step.outputs if not any(n in names for names in apart)]
            found.update(_pairs(step, graph, dying, [n for n in results if graph.buffers[n].kind == "temporary"]))
        made.update([b.name for b in step.outputs if b is not None] if isinstance(step, ExternNode) else step.outputs)
    return found


def _fresh(steps: Sequence[KernelCall | ExternNode]) -> set[str]:
    """Buffers that an operator of `FRESH` makes."""
    made: set[str] = set()
    for step in steps:
        schema = getattr(getattr(step, "target", None), "_schema", None)
        if isinstance(step, ExternNode) and schema is not None and schema.name in FRESH:
            made.update(b.name for b in step.outputs if b is not None)
    return made


def _ours(buffer: Buffer, fresh: set[str]) -> bool:
    return not buffer.aliased and (buffer.kind == "temporary" or (buffer.kind == "extern" and buffer.name in fresh))


def _is_pointwise(call: KernelCall) -> bool:
    kernel = call.kernel
    return len(kernel.stages) == 1 and not kernel.reduction and kernel.columns is None and not kernel.local


def _pairs(call: KernelCall, graph: IRGraph, dying: list[str], results: list[str]) -> Iterator[tuple[str, str]]:
    """(result, operand) of one kernel; operands are taken once."""
    if not dying or not results:
        return
    values = call.kernel.stages[0].body.values  # type: ignore[attr-defined]
    canonical = call.kernel.stages[0].body.names  # type: ignore[attr-defined]
    loads, stores = _accesses(values, canonical, "load"), _accesses(values, canonical, "store")
    there = {name: arg.name for name, arg in zip(call.inputs, call.kernel.inputs, strict=True)}
    written = {name: arg.name for name, arg in zip(call.outputs, call.kernel.outputs, strict=True)}
    points = product(call.kernel.outer)
    for result in results:
        buffer = graph.buffers[result]
        store = _only(stores, written[result])
        if store is None or buffer.aliased or not same(points, buffer.numel):
            continue
        sources = _behind(store)
        for operand in dying:
            load = _only(loads, there[operand])
            if load is None or load.number not in sources or load not in values:
                continue
            if graph.buffers[operand].form == buffer.form and _same_place(load.attrs[1], store.attrs[1]):
                dying.remove(operand)
                yield result, operand
                break


def _accesses(values: list[Value], canonical: dict[str, str], kind: str) -> dict[str, list[Value]]:
    """For each argument of the kernel its accesses of a kind; atomic writes count as writes."""
    found: dict[str, list[Value]] = {}
    for value in walk(values):
        if value.op.startswith(kind):
            found.setdefault(canonical[value.attrs[0]], []).append(value)
    return found


def _only(accesses: dict[str, list[Value]], name: str) -> Value | None:
    """The one plain access of an argument."""
    values = accesses.get(name, [])
    return values[0] if len(values) == 1 and values[0].op in ("load", "store") else None


def _behind(store: Value) -> set[int]:
    """Numbers of the values that a stored one is made of."""
    seen: set[int] = set()
    waiting = list(store.args)
    while waiting:
        value = waiting.pop()
        if value.number in seen:
            continue
        seen.add(value.number)
        waiting.extend(value.args)
        if value.region is not None and value.region.result is not None:
            waiting.append(value.region.result)
    return seen


def _same_place(read: Any, write: Any) -> bool:
    """Whether two addresses are one, and no point shares it with another (nothing that data decides)."""
    if not isinstance(read, Index) or any(isinstance(atom, Indirect) for atom in read.atoms()):
        return False
    return read == write
