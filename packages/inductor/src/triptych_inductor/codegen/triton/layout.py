"""The layout of one function: tile dimensions with block sizes, how the reduction axes are walked, warps, index width.

A layout is made by the heuristics (`heuristics.py`) and read by the writer; print it to see what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from triptych_inductor.codegen.triton.indexing import Extent
from triptych_inductor.codegen.triton.tiles import TileDim

PERSISTENT = "persistent"  # the reduction axes fit into one tile (or there are none)
LOOPED = "looped"  # one program walks the reduction axes in blocks
SPLIT = "split"  # several programs share a row: partial results, then a function that combines them


@dataclass(frozen=True)
class Layout:
    """`blocks`: block size by letter. `walk`: one of the three words above. `splits`: programs that share a row
    (`SPLIT`).

    `wide`: indices have 64 bits. `mirrored`: tiles (a, b) and (b, a) of a square are neighbours in time, so that a
    buffer that
    both read, one of them transposed, comes from memory once.
    `interleaved`: programs that share a row take its blocks in turn (else each a piece): what all of them read at one
    time lies together. `row_programs`: that many programs walk the outer points in a loop (0: a program has one tile).
    """

    dims: tuple[TileDim, ...]
    blocks: dict[str, int]
    walk: str
    num_warps: int
    num_stages: int = 1
    splits: int = 1
    wide: bool = False
    mirrored: bool = False
    row_programs: int = 0
    interleaved: bool = False

    @property
    def outer(self) -> tuple[TileDim, ...]:
        return tuple(d for d in self.dims if d.letter not in "rs")

    @property
    def reduction(self) -> TileDim | None:
        return next((d for d in self.dims if d.letter in "rs"), None)

    def block(self, dim: TileDim) -> int:
        return self.blocks[dim.letter]

    def needs_mask(self, dim: TileDim) -> bool:
        """Whether some tile reaches past the end of `dim`."""
        if self.row_programs and dim.letter not in "rs":
            return dim.numel != self.row_programs * self.tiles_each * self.block(dim)
        if isinstance(dim.numel, int):
            return dim.numel % self.block(dim) != 0
        return self.block(dim) != 1

    @property
    def tiles_each(self) -> int:
        """Tiles that each program walks, where programs walk rows (static sizes)."""
        tiles = 1
        for dim in self.outer:
            tiles *= -(-int(dim.numel) // self.block(dim))
        return -(-tiles // max(self.row_programs, 1))

    def loop(self, name: str, *bounds: str) -> str:
        """Header of a loop. With stages, loads of later blocks are under way while earlier ones are computed."""
        if self.num_stages > 1:
            return f"for {name} in tl.range({', '.join(bounds)}, num_stages={self.num_stages}):"
        return f"for {name} in range({', '.join(bounds)}):"

    def shape(self, positions: frozenset[int]) -> str:
        """Text of the shape of a value that varies along the dimensions at `positions`."""
        return "[" + ", ".join(d.block if d.position in positions else "1" for d in self.dims) + "]"

    def expand(self, position: int) -> str:
        """Text of the subscript that puts a one-dimensional range along the dimension at `position`."""
        if len(self.dims) == 1:
            return ""
        return "[" + ", ".join(":" if d.position == position else "None" for d in self.dims) + "]"

    def keep(self) -> str:
        """Text of the subscript that puts a reduced axis back, with extent 1."""
        return "[" + ", ".join([":"] * (len(self.dims) - 1) + ["None"]) + "]"

    def __str__(self) -> str:
        tile = " x ".join(f"{d.letter}:{self.block(d)} of {d.numel}" for d in self.dims)
        turns = " in turn" if self.interleaved else ""
        split = f", {self.splits} splits{turns}" if self.walk == SPLIT else ""
        width = 64 if self.wide else 32
        if self.row_programs:
            split = f", rows walked by {self.row_programs} programs"
        order = ", mirrored tiles" if self.mirrored else ""
        stages = f", {self.num_stages} stages" if self.num_stages > 1 else ""
        return f"{self.walk} [{tile}], {self.num_warps} warps{stages}{split}, {width}-bit indices{order}"


def total(dims: tuple[TileDim, ...]) -> Extent:
    """Product of the extents of dimensions."""
    result: Extent = 1
    for dim in dims:
        result = result * dim.numel
    return result
