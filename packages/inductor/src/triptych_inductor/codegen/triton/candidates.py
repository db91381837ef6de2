"""Candidate layouts of one kernel, for autotuning: the heuristics' choice first, then its neighbours.

What is varied: block sizes along both directions, warps, stages of loops, how rows are walked and by how many programs.
Layouts that hold too much or too little in a thread are left out; what remains is capped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from triptych_inductor.codegen.triton import columns
from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.generate import make_context, plan
from triptych_inductor.codegen.triton.heuristics import ordered, power_of_2
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT, Layout
from triptych_inductor.codegen.triton.tiles import TileDim, extent_hint
from triptych_inductor.loops.kernel import Kernel

MOST = 40  # candidates of one kernel
_LARGEST_TILE = 32768  # elements
_EACH = (1, 64)  # elements of a tile that a thread may hold


def candidates(kernel: Kernel, facts: DeviceFacts, most: int = MOST) -> list[Layout]:
    """Layouts to try for a kernel, at most `most`. A symbolic extent is taken for a typical one."""
    if kernel.columns is not None:
        base = columns.row_layout(columns.with_exchanged_axes(kernel), facts)
        found = _row_walks(base, facts)
    else:
        stages = make_context(kernel).stages
        base = plan(kernel, facts, stages)
        if base.mirrored:
            return [base]
        found = (
            _points(base)
            if base.reduction is None
            else chain(_in_turn(base, stages, facts), _columns(base, stages), _rows(base))
        )
    unique = dict.fromkeys(str(layout) for layout in (base,))
    kept = [base]
    ahead = not {a.name for a in kernel.inputs} & {a.name for a in kernel.outputs}
    for layout in found:
        if layout.num_stages > 1 and not ahead:
            continue  # a load that runs ahead could overtake a store
        if str(layout) not in unique and _fits(layout, facts):
            unique[str(layout)] = None
            kept.append(layout)
    return kept[:most]


def _fits(layout: Layout, facts: DeviceFacts) -> bool:
    elements = 1
    for block in layout.blocks.values():
        elements *= block
    threads = layout.num_warps * facts.family.warp_size
    enough = _EACH[0] * threads <= elements <= _EACH[1] * threads
    return enough and elements <= _LARGEST_TILE and 1 <= layout.num_warps <= facts.family.max_warps


def _scaled(base: Layout, dim: TileDim, factors: tuple[float, ...]) -> list[int]:
    """Block sizes around a layout's own, no larger than the dimension."""
    largest = power_of_2(extent_hint(dim.numel))
    sizes = [int(layout_size) for layout_size in (base.block(dim) * f for f in factors) if layout_size >= 1]
    return [s for s in dict.fromkeys(sizes) if s <= largest]


def _warps(base: Layout) -> list[int]:
    return [base.num_warps, base.num_warps * 2, base.num_warps // 2]


def _points(base: Layout) -> Iterator[Layout]:
    fastest = base.dims[-1]
    others = base.dims[:-1]
    for warps in _warps(base):
        for size in _scaled(base, fastest, (1, 2, 0.5, 4)):
            if not others:
                yield replace(base, blocks=base.blocks | {fastest.letter: size}, num_warps=warps)
                continue
            slow = others[-1]
            for depth in _scaled(base, slow, (1, 2, 0.5)):
                yield replace(base, blocks=base.blocks | {fastest.letter: size, slow.letter: depth}, num_warps=warps)


def _rows(base: Layout) -> Iterator[Layout]:
    """Whole rows and rows in blocks, of several sizes; first what changes least."""
    reduction = base.reduction
    assert reduction is not None
    fastest = base.outer[-1]
    whole = power_of_2(extent_hint(reduction.numel))
    widths = _scaled(base, fastest, (1, 2, 0.5, 4))
    for warps in _warps(base):
        if isinstance(reduction.numel, int) and whole <= _LARGEST_TILE and base.walk != SPLIT:
            for width in widths:
                blocks = base.blocks | {fastest.letter: width, "r": whole}
                yield replace(base, walk=PERSISTENT, blocks=blocks, num_warps=warps, splits=1, num_stages=1)
    walk = SPLIT if base.walk == SPLIT else LOOPED
    depths = _scaled(base, reduction, (1, 0.5, 2, 0.25, 0.125))
    for stages in (1, 3, 2):
        for depth in (d for d in depths if d < whole):
            for warps in (max(min(depth * base.block(fastest) // 512, 16), 1), base.num_warps):
                blocks = base.blocks | {"r": depth}
                yield replace(base, walk=walk, blocks=blocks, num_warps=warps, num_stages=stages)
    if walk == SPLIT:
        for splits in (base.splits // 2, base.splits * 2):
            if splits > 1:
                yield replace(base, splits=splits)


def _in_turn(base: Layout, stages: Sequence[StageFacts], facts: DeviceFacts) -> Iterator[Layout]:
    """Programs that take the blocks of a shared row in turn, also as many as processors hold at once; for reductions
    whose partial results may be put together in any order."""
    reduction = base.reduction
    if base.walk != SPLIT or reduction is None or ordered(stages):
        return
    for splits in (base.splits, 8 * facts.processors, 4 * facts.processors):
        for depth, ahead in ((1, 1), (2, 1), (4, 1), (1, 3)):
            blocks = base.blocks | {"r": base.block(reduction) * depth}
            if splits > 1 and splits * blocks["r"] <= extent_hint(reduction.numel):
                yield replace(base, blocks=blocks, splits=splits, num_stages=ahead, interleaved=True)


def _columns(base: Layout, stages: Sequence[StageFacts]) -> Iterator[Layout]:
    """Columns that programs would share: narrower tiles in place of shared ones. A shared scan reads its input twice,
    so that for scans more is tried of what reads it once."""
    reduction, fastest = base.reduction, base.outer[-1]
    if base.walk != SPLIT or reduction is None or base.block(fastest) == 1:
        return
    scans = any(s.has_scans for s in stages)
    for ahead in (4, 6) if scans else (4,):
        for width in _scaled(base, fastest, (0.5, 0.25, 1, 0.125) if scans else (1, 0.5, 0.25)):
            for depth in _scaled(base, reduction, (1, 4, 16)):
                blocks = base.blocks | {fastest.letter: width, "r": depth}
                warps = max(width * depth // 512, 1)
                yield replace(base, walk=LOOPED, blocks=blocks, num_warps=warps, num_stages=ahead, splits=1)


def _row_walks(base: Layout, facts: DeviceFacts) -> Iterator[Layout]:
    rows = base.outer[-1]
    for each in (2, 4, 1, 3):
        for warps in _warps(base):
            for depth in _scaled(base, rows, (1, 2, 0.5)):
                programs = columns.walking_programs(int(rows.numel), depth, each, facts)
                for stages in (base.num_stages, base.num_stages + 1, 2):
                    blocks = base.blocks | {rows.letter: depth}
                    yield replace(base, blocks=blocks, num_warps=warps, num_stages=stages, row_programs=programs)
