"""Matching the loop variables of two iteration spaces through a buffer that both touch.

Two affine addresses of one buffer, `sum(stride * variable)` each, walk the same elements when their (stride, extent)
pairs agree after splitting variables: stride 1 extent 12 equals stride 1 extent 4 and stride 4 extent 3. `match`
finds the common refinement, as substitutions of both sides' variables by fresh ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from triptych_inductor.ir.extents import Extent, quotient, same, times
from triptych_inductor.ir.index import Index, Var

Hint = Callable[[Extent], int]


@dataclass
class Piece:
    """A fresh variable standing for (a factor of) one variable of each side; None where a side has no counterpart."""

    var: Var
    left: Var | None
    right: Var | None


@dataclass
class Match:
    """Common refinement of two spaces: the pieces, and each side's variables in terms of them."""

    pieces: list[Piece] = field(default_factory=list)
    left: dict[Var, Index] = field(default_factory=dict)
    right: dict[Var, Index] = field(default_factory=dict)

    def add(self, extent: Extent, left: tuple[Var, Extent] | None, right: tuple[Var, Extent] | None) -> None:
        """A piece of `extent` that steps through each side's variable by the given amount."""
        base = left[0] if left is not None else right[0] if right is not None else None
        assert base is not None
        var = Var(base.name, extent)
        self.pieces.append(Piece(var, left[0] if left else None, right[0] if right else None))
        for side, part in ((self.left, left), (self.right, right)):
            if part is not None:
                side[part[0]] = side.get(part[0], Index({}, 0)) + Index({var: part[1]})


Axis = tuple[Extent, Extent, Var]  # stride, extent, variable


def _refine(left: list[Axis], right: list[Axis], match: Match, strict: bool) -> bool:
    """Pair two lists of axes, fastest first; with `strict` the strides must agree as well."""
    a, b = list(left), list(right)
    inner: dict[Var, Extent] = {}
    while a and b:
        (sa, ea, va), (sb, eb, vb) = a[0], b[0]
        if strict and not same(sa, sb):
            return False
        if same(ea, eb):
            match.add(ea, (va, inner.get(va, 1)), (vb, inner.get(vb, 1)))
            a.pop(0)
            b.pop(0)
            continue
        if quotient(eb, ea) is not None:
            extent = ea
        elif quotient(ea, eb) is not None:
            extent = eb
        else:
            return False
        match.add(extent, (va, inner.get(va, 1)), (vb, inner.get(vb, 1)))
        for axes, (stride, full, var) in ((a, a[0]), (b, b[0])):
            rest = quotient(full, extent)
            inner[var] = times(inner.get(var, 1), extent)
            if rest == 1:
                axes.pop(0)
            else:
                axes[0] = (times(stride, extent), rest, var)
    return not a and not b


def _axes_of(index: Index, hint: Hint) -> list[Axis]:
    """The variables of an affine index, fastest first."""
    axes = [(c, v.extent, v) for v, c in index.terms.items()]
    return sorted(axes, key=lambda axis: hint(axis[0]))


def match(
    left: Index,
    right: Index,
    left_vars: Sequence[Var],
    right_vars: Sequence[Var],
    hint: Hint,
) -> Match | None:
    """The common refinement of two spaces through one address on each side, or None.

    Variables that the addresses do not mention are paired in order where their extents agree; left-over variables of
    one side alone stay unpaired (`Piece.left` or `.right` is None).
    """
    if not left.is_affine or not right.is_affine or not same(left.const, right.const):
        return None
    result = Match()
    if not _refine(_axes_of(left, hint), _axes_of(right, hint), result, strict=True):
        return None
    free_left = [(0, v.extent, v) for v in reversed(left_vars) if v not in left.terms]
    free_right = [(0, v.extent, v) for v in reversed(right_vars) if v not in right.terms]
    if free_left and free_right:
        if not _refine(free_left, free_right, result, strict=False):
            return None
        return result
    for _, extent, var in free_left:
        result.add(extent, (var, 1), None)
    for _, extent, var in free_right:
        result.add(extent, None, (var, 1))
    return result


def in_order(left_vars: Iterable[Var], right_vars: Iterable[Var]) -> Match | None:
    """The refinement of two spaces of equal size by their order alone."""
    result = Match()
    left = [(0, v.extent, v) for v in reversed(tuple(left_vars))]
    right = [(0, v.extent, v) for v in reversed(tuple(right_vars))]
    return result if _refine(left, right, result, strict=False) else None
