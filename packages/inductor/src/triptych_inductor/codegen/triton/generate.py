"""From a `Kernel` to a `TritonProgram`: record, choose tiles and layout, write one function, or two a group when rows
are split.

program = generate(kernel, device_facts(0))
print(program.source)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch

from triptych_inductor.codegen.triton import columns, heuristics, prologue, reductions, split_scans
from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.dtypes import DTYPES, text_of
from triptych_inductor.codegen.triton.facts import ROOTS, StageFacts, analyse, local_definitions
from triptych_inductor.codegen.triton.groups import (
    Root,
    group_stages,
    point_roots,
    spilled_values,
    tile_roots,
    wanted_locals,
)
from triptych_inductor.codegen.triton.indexing import Extent, simplify
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT, Layout, total
from triptych_inductor.codegen.triton.online import online_sums
from triptych_inductor.codegen.triton.records import (
    GridFactor,
    Param,
    TritonFunction,
    TritonProgram,
    Workspace,
    postfix,
)
from triptych_inductor.codegen.triton.scans import scans_of
from triptych_inductor.codegen.triton.sections import SectionWriter
from triptych_inductor.codegen.triton.tiles import TileDim, accesses, choose_tiles
from triptych_inductor.codegen.triton.writer import HEAD, KernelContext, Text
from triptych_inductor.loops.handlers import loop_variables
from triptych_inductor.loops.kernel import Kernel

_SPLIT_AXIS = sympy.Symbol("split", integer=True, nonnegative=True)


@dataclass
class _Made:
    """A finished function and the layout it was written under."""

    writer: SectionWriter
    layout: Layout
    suffix: str


def generate(
    kernel: Kernel, facts: DeviceFacts, *, layout: Layout | None = None, clamped: bool = False
) -> TritonProgram:
    """Triton functions for a kernel.

    Args: `kernel`, the record of scheduling; `facts` of the device; `layout` overrides the heuristics (its dims must
    be those of `plan`); `clamped`: an index out of range means the nearest element, for runs on made-up data. Raises
    `TypeError` for dtypes or ops without Triton text, `ValueError` for records that break the contract.
    """
    if kernel.columns is not None:
        return _with_columns(kernel, facts, layout, clamped)
    context = make_context(kernel, clamped)
    layout = layout or plan(kernel, facts, context.stages)
    if layout.walk == PERSISTENT:
        made = [_whole(context, layout)]
    elif layout.walk == LOOPED:
        made = [_looped(context, layout)]
    else:
        made = _split(context, layout, facts)
    return _program(kernel, context, made)


def _with_columns(kernel: Kernel, facts: DeviceFacts, layout: Layout | None, clamped: bool) -> TritonProgram:
    """Row kernel and column sums in two functions."""
    assert kernel.columns is not None
    rows = columns.with_exchanged_axes(kernel)
    context = make_context(rows, clamped)
    layout = layout or columns.row_layout(rows, facts)
    own = len(kernel.stages)
    sums = columns.sums_of(context.stages[own:])
    roots = _all_roots(context.stages[:own])
    writer, names = columns.write_rows(context, layout, sums, roots, int(kernel.reduction[0]))
    below = make_context(kernel.columns, clamped)
    below.parameters, below.workspaces = context.parameters, context.workspaces
    found = columns.sums_of(below.stages)
    wanted = wanted_locals(below.definitions)
    after = [root for stage in below.stages for root in point_roots(stage, wanted)]
    split = columns.column_layout(kernel, layout)
    join = _combine(below, split, facts, 0, list(zip(found, names, strict=True)), after, {}, frozenset())
    return _program(kernel, context, [_Made(writer, layout, "_rows"), join])


def make_context(kernel: Kernel, clamped: bool = False) -> KernelContext:
    """Recorded stages and names of a kernel."""
    stages = analyse(kernel)
    buffers = {a.name: a.dtype for a in (*kernel.inputs, *kernel.outputs)}
    sizes = [str(s) for s in kernel.sizes]
    context = KernelContext(kernel.name, stages, local_definitions(stages), buffers, sizes, clamped=clamped)
    context.axes = (*loop_variables("i", len(kernel.outer)), *loop_variables("r", len(kernel.reduction)))
    context.row_major = _row_major(kernel)
    context.parameters = _parameter_names(kernel, sizes)
    return context


def _parameter_names(kernel: Kernel, sizes: Sequence[str]) -> dict[str, str]:
    """`in0`, `out0`, `io0` (read and written), `n0`: equal kernels get equal text, and no name hides one of the
    module's."""
    written = {a.name for a in kernel.outputs}
    read = {a.name for a in kernel.inputs}
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for buffer in dict.fromkeys(a.name for a in (*kernel.inputs, *kernel.outputs)):
        word = "in" if buffer not in written else "io" if buffer in read else "out"
        names[buffer] = f"{word}{counts.get(word, 0)}"
        counts[word] = counts.get(word, 0) + 1
    return names | {size: f"n{k}" for k, size in enumerate(sizes)}


