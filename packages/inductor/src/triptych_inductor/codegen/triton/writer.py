"""Writes one Triton function: lines, names, indices and masks. `nodes.py` adds the text of values on top of it.

Lines go to one of two places: `HEAD`, the function's own level, or `LOOP`, the loop over the reduction axes that is
being
written. A value that does not vary along the reduction axes goes to the head even while a loop is open, which moves
it out of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from triptych_inductor.codegen.triton.dtypes import DTYPES
from triptych_inductor.codegen.triton.facts import LocalDef, StageFacts
from triptych_inductor.codegen.triton.indexing import Extent, Printer, linear_terms, runs
from triptych_inductor.codegen.triton.layout import Layout
from triptych_inductor.codegen.triton.tiles import TileDim

HEAD, LOOP = 0, 1


@dataclass(frozen=True)
class Text:
    """An emitted value: its text (a name or a literal), dtype, the tile dimensions it varies along, and its place."""

    name: str
    dtype: torch.dtype
    dims: frozenset[int]
    place: int = HEAD


@dataclass
class KernelContext:
    """What the functions of one kernel share."""

    name: str
    stages: list[StageFacts]
    definitions: dict[tuple[int, int], LocalDef]
    buffers: dict[str, torch.dtype]  # in the order of the program's arguments
    sizes: list[str]
    workspaces: dict[str, tuple[torch.dtype, Extent]] = field(default_factory=dict)
    axes: tuple[sympy.Symbol, ...] = ()  # loop variables of all axes
    row_major: Any = 0  # position in the row-major order of the reduction axes
    parameters: dict[str, str] = field(default_factory=dict)  # names in the text: the same for equal kernels
    clamped: bool = False  # indices are brought into their range, not checked

    def rising(self, dim: TileDim) -> bool:
        """Whether the row-major position of reduction points grows along a tile dimension."""
        kept = [s for s in self.axes if s in dim.symbols]
        return kept == [s for s, _ in dim.axes]

    def workspace(self, name: str, dtype: torch.dtype, numel: Extent) -> str:
        """Declare memory that outlives a function, and give its name."""
        self.workspaces.setdefault(name, (dtype, numel))
        self.parameters[name] = name
        return name


class Writer:
    """Lines of one function under a layout. Not reusable."""

    def __init__(self, context: KernelContext, layout: Layout) -> None:
        self.context = context
        self.layout = layout
        self.head: list[str] = []
        self.loop: list[str] | None = None
        self.used: set[str] = set()  # buffers, sizes and workspaces that become parameters
        self.checked = False
        self.region: Text | None = None  # mask of the innermost `masked`
        self._known: list[dict[Any, Text]] = [{}]
        self._count = 0
        self._axis_dim: dict[sympy.Symbol, TileDim] = {s: d for d in layout.dims for s in d.symbols}
        self._ones = frozenset(context.axes) - frozenset(self._axis_dim)  # axes of extent 1
        self._axes = frozenset(context.axes) | frozenset(self._axis_dim)

    # Lines and values.

    def line(self, text: str, place: int) -> None:
        """Append a line to the head or to the open loop."""
        (self.loop if place == LOOP and self.loop is not None else self.head).append(text)

    def place_of(self, dims: frozenset[int], *values: Text) -> int:
        """Where a value that varies along `dims` and uses `values` is computed."""
        if self.loop is None:
            return HEAD
        return LOOP if self.moving & dims or any(v.place == LOOP for v in values) else HEAD

    @property
    def moving(self) -> frozenset[int]:
        """Tile dimensions that an open loop walks along."""
        walked = self.layout.outer if self.layout.row_programs else self.layout.dims[len(self.layout.outer) :]
        return frozenset(d.position for d in walked)

    @property
    def result_place(self) -> int:
        """Where results of reductions are made: behind a loop over the reduction axes, but inside one over rows."""
        return LOOP if self.loop is not None and self.layout.row_programs else HEAD

    def assign(self, text: str, dtype: torch.dtype, dims: frozenset[int], place: int, key: Any = None) -> Text:
        """A new name for an expression, or the name it already has in this scope."""
        key = (text, dtype) if key is None else key
        found = self.known(key)
        if found is not None:
            return found
        value = Text(f"t{self._count}", dtype, dims, place)
        self._count += 1
        self.line(f"{value.name} = {text}", place)
        self.remember(key, value)
        return value

    def known(self, key: Any) -> Text | None:
        """The value remembered under `key` in an open scope."""
        for scope in reversed(self._known):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: Any, value: Text) -> None:
        """Remember a value as long as its place is in scope."""
        self._known[-1 if value.place == LOOP else 0][key] = value

    def open_loop(self) -> None:
        """From now on values that vary along the reduction axes go into a loop."""
        self.loop = []
        self._known.append({})

    def close_loop(self, header: Sequence[str]) -> None:
        """End the loop: its lines follow `header` (whose last line opens the block) in the head."""
        assert self.loop is not None
        self.head += [*header, *("    " + text for text in self.loop)]
        self.loop = None
        self._known.pop()

    # Sizes and indices.

    def use(self, name: str) -> str:
        """Make a buffer, size or workspace a parameter of this function, and give its name in the text."""
        self.used.add(name)
        return self.context.parameters[name]

    def extent(self, value: Extent) -> str:
        """Text of an extent."""
        return Printer(lambda s: self.use(str(s)))(value)

    def index_var(self, dim: TileDim, inner: Extent, span: Extent | None) -> Text:
        """`(index // inner) % span` of a tile dimension, named."""
        dims = frozenset({dim.position})
        place = self.place_of(dims)
        if inner == 1 and span is None:
            return Text(f"{dim.letter}index", torch.int64, dims, place)
        text = f"{dim.letter}index" if inner == 1 else f"{dim.letter}index // {self.extent(inner)}"
        if span is not None:
            text = f"{text} % {self.extent(span)}" if inner == 1 else f"({text}) % {self.extent(span)}"
        return self.assign(text, torch.int64, dims, place)

    def axis(self, symbol: sympy.Symbol) -> Text:
        """The loop variable of one axis."""
        dim = self._axis_dim[symbol]
        ((_, inner, span),) = runs(dim.axes, {symbol: 1})
        return self.index_var(dim, inner, span)

    def address(self, expr: Any, indirect: dict[sympy.Symbol, Text]) -> Text:
        """An index expression as (unnamed) text, with the dimensions it varies along."""
        terms, rest = linear_terms(expr, self._axes)
        parts: list[str] = []
        pieces: list[Text] = []
        if not isinstance(rest, int):
            parts.append(self._rest(rest, indirect, pieces))
        for dim in self.layout.dims:
            own = {s: c for s, c in terms.items() if s in dim.symbols}
            for stride, inner, span in runs(dim.axes, own) if own else ():
                piece = self.index_var(dim, inner, span)
                pieces.append(piece)
                parts.append(piece.name if stride == 1 else f"{self.extent(stride)} * {piece.name}")
        if isinstance(rest, int) and (rest or not parts):
            parts.append(str(rest))
        dims = frozenset().union(*(p.dims for p in pieces))
        return Text(" + ".join(parts), torch.int64, dims, self.place_of(dims, *pieces))

    def _rest(self, expr: Any, indirect: dict[sympy.Symbol, Text], pieces: list[Text]) -> str:
        """Text of what is not linear in the axes; the values it uses are added to `pieces`."""

        def name(symbol: sympy.Symbol) -> str:
            if symbol in indirect:
                pieces.append(indirect[symbol])
                return indirect[symbol].name
            if symbol in self._axis_dim:
                pieces.append(self.axis(symbol))
                return pieces[-1].name
            return "0" if symbol in self._ones else self.use(str(symbol))

        return Printer(name)(expr)

    # Masks.

    def mask(self, dims: frozenset[int]) -> list[str]:
        """Names of the masks that a value over `dims` needs, the region's included."""
        names = [f"{d.letter}mask" for d in self.layout.dims if d.position in dims and self.layout.needs_mask(d)]
        if self.region is not None:
            names.append(self.region.name)
        return names

    def spread(self, address: Text, dims: frozenset[int]) -> str:
        """Text of an index with the shape of a value over `dims`."""
        dims = dims | address.dims
        if address.dims == dims:
            return address.name
        shape = self.layout.shape(dims)
        width = "tl.int64" if self.layout.wide else "tl.int32"
        if not address.dims:
            return f"tl.full({shape}, {address.name}, {width})"
        return f"tl.broadcast_to({address.name}, {shape})"

    def tile(self, value: Text) -> str:
        """Text of a value spread over the whole tile."""
        whole = frozenset(d.position for d in self.layout.dims)
        if value.dims == whole:
            return value.name
        return f"tl.broadcast_to({value.name}, {self.layout.shape(whole)})"

    def type_text(self, dtype: torch.dtype) -> str:
        return DTYPES[dtype].text
