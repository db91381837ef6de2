"""Row kernels with column sums: one function walks rows and keeps the sums of its rows, a second adds those up.

In: a `Kernel` with `columns`. Each program of the first function takes a run of rows; what it does with a row is the
row kernel,
whole rows in registers; the sums stay in registers too and are written once a program.
"""

from __future__ import annotations

from dataclasses import replace

from triptych_inductor.codegen.triton import heuristics, reductions
from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.dtypes import text_of
from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.groups import Root
from triptych_inductor.codegen.triton.layout import PERSISTENT, SPLIT, Layout
from triptych_inductor.codegen.triton.sections import SectionWriter
from triptych_inductor.codegen.triton.tiles import TileDim
from triptych_inductor.codegen.triton.writer import HEAD, LOOP, KernelContext, Text
from triptych_inductor.loops.handlers import Value, loop_variables
from triptych_inductor.loops.kernel import Kernel, Stage

# Measured on an H200 (layer norm backward): 1024 wide .93 of the copy, 4096 wide .65.
_TILE = 4096  # elements of a tile
_SHORT_ROW = 1024  # up to here a thread holds 32 elements, and four programs fit on a processor


def with_exchanged_axes(kernel: Kernel) -> Kernel:
    """The row kernel with the reduced stages of its columns put behind its own, their axes exchanged."""
    assert kernel.columns is not None
    turned = [
        Stage(lambda i, r, body=s.body: body(r, i), True, s.origin)  # type: ignore[misc]
        for s in kernel.columns.stages
        if s.reduced
    ]
    local = [*kernel.local, *[replace(a, per_point=False) for a in kernel.columns.local]]
    return replace(kernel, columns=None, stages=[*kernel.stages, *turned], local=local)