def _row_major(kernel: Kernel) -> Any:
    symbols = loop_variables("r", len(kernel.reduction))
    position: Any = sympy.Integer(0)
    for symbol, extent in zip(symbols, kernel.reduction, strict=True):
        position = position * extent + (symbol if extent != 1 else 0)
    return simplify(position)


def plan(kernel: Kernel, facts: DeviceFacts, stages: Sequence[StageFacts]) -> Layout:
    """The layout that the heuristics choose for a kernel."""
    outer = list(zip(loop_variables("i", len(kernel.outer)), kernel.outer, strict=True))
    reduction = list(zip(loop_variables("r", len(kernel.reduction)), kernel.reduction, strict=True))
    reduced = any(s.stage.reduced for s in stages)
    dims = choose_tiles(stages, outer, reduction, reduced)
    found = accesses(stages, dict([*outer, *reduction]))
    numels = [a.numel for a in (*kernel.inputs, *kernel.outputs)]
    layout = heuristics.choose_layout(dims, found, stages, numels, facts)
    if layout.walk == SPLIT and not split_scans.independent(stages, local_definitions(stages)):
        return replace(layout, walk=LOOPED, splits=1)
    return layout


# The three shapes of a program.


def _all_roots(stages: Sequence[StageFacts]) -> list[Root]:
    return [(s, n) for s in stages for n in s.nodes if n.op in ROOTS]


def _whole(context: KernelContext, layout: Layout) -> _Made:
    """One function, whole rows in the tile (or no reduction at all)."""
    writer = SectionWriter(context, layout)
    writer.head += prologue.opening(writer, layout)
    reduction = layout.reduction
    if reduction is not None:
        writer.head += prologue.along(writer, layout, reduction, "")
    writer.run(_all_roots(context.stages))
    return _Made(writer, layout, "")


def _looped(context: KernelContext, layout: Layout) -> _Made:
    """One function with a loop over the reduction axes for each group of stages."""
    writer = SectionWriter(context, layout)
    writer.head += prologue.opening(writer, layout)
    reduction = layout.reduction
    assert reduction is not None
    header = layout.loop("roffset", "0", writer.extent(reduction.numel), reduction.block)
    wanted = wanted_locals(context.definitions)
    groups = group_stages(context.stages, context.definitions)
    spills = _spills(context, layout, groups)
    writer.spilled = {key: (name, dtype) for key, (name, dtype, _) in spills.items()}
    done = False  # the loop of this group has run with the one before
    for group, later in zip(groups, [*groups[1:], None], strict=True):
        along = None if done or later is None else online_sums(group, later, context.definitions)
        if not done:
            writer.online = {id(sum_.top[1]): sum_.total for sum_ in along or ()}
            _loop(writer, group, header, spills)
            writer.finish()
        writer.run([root for stage in group for root in point_roots(stage, wanted)])
        done = along is not None
    return _Made(writer, layout, "")


_Spills = dict[tuple[int, int], tuple[str, torch.dtype, Root]]


