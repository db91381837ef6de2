"""Index arithmetic as text: affine indices split by tile dimension, the rest printed as it is.

An index `64*i0 + i1` over a tile dimension that holds both axes (i1 with 64 elements) is just `xindex`: Triton then
sees that
neighbouring lanes read neighbouring elements. Runs of axes that an access walks through without gaps are one term each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy

Extent = Any  # int | sympy.Expr

_FLOOR = frozenset({"FloorDiv", "CleanDiv", "PythonFloorDiv", "IntTrueDiv"})
_MOD = frozenset({"Mod", "PythonMod", "Mod2"})


def simplify(value: Any) -> Extent:
    """An extent in normal form: int where it is a number, else expanded."""
    if isinstance(value, int):
        return int(value)
    value = sympy.expand(value)
    return int(value) if value.is_Integer else value


def equal(a: Extent, b: Extent) -> bool:
    """Whether two extents agree for all values of their symbols, as far as expansion shows."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or simplify(a - b) == 0


def product(values: Sequence[Extent]) -> Extent:
    """Product of extents, 1 for none."""
    result: Extent = 1
    for value in values:
        result = result * value
    return simplify(result)


class Printer:
    """Prints integer expressions in Triton's operators. `names` maps symbols to text."""

    def __init__(self, names: Callable[[sympy.Symbol], str]) -> None:
        self.names = names

    def __call__(self, expr: Any) -> str:
        """Text of an integer expression; composite text is parenthesised. `TypeError` for functions without a form."""
        if isinstance(expr, int):
            return str(expr)
        if expr.is_Integer:
            return str(int(expr))
        if expr.is_Symbol:
            return self.names(expr)
        if expr.is_Add:
            return "(" + " + ".join(self(a) for a in _ordered(expr.args)) + ")"
        if expr.is_Mul:
            return self._product(expr)
        if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
            return "(" + " * ".join([self(expr.base)] * int(expr.exp)) + ")"
        return self._function(expr)

    def _product(self, expr: Any) -> str:
        numerator, denominator = sympy.fraction(expr)
        if denominator != 1:
            return f"({self(numerator)} // {self(denominator)})"
        return "(" + " * ".join(self(a) for a in _ordered(expr.args)) + ")"

    def _function(self, expr: Any) -> str:
        name = type(expr).__name__
        args = expr.args
        if name in _FLOOR:
            return f"({self(args[0])} // {self(args[1])})"
        if name in _MOD:
            return f"({self(args[0])} % {self(args[1])})"
        if name == "ModularIndexing":
            return f"(({self(args[0])} // {self(args[1])}) % {self(args[2])})"
        if name == "floor":
            return self(args[0])
        if name in ("Max", "Min"):
            text = self(args[0])
            for other in args[1:]:
                text = f"tl.{name.lower()}imum({text}, {self(other)})"
            return text
        if name in ("ToFloat", "Identity"):
            return self(args[0])
        raise TypeError(f"no Triton text for the index expression {expr} ({name})")


def _ordered(args: Sequence[Any]) -> list[Any]:
    """Numbers first, then by text, so that equal kernels print equally."""
    return sorted(args, key=lambda a: (not a.is_number, str(a)))


def linear_terms(expr: Any, axes: frozenset[sympy.Symbol]) -> tuple[dict[sympy.Symbol, Extent], Any]:
    """(coefficient by axis, rest) with expr = sum of coefficient * axis + rest; terms not linear in one axis are the
    rest."""
    if isinstance(expr, int) or expr.is_Integer:
        return {}, int(expr)
    terms: dict[sympy.Symbol, Extent] = {}
    rest: list[Any] = []
    for part in sympy.Add.make_args(expr):
        axis, coefficient = _linear(part, axes)
        if axis is None:
            rest.append(part)
        else:
            terms[axis] = terms[axis] + coefficient if axis in terms else coefficient
    left = sympy.Add(*rest)
    return {a: simplify(c) for a, c in terms.items()}, int(left) if left.is_Integer else left


def _linear(part: Any, axes: frozenset[sympy.Symbol]) -> tuple[sympy.Symbol | None, Any]:
    if part in axes:
        return part, 1
    if not part.is_Mul:
        return None, None
    found = [a for a in part.args if a in axes]
    others = [a for a in part.args if a not in axes]
    if len(found) != 1 or any(a.free_symbols & axes for a in others):
        return None, None
    return found[0], sympy.Mul(*others)


def runs(
    axes: Sequence[tuple[sympy.Symbol, Extent]], terms: Mapping[sympy.Symbol, Extent]
) -> list[tuple[Extent, Extent, Extent | None]]:
    """The terms of one tile dimension, axes from slow to fast, as (stride, inner, span) of runs without gaps.

    A run stands for `stride * ((index // inner) % span)`; `span` is None for the run that holds the slowest axis.
    """
    found: list[tuple[Extent, Extent, Extent | None]] = []
    inner: Extent = 1
    position = len(axes)
    while position > 0:
        position -= 1
        symbol, span = axes[position]
        stride = terms.get(symbol, 0)
        start = inner
        inner = simplify(inner * span)
        while position > 0 and equal(terms.get(axes[position - 1][0], 0), simplify(stride * span)) and stride != 0:
            position -= 1
            span = simplify(span * axes[position][1])
            inner = simplify(inner * axes[position][1])
        if stride != 0:
            found.append((stride, start, None if position == 0 else span))
    return found
