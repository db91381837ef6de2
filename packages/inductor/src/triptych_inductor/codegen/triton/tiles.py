"""Tile dimensions: how the axes of a kernel are laid over the one to three dimensions of a program's tile.

In: recorded stages. Out: `TileDim`s, slowest first, the reduction dimension last. Axes that some access walks with unit
stride become the fastest axis of a dimension of their own, so that both sides of a transpose read whole lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.indexing import Extent, linear_terms, product

HINT = 8192  # assumed for a symbolic extent in cost estimates
_MIN_TILED = 8  # an axis shorter than this is not worth a dimension of its own
_MIN_SHARE = 0.1  # share of the bytes that an access pattern needs to get a dimension
_SHORT = 32  # a fastest axis shorter than this takes its neighbours into its dimension


@dataclass(frozen=True)
class TileDim:
    """One dimension of a tile. `axes`: (loop variable, extent), slow to fast; `position`: its place in the tile's
    shape."""

    letter: str
    axes: tuple[tuple[sympy.Symbol, Extent], ...]
    numel: Extent
    position: int

    @property
    def block(self) -> str:
        """Name of its block size."""
        return f"{self.letter.upper()}BLOCK"

    @property
    def symbols(self) -> frozenset[sympy.Symbol]:
        return frozenset(symbol for symbol, _ in self.axes)


@dataclass(frozen=True)
class Access:
    """One load or store: strides by axis, bytes of an element, points it touches (an estimate)."""

    strides: dict[sympy.Symbol, Extent]
    itemsize: int
    points: int
    is_store: bool

    @property
    def weight(self) -> int:
        """Estimated bytes moved."""
        return self.itemsize * self.points

    def unit_axis(self) -> sympy.Symbol | None:
        """The axis whose elements are neighbours in memory, walked forwards or backwards."""
        return next((s for s, stride in self.strides.items() if stride in (1, -1)), None)


def extent_hint(value: Extent) -> int:
    """A typical number for an extent, for costs only."""
    if isinstance(value, int):
        return value
    found = value.xreplace({s: sympy.Integer(HINT) for s in value.free_symbols})
    return int(found) if found.is_number else HINT


def accesses(stages: Sequence[StageFacts], extents: dict[sympy.Symbol, Extent]) -> list[Access]:
    """Every distinct load and store of the stages, with strides over axes longer than 1."""
    axes = frozenset(s for s, e in extents.items() if e != 1)
    found: dict[tuple[str, Any, bool], Access] = {}
    for stage in stages:
        for buffer, index, dtype, is_store in stage.memory:
            key = (buffer, index, is_store)
            if key in found:
                continue
            strides, rest = linear_terms(index, axes)
            touched = set(strides) | (axes & (set() if isinstance(rest, int) else rest.free_symbols))
            points = 1
            for symbol in touched:
                points *= extent_hint(extents[symbol])
            found[key] = Access(strides, dtype.itemsize, points, is_store)
    return list(found.values())


def _unit_axes(found: Sequence[Access], axes: Sequence[tuple[sympy.Symbol, Extent]]) -> list[sympy.Symbol]:
    """Axes of `axes` that accesses walk with unit stride, stores' first, by weight; light ones left out."""
    inside = {s for s, _ in axes}
    weights: dict[sympy.Symbol, int] = {}
    stored: dict[sympy.Symbol, int] = {}
    total = 0
    for access in found:
        total += access.weight
        axis = access.unit_axis()
        if axis in inside:
            weights[axis] = weights.get(axis, 0) + access.weight
            if access.is_store:
                stored[axis] = stored.get(axis, 0) + access.weight
    heavy = [a for a, w in weights.items() if w >= _MIN_SHARE * total]
    return sorted(heavy, key=lambda a: (stored.get(a, 0), weights[a]), reverse=True)


def _ordered(
    axes: Sequence[tuple[sympy.Symbol, Extent]], last: sympy.Symbol | None
) -> list[tuple[sympy.Symbol, Extent]]:
    """The axes with `last` moved to the end."""
    if last is None:
        return list(axes)
    return [a for a in axes if a[0] is not last] + [a for a in axes if a[0] is last]


def _split_outer(
    axes: list[tuple[sympy.Symbol, Extent]], units: list[sympy.Symbol], limit: int
) -> list[list[tuple[sympy.Symbol, Extent]]]:
    """The outer axes as up to `limit` groups, fastest group first; each unit axis is the last of its group."""
    extents = dict(axes)
    bases = [u for k, u in enumerate(units) if k == 0 or extent_hint(extents[u]) >= _MIN_TILED][:limit]
    if len(bases) <= 1:
        return [_ordered(axes, bases[0] if bases else None)]
    left = [a for a in axes if a[0] not in bases]
    groups: list[list[tuple[sympy.Symbol, Extent]]] = []
    for base in bases:
        group = [(base, extents[base])]
        if base is bases[0]:
            while left and extent_hint(product([e for _, e in group])) < _SHORT:
                group.insert(0, left.pop())
        groups.append(group)
    groups[-1] = left + groups[-1]
    return groups


def choose_tiles(
    stages: Sequence[StageFacts],
    outer: Sequence[tuple[sympy.Symbol, Extent]],
    reduction: Sequence[tuple[sympy.Symbol, Extent]],
    has_reduction: bool,
) -> list[TileDim]:
    """Tile dimensions of a kernel over `outer` and `reduction` axes (axes of extent 1 are dropped)."""
    found = accesses(stages, dict([*outer, *reduction]))
    kept = [(s, e) for s, e in outer if e != 1]
    units = _unit_axes(found, kept)
    if not units and kept:
        units = [kept[-1][0]]
    groups = _split_outer(kept, units, 2 if has_reduction else 3)
    dims: list[TileDim] = []
    for position, (letter, group) in enumerate(zip("zyx"[-len(groups) :], reversed(groups), strict=True)):
        dims.append(TileDim(letter, tuple(group), product([e for _, e in group]), position))
    if has_reduction:
        inner = [(s, e) for s, e in reduction if e != 1]
        units = [] if any(s.has_scans for s in stages) else _unit_axes(found, inner)  # scans go in the given order
        ordered = _ordered(inner, units[0] if units else None)
        dims.append(TileDim("r", tuple(ordered), product([e for _, e in ordered]), len(dims)))
    return dims


def reads_mirrored(stages: Sequence[StageFacts], dims: Sequence[TileDim]) -> bool:
    """Whether a square kernel of two single axes reads some buffer both straight and transposed, and only writes
    others."""
    if len(dims) != 2 or any(len(d.axes) != 1 for d in dims) or dims[0].numel != dims[1].numel:
        return False
    (one, _), (other, _) = dims[0].axes[0], dims[1].axes[0]
    read: dict[str, set[tuple[Any, Any]]] = {}
    for stage in stages:
        if stage.reads & stage.writes or any(n.op == "store_atomic_add" for n in stage.recorded.walk()):
            return False
        for buffer, index, _, is_store in stage.memory:
            strides, _ = linear_terms(index, frozenset({one, other}))
            if not is_store and len(strides) == 2:
                read.setdefault(buffer, set()).add((strides[one], strides[other]))
    return any((b, a) in found and a != b for found in read.values() for a, b in found)


def contiguous_share(found: Sequence[Access], dim: TileDim) -> float:
    """Share of the bytes whose unit-stride axis is the fastest axis of `dim`."""
    total = sum(a.weight for a in found)
    if not dim.axes or total == 0:
        return 0.0
    fastest = dim.axes[-1][0]
    return sum(a.weight for a in found if a.unit_axis() is fastest) / total