def _spills(context: KernelContext, layout: Layout, groups: Sequence[Sequence[StageFacts]]) -> _Spills:
    """Workspaces for the values that pass from loop to loop through memory."""
    reduction = layout.reduction
    assert reduction is not None
    found: _Spills = {}
    for count, (key, root) in enumerate(spilled_values(groups, context.definitions).items()):
        dtype = root[1].dtype
        assert dtype is not None
        name = context.workspace(f"kept{count}", dtype, total(layout.outer) * reduction.numel)
        found[key] = (name, dtype, root)
    return found


def _loop(writer: SectionWriter, group: Sequence[StageFacts], header: str, spills: _Spills) -> None:
    writer.group = frozenset(s.number for s in group)
    kept = [root for _, _, root in spills.values() if root[0].number in writer.group]
    roots = [root for stage in group for root in tile_roots(stage)] + kept
    if not roots:
        return
    layout = writer.layout
    assert layout.reduction is not None
    writer.stay = frozenset(b for s in group for b in s.writes)
    writer.open_loop()
    assert writer.loop is not None
    writer.loop += prologue.along(writer, layout, layout.reduction, "roffset + ")
    writer.run(roots)
    for root in kept:
        writer.keep(*root)
    writer.close_loop([header])
    writer.forget_loop()
    writer.stay = frozenset()


def _split(context: KernelContext, layout: Layout, facts: DeviceFacts) -> list[_Made]:
    """For each group: a function whose programs share rows, and one that combines their results and goes on."""
    wanted = wanted_locals(context.definitions)
    passed: dict[tuple[int, int], tuple[str, Text]] = {}  # values that later functions read from a workspace
    carried: dict[tuple[int, int], list[str]] = {}
    made: list[_Made] = []
    groups = group_stages(context.stages, context.definitions)
    spills = _spills(context, layout, groups)
    for number, group in enumerate(groups):
        partials: list[tuple[Root, list[str]]] = []
        if any(tile_roots(stage) for stage in group):
            writer = _opened(context, layout, passed)
            writer.spilled = {key: (name, dtype) for key, (name, dtype, _) in spills.items()}
            carried |= _starts_of_shares(context, layout, facts, number, group, writer.spilled, passed, made)
            writer.carried = carried  # earlier groups' too: their scans are run again where a later loop reads them
            _loop_chunk(writer, group, layout, spills)
            partials = _store_partials(writer, layout, number)
            made.append(_Made(writer, layout, f"_part{number}"))
        roots = [root for stage in group for root in point_roots(stage, wanted)]
        if partials or roots:
            made.append(_combine(context, layout, facts, number, partials, roots, passed, wanted))
    return made


def _opened(context: KernelContext, layout: Layout, passed: dict[tuple[int, int], tuple[str, Text]]) -> SectionWriter:
    """A writer with its prologue, to which values passed on by earlier functions are known."""
    writer = SectionWriter(context, layout)
    writer.head += prologue.opening(writer, layout)
    flat = writer.flat()
    outer = frozenset(d.position for d in layout.outer)
    masks = writer.mask(outer)
    for key, (name, value) in passed.items():
        suffix = f", {' & '.join(masks)}" if masks else ""
        text = f"tl.load({writer.use(name)} + ({flat}){suffix})"
        writer.values[key] = writer.assign(text, value.dtype, outer, HEAD)
    return writer


def _share(writer: SectionWriter) -> str:
    """What a program's share of a row is; the header of the loop over it."""
    layout = writer.layout
    reduction = layout.reduction
    assert reduction is not None
    length, block = writer.extent(reduction.numel), reduction.block
    if layout.interleaved:
        return layout.loop("roffset", f"split * {block}", f"{length}", f"{layout.splits} * {block}")
    writer.head += [
        f"rchunk = tl.cdiv(tl.cdiv({length}, {layout.splits}), {block}) * {block}",
        "rbegin = split * rchunk",
        f"rend = tl.minimum(rbegin + rchunk, {length})",
    ]
    return layout.loop("roffset", "rbegin", "rend", block)


def _loop_chunk(writer: SectionWriter, group: Sequence[StageFacts], layout: Layout, spills: _Spills) -> None:
    _loop(writer, group, _share(writer), spills)


