"""Results that take the place of an operand: a kernel of one loop writes over memory that it is the last to read.

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
from triptych_inductor.loops.kernel import Stage
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
        loop = _loop(step) if isinstance(step, KernelCall) else None
        if isinstance(step, KernelCall) and loop is not None:
            dying = [n for n in step.inputs if last[n] == k and n not in kept and _ours(graph.buffers[n], fresh)]
            results = [n for n in step.outputs if n not in made and n not in step.inputs]
            results = [n for n in results if graph.buffers[n].kind == "temporary"]
            found.update(_pairs(step, graph, loop, dying, results, kept))
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


def _loop(call: KernelCall) -> Stage | None:
    """The stage that runs over all points, where the kernel has just one such loop and reads in it once; else None.

    Stages beside it, over outer axes alone, have results of its reductions. A scan may go through its input twice.
    """
    kernel = call.kernel
    if kernel.columns is not None or any(not local.per_point for local in kernel.local):
        return None
    loops = [stage for stage in kernel.stages if stage.reduced] if kernel.reduction else kernel.stages
    if len(loops) != 1 or any(value.op == "scan" for value in walk(loops[0].body.values)):  # type: ignore[attr-defined]
        return None
    return loops[0]


def _pairs(
    call: KernelCall, graph: IRGraph, loop: Stage, dying: list[str], results: list[str], kept: set[str]
) -> Iterator[tuple[str, str]]:
    """(result, operand) of one kernel; operands are taken once."""
    if not dying or not results:
        return
    values = loop.body.values  # type: ignore[attr-defined]
    loads, stores = _accesses([loop], "load"), _accesses([loop], "store")
    beside = [stage for stage in call.kernel.stages if stage is not loop]
    elsewhere = {*_accesses(beside, "load"), *_accesses(beside, "store")}
    there = {name: arg.name for name, arg in zip(call.inputs, call.kernel.inputs, strict=True)}
    written = {name: arg.name for name, arg in zip(call.outputs, call.kernel.outputs, strict=True)}
    points = product((*call.kernel.outer, *call.kernel.reduction))
    for result in results:
        buffer = graph.buffers[result]
        store = _only(stores, written[result])
        if store is None or written[result] in elsewhere or buffer.aliased or not same(points, buffer.numel):
            continue
        sources = _behind(store)
        for operand in dying:
            load = _only(loads, there[operand])
            if load is None or there[operand] in elsewhere or load.number not in sources or load not in values:
                continue
            if _fits(graph.buffers[operand], buffer, result in kept) and _same_place(load.attrs[1], store.attrs[1]):
                dying.remove(operand)
                yield result, operand
                break


def _accesses(stages: Sequence[Stage], kind: str) -> dict[str, list[Value]]:
    """For each argument of the kernel its accesses of a kind in some stages; atomic writes count as writes."""
    found: dict[str, list[Value]] = {}
    for stage in stages:
        canonical = stage.body.names  # type: ignore[attr-defined]
        for value in walk(stage.body.values):  # type: ignore[attr-defined]
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


def _fits(operand: Buffer, result: Buffer, kept: bool) -> bool:
    """Whether the result has the operand's form, or is another view of as many elements, which does not go out."""
    if operand.form == result.form or kept:
        return operand.form == result.form
    static = all(type(n) is int for b in (operand, result) for n in (*b.size, *b.stride))
    kinds = (operand.dtype, operand.device) == (result.dtype, result.device)
    return static and kinds and operand.extent == result.extent


def _same_place(read: Any, write: Any) -> bool:
    """Whether two addresses are one, and no point shares it with another (nothing that data decides)."""
    if not isinstance(read, Index) or any(isinstance(atom, Indirect) for atom in read.atoms()):
        return False
    return read == write