def row_layout(kernel: Kernel, facts: DeviceFacts) -> Layout:
    """Whole rows, walked by a fixed number of programs."""
    (rows,), (columns,) = kernel.outer, kernel.reduction
    (x,), (r,) = loop_variables("i", 1), loop_variables("r", 1)
    dims = (TileDim("x", ((x, rows),), rows, 0), TileDim("r", ((r, columns),), columns, 1))
    width = heuristics.power_of_2(columns)
    depth = max(min(_TILE // width, 16), 1)
    numels = [a.numel for a in (*kernel.inputs, *kernel.outputs)]
    row_bytes = sum(a.dtype.itemsize for a in kernel.inputs if a.numel >= rows * columns)
    each = 4 if width <= _SHORT_ROW else 2
    programs = walking_programs(rows, depth, each, facts)
    return Layout(
        dims,
        {"x": depth, "r": width},
        PERSISTENT,
        heuristics.warps_for(depth * width, 32 if width <= _SHORT_ROW else 16, facts),
        # The next rows are on their way while these are added up.
        num_stages=heuristics.stages_that_fit(2 if depth > 1 else 3, depth * width * row_bytes, facts),
        wide=heuristics.needs_64_bits([*numels, rows * columns]),
        row_programs=programs,
    )


def walking_programs(rows: int, depth: int, each: int, facts: DeviceFacts) -> int:
    """Programs that walk `rows` in tiles of `depth`: about `each` a processor, fewer if then no tile is partial."""
    most = max(min(each * facts.processors, -(-rows // (4 * depth))), 1)
    whole = (p for p in range(most, most - most // 10 - 1, -1) if rows % (p * depth) == 0)
    return next(whole, most)


def column_layout(kernel: Kernel, rows: Layout) -> Layout:
    """The column kernel as if its rows had been split among the programs of the row function."""
    assert kernel.columns is not None
    (columns,) = kernel.columns.outer
    (symbol,) = loop_variables("i", 1)
    dims = (TileDim("x", ((symbol, columns),), columns, 0),)
    return Layout(dims, {"x": 128}, SPLIT, 4, splits=rows.row_programs, wide=rows.wide)


def write_rows(
    context: KernelContext, layout: Layout, sums: list[tuple[StageFacts, Value]], roots: list[Root], columns: int
) -> tuple[SectionWriter, list[list[str]]]:
    """The row function, and the workspaces that hold each program's sums."""
    writer = SectionWriter(context, layout)
    x, r = layout.dims
    each = layout.tiles_each
    writer.head.append("pid = tl.program_id(0)" + (".to(tl.int64)" if layout.wide else ""))
    writer.head.append(f"{r.letter}index = tl.arange(0, {r.block}){layout.expand(r.position)}")
    if layout.needs_mask(r):
        writer.head.append(f"{r.letter}mask = {r.letter}index < {r.numel}")
    states = [_start(writer, k, node) for k, (_, node) in enumerate(sums)]
    writer.stay = frozenset(b for s in context.stages for b in s.writes)
    writer.open_loop()
    assert writer.loop is not None
    writer.loop.append(f"xindex = (pid * {each} + block) * XBLOCK + tl.arange(0, XBLOCK){layout.expand(x.position)}")
    if layout.needs_mask(x):
        writer.loop.append(f"xmask = xindex < {x.numel}")
    writer.run(roots)
    writer.run([(stage, node.args[0]) for stage, node in sums])
    for state, (stage, node) in zip(states, sums, strict=True):
        _add(writer, state, stage, node)
    writer.close_loop([layout.loop("block", str(each))])
    writer.forget_loop()
    return writer, [
        _store(writer, k, state, node, columns) for k, (state, (_, node)) in enumerate(zip(states, sums, strict=True))
    ]


def _start(writer: SectionWriter, number: int, node: Value) -> str:
    kind, dtype = node.attrs
    work = reductions.work_dtype(kind, dtype)
    kept = frozenset({1}) if _folds_rows(writer.layout) else frozenset({0, 1})
    writer.head.append(f"sum{number} = tl.full({writer.layout.shape(kept)}, 0, {text_of(work)})")
    return f"sum{number}"


def _folds_rows(layout: Layout) -> bool:
    """Whether the rows of a tile lie in the same thread (each column's), so that adding them up there is free."""
    x, r = layout.dims
    lanes = layout.num_warps * 32 * 8  # threads, each with sixteen bytes of a half type along the row
    return layout.block(x) > 1 and layout.block(r) >= lanes


def _add(writer: SectionWriter, state: str, stage: StageFacts, node: Value) -> None:
    """Add a tile of rows to a program's sums, rows past the end left out."""
    kind, dtype = node.attrs
    work = reductions.work_dtype(kind, dtype)
    value: Text = writer.get(stage, node.args[0])
    text = value.name if value.dtype is work else f"{value.name}.to({text_of(work)})"
    spread = writer.tile(Text(text, work, value.dims))
    masked = writer.layout.needs_mask(writer.layout.dims[0])
    if _folds_rows(writer.layout):
        spread = f"tl.where(xmask, {spread}, 0)" if masked else spread
        new = f"{state} + tl.sum({spread}, 0)[None, :]"
    else:
        new = f"{state} + {spread}"
        new = f"tl.where(xmask, {new}, {state})" if masked else new
    writer.line(f"{state} = ({new}).to({text_of(work)})", LOOP)


def _store(writer: SectionWriter, number: int, state: str, node: Value, columns: int) -> list[str]:
    """Write a program's sums; the names of the workspaces (one for each part of the state)."""
    kind, dtype = node.attrs
    layout = writer.layout
    name = f"partial0_{number}_0"
    writer.context.workspace(name, reductions.work_dtype(kind, dtype), columns * layout.row_programs)
    total = f"tl.sum({state}, 0)[None, :]" if layout.blocks["x"] > 1 and not _folds_rows(layout) else state
    suffix = ", rmask" if layout.needs_mask(layout.dims[1]) else ""
    writer.line(f"tl.store({writer.use(name)} + (pid * {columns} + rindex), {total}{suffix})", HEAD)
    return [name]


def sums_of(stages: list[StageFacts]) -> list[tuple[StageFacts, Value]]:
    """All reductions of stages, in order."""
    return [(stage, node) for stage in stages for node in stage.reductions]