def _starts_of_shares(
    context: KernelContext,
    layout: Layout,
    facts: DeviceFacts,
    number: int,
    group: Sequence[StageFacts],
    spilled: dict[tuple[int, int], tuple[str, torch.dtype]],
    passed: dict[tuple[int, int], tuple[str, Text]],
    made: list[_Made],
) -> dict[tuple[int, int], list[str]]:
    """Two functions that find what the scans of a group start from in each share of a row; none without scans."""
    scans = scans_of(group)
    if not scans:
        return {}
    if layout.interleaved:
        raise ValueError("programs that take the blocks of a row in turn cannot scan it")
    writer = _opened(context, layout, passed)
    writer.spilled, writer.group = spilled, frozenset(s.number for s in group)
    totals = split_scans.write_totals(writer, scans, number, _share)
    made.append(_Made(writer, layout, f"_total{number}"))
    dim = TileDim("s", ((_SPLIT_AXIS, layout.splits),), layout.splits, len(layout.outer))
    own = heuristics.combine_layout(layout, dim, facts)
    joined = _opened(context, own, {})
    starts = split_scans.write_starts(joined, scans, totals, dim, number)
    made.append(_Made(joined, own, f"_start{number}"))
    return starts


def _store_partials(writer: SectionWriter, layout: Layout, number: int) -> list[tuple[Root, list[str]]]:
    """Store the partial state of every reduction of a loop; which workspaces hold it, by reduction."""
    outer = frozenset(d.position for d in layout.outer)
    points = total(layout.outer)
    address = f"split * {writer.extent(points)} + {writer.flat()}"
    masks = writer.mask(outer)
    suffix = f", {' & '.join(masks)}" if masks else ""
    stored = []
    for count, (stage, node, parts) in enumerate(writer.partial_results()):
        names = []
        for k, part in enumerate(parts):
            name = writer.context.workspace(f"partial{number}_{count}_{k}", part.dtype, points * layout.splits)
            names.append(name)
            writer.line(f"tl.store({writer.use(name)} + ({address}), {part.name}{suffix})", HEAD)
        stored.append(((stage, node), names))
    return stored


def _combine(
    context: KernelContext,
    layout: Layout,
    facts: DeviceFacts,
    number: int,
    partials: Sequence[tuple[Root, list[str]]],
    roots: Sequence[Root],
    passed: dict[tuple[int, int], tuple[str, Text]],
    wanted: frozenset[tuple[int, int]],
) -> _Made:
    """The function that reduces partial states, then does what a group does once an outer point."""
    dim = TileDim("s", ((_SPLIT_AXIS, layout.splits),), layout.splits, len(layout.outer))
    own = heuristics.combine_layout(layout, dim, facts)
    writer = _opened(context, own, passed)
    writer.head += prologue.along(writer, own, dim, "")
    whole = frozenset(d.position for d in own.dims)
    points = writer.extent(total(own.outer))
    masks = writer.mask(whole)
    suffix = f", {' & '.join(masks)}" if masks else ""
    for (stage, node), names in partials:
        kind, dtype = node.attrs
        types = reductions.part_dtypes(kind, dtype, own.wide)
        state = []
        for name, part, word in zip(names, types, reductions.spec(kind).start, strict=True):
            text = f"tl.load({writer.use(name)} + (sindex * {points} + {writer.flat()}){suffix})"
            if own.needs_mask(dim):
                text = f"tl.where(smask, {text}, {reductions.identity_text(word, part, own.wide)}).to({text_of(part)})"
            state.append(writer.assign(text, part, whole, HEAD).name)
        final = reductions.final_text(kind, state, dim.position)
        writer.values[(stage.number, node.number)] = writer.results(kind, dtype, final)
    writer.run(roots)
    _pass_on(writer, own, roots, passed, wanted, number)
    return _Made(writer, own, f"_join{number}")


