"""Extents (sizes and strides): Python ints where static, sympy integer expressions where symbolic.

All helpers take and give `Extent`; the static case never touches sympy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch

from triptych_inductor._torch_compat import expression
from triptych_inductor.ir.computed import printable, spelled_out

Extent = Any  # int | sympy.Expr


def as_extent(value: Any) -> Extent:
    """A size, SymInt or sympy number as an extent.

    >>> as_extent(sympy.Integer(3))
    3
    """
    if type(value) is int:
        return value
    if isinstance(value, torch.SymInt):
        value = printable(expression(value))
    if isinstance(value, sympy.Expr):
        return int(value) if value.is_Integer else value
    return int(value)


def as_extents(values: Iterable[Any]) -> tuple[Extent, ...]:
    """`as_extent` of each."""
    return tuple([as_extent(v) for v in values])


def tidy(value: Any) -> Extent:
    """Normal form of a computed extent: expanded, and an int where it is a number."""
    if type(value) is int:
        return value
    value = sympy.expand(value)
    return int(value) if value.is_Integer else value


def times(a: Extent, b: Extent) -> Extent:
    """Product in normal form."""
    if type(a) is int and type(b) is int:
        return a * b
    return tidy(a * b)


def product(values: Iterable[Extent]) -> Extent:
    """Product of all, 1 for none."""
    result: Extent = 1
    for value in values:
        result = times(result, value)
    return result


def same(a: Extent, b: Extent) -> bool:
    """Whether two extents are equal for every value of their symbols, as far as expansion shows."""
    if type(a) is int and type(b) is int:
        return a == b
    return a == b or tidy(a - b) == 0


def same_all(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Whether two tuples of extents agree."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def quotient(a: Extent, b: Extent) -> Extent | None:
    """`a / b` where `b` divides `a` for every value of the symbols, else None.

    >>> quotient(12, 4), quotient(12, 5)
    (3, None)
    """
    if type(a) is int and type(b) is int:
        return a // b if b != 0 and a % b == 0 else None
    if b == 1:
        return a
    ratio = a / b if not getattr(a, "is_Add", False) else sympy.cancel(a / b)
    ratio = sympy.sympify(ratio)
    if not ratio.is_integer or ratio.as_numer_denom()[1] != 1:
        return None
    return tidy(ratio)


def at_least(a: Extent, b: Extent) -> bool:
    """Whether `a >= b` is known (symbols are sizes: integers of at least 0)."""
    difference = a - b
    if type(difference) is int:
        return difference >= 0
    return bool(sympy.expand(difference).is_nonnegative)


def contiguous_strides(size: Sequence[Extent]) -> tuple[Extent, ...]:
    """Row-major strides, as torch computes them (a size of 0 counts as 1).

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(size):
        strides.append(step)
        step = times(step, extent if extent != 0 else 1)
    return tuple(reversed(strides))


def channels_last_strides(size: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides of a four-dimensional tensor whose second dimension is the fastest.

    >>> channels_last_strides((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    n, h, w, c = contiguous_strides((size[0], size[2], size[3], size[1]))
    return n, c, h, w


def storage_extent(size: Sequence[Extent], stride: Sequence[Extent]) -> Extent:
    """Elements between the first and the last that a strided tensor can reach, both included; 0 when it is empty."""
    if any(extent == 0 for extent in size):
        return 0
    last: Extent = 0
    for extent, step in zip(size, stride, strict=True):
        last = last + times(extent - 1, step)
    return tidy(last + 1)


def is_dense(size: Sequence[Extent], stride: Sequence[Extent]) -> bool:
    """Whether the strides are those of a permuted contiguous tensor: no gap, no overlap."""
    axes = [(s, e) for e, s in zip(size, stride, strict=True) if e != 1]
    expected: Extent = 1
    while axes:
        found = next((k for k, (s, _) in enumerate(axes) if same(s, expected)), None)
        if found is None:
            return False
        expected = times(expected, axes.pop(found)[1])
    return True


def hint(value: Extent, symbols: dict[Any, int] | None = None, default: int = 64) -> int:
    """A typical number for an extent, for cost estimates only (never for correctness)."""
    if type(value) is int:
        return value
    known, value = symbols or {}, spelled_out(value)
    replaced = value.xreplace({s: sympy.Integer(known.get(s, default)) for s in value.free_symbols})
    return int(replaced) if replaced.is_Integer else default
