"""Block sizes, warps and the walk over the reduction axes, from shapes, dtypes and device facts.

Rules of thumb, each with its reason beside it; `choose_layout` is the only entry. Measured on an H200 with
`tools/gpu/kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.indexing import Extent
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT, Layout, total
from triptych_inductor.codegen.triton.online import is_one_loop
from triptych_inductor.codegen.triton.tiles import Access, TileDim, contiguous_share, extent_hint, reads_mirrored
from triptych_inductor.loops.table import ORDERED_REDUCTIONS

_LONGEST_ROW = 32768  # elements of a row that one program keeps in registers (32 warps, 32 elements a thread)
_SPLIT_ROW = 4096  # shortest piece of a row that is worth a program of its own
_SCATTERED_PIECE = 512  # the same where elements lie far apart
_LIMIT_32 = 2**31 - 2**20  # 32-bit indices may reach one tile past the end


def power_of_2(value: int) -> int:
    """The smallest power of two that is at least `value`."""
    return 1 << max(value - 1, 0).bit_length()


def choose_layout(
    dims: Sequence[TileDim],
    found: Sequence[Access],
    stages: Sequence[StageFacts],
    numels: Sequence[Extent],
    facts: DeviceFacts,
) -> Layout:
    """The layout of a kernel whose tile dimensions are `dims` and whose buffers have `numels` elements."""
    wide = needs_64_bits([*numels, total(tuple(dims))])
    reduction = next((d for d in dims if d.letter == "r"), None)
    if reduction is None:
        layout = _pointwise(tuple(dims), found, facts, wide)
        return replace(layout, mirrored=True) if _can_mirror(layout, stages) else layout
    inner = contiguous_share(found, reduction) >= 0.5 or extent_hint(total(_outer(dims))) == 1
    if inner:
        return _row_reduction(tuple(dims), reduction, found, stages, facts, wide)
    return _column_reduction(tuple(dims), reduction, stages, facts, wide)


def _can_mirror(layout: Layout, stages: Sequence[StageFacts]) -> bool:
    """Square tiles, an even number of them along each side, and a buffer read both ways."""
    if not reads_mirrored(stages, layout.dims) or len(set(layout.blocks.values())) != 1:
        return False
    numel = layout.dims[0].numel
    return isinstance(numel, int) and -(-numel // layout.block(layout.dims[0])) % 2 == 0


def _outer(dims: Sequence[TileDim]) -> tuple[TileDim, ...]:
    return tuple(d for d in dims if d.letter != "r")


def needs_64_bits(numels: Sequence[Extent]) -> bool:
    """Whether some index may leave 32 bits; symbolic sizes may."""
    return any(not isinstance(n, int) or n > _LIMIT_32 for n in numels)


def warps_for(elements: int, each: int, facts: DeviceFacts) -> int:
    """Warps so that a thread holds about `each` elements of a tile."""
    threads = max(elements // each, 1)
    return min(max(power_of_2(-(-threads // facts.family.warp_size)), 1), facts.family.max_warps)


def _narrowest(found: Sequence[Access]) -> int:
    return min((a.itemsize for a in found if a.points > 1), default=4)


def _pointwise(dims: tuple[TileDim, ...], found: Sequence[Access], facts: DeviceFacts, wide: bool) -> Layout:
    """1-D: eight elements a thread, sixteen bytes of a half type. 2-D: square tiles, whose sides both make whole
    lines."""
    if len(dims) == 1:
        numel = extent_hint(dims[0].numel)
        block = 1024
        while block > 128 and -(-numel // block) < facts.processors:
            block //= 2  # rather all processors with little work than few with much
        block = min(block, power_of_2(numel))
        return Layout(dims, {dims[0].letter: block}, PERSISTENT, warps_for(block, 8, facts), wide=wide)
    side = 64 if len(dims) == 2 and _narrowest(found) <= 2 else (32 if len(dims) == 2 else 16)
    blocks = {d.letter: min(side, power_of_2(extent_hint(d.numel))) for d in dims}
    target = side ** len(dims)
    for dim in reversed(dims):  # what a short dimension leaves free goes to the others
        while _elements(blocks) < target and blocks[dim.letter] < min(256, power_of_2(extent_hint(dim.numel))):
            blocks[dim.letter] *= 2
    return Layout(dims, blocks, PERSISTENT, warps_for(_elements(blocks), 16, facts), wide=wide)


def _elements(blocks: dict[str, int]) -> int:
    product = 1
    for block in blocks.values():
        product *= block
    return product


def _row_reduction(
    dims: tuple[TileDim, ...],
    reduction: TileDim,
    found: Sequence[Access],
    stages: Sequence[StageFacts],
    facts: DeviceFacts,
    wide: bool,
) -> Layout:
    """Rows that are contiguous along the reduction: whole rows in registers where they fit, else in blocks.

    A single row has its next blocks on their way: a sum of 2^30 numbers took 527 µs on an H200 instead of 545.
    """
    rows = extent_hint(total(_outer(dims)))
    length = extent_hint(reduction.numel)
    if length > 8192 and rows >= 4 * facts.processors and is_one_loop(stages):
        return _online_rows(dims, reduction, found, rows, facts, wide)
    passes = sum(1 for s in stages if s.stage.reduced)
    longest = _LONGEST_ROW if passes > 1 else 8192  # a single pass streams as well in blocks
    if isinstance(reduction.numel, int) and power_of_2(length) <= longest and not _few_rows(rows, length, facts):
        return _whole_rows(dims, reduction, found, rows, stages, facts, wide)
    piece = _SCATTERED_PIECE if _is_scattered(found, reduction) else _SPLIT_ROW
    splits = _splits(rows, length, piece, facts)
    block = min(power_of_2(length), 4096 if splits == 1 or length > 65536 else 2048, piece)
    blocks = {d.letter: 1 for d in _outer(dims)} | {"r": block}
    walk = SPLIT if splits > 1 else LOOPED
    warps = warps_for(block, 16, facts)
    each = _bytes_read(found, reduction)
    ahead = stages_that_fit(3, block * each, facts) if splits > 1 and rows == passes == 1 and not ordered(stages) else 1
    return Layout(dims, blocks, walk, warps, num_stages=ahead, splits=splits, wide=wide)


def ordered(stages: Sequence[StageFacts]) -> bool:
    """Whether partial results may only be put together in the order of the elements."""
    return any(s.has_scans or any(n.attrs[0] in ORDERED_REDUCTIONS for n in s.reductions) for s in stages)


def _bytes_read(found: Sequence[Access], reduction: TileDim) -> int:
    """Of each element of a row."""
    return sum(a.itemsize for a in found if not a.is_store and not reduction.symbols.isdisjoint(a.strides))


def _few_rows(rows: int, length: int, facts: DeviceFacts) -> bool:
    return rows * 4 < facts.processors and length >= 2 * _SPLIT_ROW


def _whole_rows(
    dims: tuple[TileDim, ...],
    reduction: TileDim,
    found: Sequence[Access],
    rows: int,
    stages: Sequence[StageFacts],
    facts: DeviceFacts,
    wide: bool,
) -> Layout:
    row = power_of_2(extent_hint(reduction.numel))
    blocks = {d.letter: 1 for d in _outer(dims)} | {"r": row}
    fastest = _outer(dims)[-1]
    # Short rows: several to a program, as long as every processor still has some.
    while (
        _elements(blocks) < 2048
        and blocks[fastest.letter] < power_of_2(extent_hint(fastest.numel))
        and rows // (2 * blocks[fastest.letter]) >= 2 * facts.processors
    ):
        blocks[fastest.letter] *= 2
    # Steps across threads cost less with fewer threads that have more of the row each, as long as it fits into their
    # registers: 4096 wide on an H200, argmax .93 of the copy instead of .82, softmax forward and backward .98, not .92.
    few = len([a for a in found if not reduction.symbols.isdisjoint(a.strides)]) <= 4
    positions = any(n.attrs[0] in ORDERED_REDUCTIONS for s in stages for n in s.reductions)
    each = 32 if row > 16384 or (few and row >= (1024 if positions else 2048)) else 16
    return Layout(dims, blocks, PERSISTENT, warps_for(_elements(blocks), each, facts), wide=wide)


def _online_rows(
    dims: tuple[TileDim, ...],
    reduction: TileDim,
    found: Sequence[Access],
    rows: int,
    facts: DeviceFacts,
    wide: bool,
) -> Layout:
    """A row to a program of as few warps as fill the processors: each block's maximum is waited for by all of them.

    Rows of 32768 on an H200: one warp .98 of the copy, eight .75, whole rows in 32 warps .59.
    """
    warps = min(power_of_2(-(-16 * facts.processors // rows)), 8)
    block = 16 * warps * facts.family.warp_size
    ahead = stages_that_fit(3, block * _bytes_read(found, reduction), facts)
    blocks = {d.letter: 1 for d in _outer(dims)} | {"r": block}
    return Layout(dims, blocks, LOOPED, warps, num_stages=ahead, wide=wide)


def stages_that_fit(wanted: int, tile_bytes: int, facts: DeviceFacts) -> int:
    """Stages of a loop so that two programs fit on a processor; loads of all but one stage lie in shared memory."""
    while wanted > 1 and (wanted - 1) * tile_bytes > facts.shared_bytes // 2:
        wanted -= 1
    return wanted


def _is_scattered(found: Sequence[Access], reduction: TileDim) -> bool:
    """Whether some load jumps from element to element of a row: it waits for memory, and many programs wait at once."""
    return any(
        not reduction.symbols.isdisjoint(a.strides) and a.unit_axis() not in reduction.symbols
        for a in found
        if not a.is_store
    )


def _splits(programs: int, length: int, piece: int, facts: DeviceFacts) -> int:
    """Programs that share a row, so that there are about eight a processor, each with a `piece` at least."""
    wanted = -(-8 * facts.processors // max(programs, 1))
    if programs >= 2 * facts.processors:
        return 1
    return max(min(power_of_2(wanted), power_of_2(length // piece) if length >= piece else 1, 1024), 1)


def _column_reduction(
    dims: tuple[TileDim, ...], reduction: TileDim, stages: Sequence[StageFacts], facts: DeviceFacts, wide: bool
) -> Layout:
    """Kept axis contiguous: a tile of whole lines along it, several rows deep."""
    outer = _outer(dims)
    fastest = outer[-1]
    width = min(128, power_of_2(extent_hint(fastest.numel)))
    blocks = {d.letter: 1 for d in outer} | {fastest.letter: width}
    scans = any(s.has_scans for s in stages)
    length = extent_hint(reduction.numel)
    # A scan down the columns: few rows at a time, so that most of it happens inside of a thread.
    depth = max(min(power_of_2(length), (512 if scans else 4096) // width), 1)
    tiles = -(-extent_hint(total(outer)) // width)
    if isinstance(reduction.numel, int) and power_of_2(length) <= depth:
        blocks["r"] = power_of_2(length)
        return Layout(dims, blocks, PERSISTENT, warps_for(_elements(blocks), 16, facts), wide=wide)
    blocks["r"] = depth
    wanted = -(-8 * facts.processors // tiles) if tiles < 4 * facts.processors else 1
    splits = max(min(power_of_2(wanted), power_of_2(length // (2 * depth)) if length >= 4 * depth else 1, 1024), 1)
    walk = SPLIT if splits > 1 else LOOPED
    warps = warps_for(_elements(blocks), 16, facts)
    return Layout(dims, blocks, walk, warps, num_stages=3 if scans else 1, splits=splits, wide=wide)


def combine_layout(layout: Layout, dim: TileDim, facts: DeviceFacts) -> Layout:
    """The layout of the function that combines the partial results of a split reduction along `dim`."""
    depth = power_of_2(extent_hint(dim.numel))
    fastest = layout.outer[-1]
    width = max(min(power_of_2(extent_hint(fastest.numel)), 64, 8192 // depth), 1)
    blocks = {d.letter: 1 for d in layout.outer} | {fastest.letter: width, dim.letter: depth}
    return Layout((*layout.outer, dim), blocks, PERSISTENT, warps_for(_elements(blocks), 8, facts), wide=layout.wide)