def _pass_on(
    writer: SectionWriter,
    layout: Layout,
    roots: Sequence[Root],
    passed: dict[tuple[int, int], tuple[str, Text]],
    wanted: frozenset[tuple[int, int]],
    number: int,
) -> None:
    """Store the values that later functions read as locals."""
    outer = frozenset(d.position for d in layout.outer)
    masks = writer.mask(outer)
    suffix = f", {' & '.join(masks)}" if masks else ""
    for count, (stage, node) in enumerate(roots):
        key = (stage.number, node.number)
        if node.op in ROOTS or key not in wanted or key in passed:
            continue
        value = writer.values[key]
        name = writer.context.workspace(f"local{number}_{count}", value.dtype, total(layout.outer))
        shown = value.name if value.dims == outer else f"tl.broadcast_to({value.name}, {layout.shape(outer)})"
        writer.line(f"tl.store({writer.use(name)} + ({writer.flat()}), {shown}{suffix})", HEAD)
        passed[key] = (name, value)


# Assembly.


def _program(kernel: Kernel, context: KernelContext, made: Sequence[_Made]) -> TritonProgram:
    arguments = [*context.buffers, *context.sizes, *context.workspaces]
    position = {name: k for k, name in enumerate(arguments)}
    size_numbers = {name: k for k, name in enumerate(context.sizes)}
    functions = tuple(_function(kernel, context, m, position, size_numbers) for m in made)
    workspaces = tuple(
        Workspace(name, str(dtype).removeprefix("torch."), postfix(simplify(numel), size_numbers))
        for name, (dtype, numel) in context.workspaces.items()
    )
    notes = tuple(str(m.layout) for m in made)
    return TritonProgram(kernel.name, tuple(context.buffers), tuple(context.sizes), workspaces, functions, notes)


def _function(
    kernel: Kernel, context: KernelContext, made: _Made, position: dict[str, int], size_numbers: dict[str, int]
) -> TritonFunction:
    params = []
    for name in sorted(made.writer.used, key=position.__getitem__):
        if name in size_numbers:
            params.append(Param(context.parameters[name], "i64", position[name]))
            continue
        dtype = context.buffers.get(name) or context.workspaces[name][0]
        params.append(Param(context.parameters[name], DTYPES[dtype].pointer, position[name], 16))
    layout = made.layout
    constants = tuple((d.block, layout.block(d)) for d in layout.dims)
    name = _name(context, layout) + made.suffix
    grid: list[GridFactor] = [GridFactor(postfix(d.numel, size_numbers), layout.block(d)) for d in layout.outer]
    if layout.walk == SPLIT:
        grid.append(GridFactor((layout.splits,), 1))
    if layout.row_programs:
        grid = [GridFactor((layout.row_programs,), 1)]
    if layout.mirrored:
        count = -(-int(layout.dims[0].numel) // layout.block(layout.dims[0]))
        grid = [GridFactor((count,), 1), GridFactor((count + 1,), 1)]
    source = _source(name, params, constants, made, kernel.description)
    return TritonFunction(
        name, source, tuple(params), constants, tuple(grid), layout.num_warps, layout.num_stages, made.writer.checked
    )


_PLAIN = frozenset("load store constant cast indirect index_expr local_set local_get where project masked".split())


def _name(context: KernelContext, layout: Layout) -> str:
    """A name that says what a function does, for profiles; made of its content alone, so that equal functions are
    equal."""
    words = [
        f"scan_{node.attrs[0]}" if node.op == "scan" else node.attrs[0] if node.op == "reduce" else node.op
        for stage in context.stages
        for node in stage.recorded.walk()
        if node.op not in _PLAIN and node.op not in ROOTS
    ]
    kind = "points" if layout.reduction is None else "rows"
    text = "_".join(dict.fromkeys(words)) or "copy"
    return f"{kind}_{text[:40].rstrip('_')}"


def _source(
    name: str, params: Sequence[Param], constants: Sequence[tuple[str, int]], made: _Made, description: str
) -> str:
    shown = [p.name for p in params] + [f"{block}: tl.constexpr" for block, _ in constants]
    about = f"{description} " if description else ""
    lines = ["@triton.jit", f"def {name}({', '.join(shown)}):"]
    lines += [f"    # {text}" for text in f"{about}{made.layout}".splitlines()]
    lines += [f"    {text}" for text in made.writer.head]
    return "\n".join(lines) + "\n"


__all__ = ["Extent", "generate", "make_context", "plan"]
