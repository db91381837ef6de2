"""The first lines of a function: which tile a program has, and the index and mask of each tile dimension."""

from __future__ import annotations

from triptych_inductor.codegen.triton.layout import SPLIT, Layout
from triptych_inductor.codegen.triton.tiles import TileDim
from triptych_inductor.codegen.triton.writer import Writer


def opening(writer: Writer, layout: Layout) -> list[str]:
    """The program's number taken apart, and the index and mask of each outer dimension."""
    lines = ["pid = tl.program_id(0)" + (".to(tl.int64)" if layout.wide else "")]
    if layout.mirrored:
        return lines + _mirrored_tiles(writer, layout)
    left = "pid"
    outer = list(reversed(layout.outer))
    for dim in outer:
        last = dim is outer[-1] and layout.walk != SPLIT
        single = isinstance(dim.numel, int) and dim.numel <= layout.block(dim)
        if single:
            place = "0"
        elif last:
            place = left
        else:
            lines.append(f"{dim.letter}tiles = {_tiles(writer, layout, dim)}")
            place = f"({left} % {dim.letter}tiles)"
        offsets = f"tl.arange(0, {dim.block}){layout.expand(dim.position)}"
        lines.append(f"{dim.letter}index = " + (offsets if single else f"{place} * {dim.block} + {offsets}"))
        if layout.needs_mask(dim):
            lines.append(f"{dim.letter}mask = {dim.letter}index < {writer.extent(dim.numel)}")
        if not last and not single:
            lines.append(f"{dim.letter}rest = {left} // {dim.letter}tiles")
            left = f"{dim.letter}rest"
    if layout.walk == SPLIT:
        lines.append(f"split = {left}")
    return lines


def _mirrored_tiles(writer: Writer, layout: Layout) -> list[str]:
    """Programs 2k and 2k+1 take tiles (a, b) and (b, a) of the k-th pair below the diagonal.

    Rows a and n-1-a of that triangle together hold n+1 tiles, so that the pairs fill a rectangle.
    """
    y, x = layout.dims
    count = -(-int(y.numel) // layout.block(y))
    lines = [
        f"tile = (pid // 2) % {count + 1}",
        f"row = (pid // 2) // {count + 1}",
        f"below = tl.where(tile <= row, row, {count - 1} - row)",
        "beside = tl.where(tile <= row, tile, tile - row - 1)",
    ]
    for dim, places in ((y, "below, beside"), (x, "beside, below")):
        offsets = f"tl.arange(0, {dim.block}){layout.expand(dim.position)}"
        lines.append(f"{dim.letter}index = tl.where(pid % 2 == 0, {places}) * {dim.block} + {offsets}")
        if layout.needs_mask(dim):
            lines.append(f"{dim.letter}mask = {dim.letter}index < {writer.extent(dim.numel)}")
    return lines


def _tiles(writer: Writer, layout: Layout, dim: TileDim) -> str:
    if isinstance(dim.numel, int):
        return str(-(-dim.numel // layout.block(dim)))
    return f"tl.cdiv({writer.extent(dim.numel)}, {dim.block})"


def along(writer: Writer, layout: Layout, dim: TileDim, offset: str) -> list[str]:
    """Index and mask along the reduction axes."""
    width = ".to(tl.int64)" if layout.wide else ""
    lines = [f"{dim.letter}index = {offset}tl.arange(0, {dim.block}){layout.expand(dim.position)}{width}"]
    if layout.needs_mask(dim):
        lines.append(f"{dim.letter}mask = {dim.letter}index < {writer.extent(dim.numel)}")
    return lines
