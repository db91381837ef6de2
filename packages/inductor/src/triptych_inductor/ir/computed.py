"""Numbers that Python computes for kernels: parts of size expressions that index arithmetic has no form for.

`abs(n - 4)`, `n << m` or `round(n / 3)` are rare in sizes and indices. Loops see such a part as one more size symbol
(`ComputedSymbol`), and the wrapper module writes its definition wherever it passes or returns the number.
"""

from __future__ import annotations

import hashlib
from typing import Any

import sympy

# Functions of whole numbers that the code generators print, by the name of their class.
_KNOWN = frozenset({"Add", "Mul", "FloorDiv", "CleanDiv", "Mod", "PythonMod", "ModularIndexing", "Max", "Min"})
_KNOWN_OF_FRACTIONS = frozenset({"floor", "ceiling"})


class ComputedSymbol(sympy.Symbol):
    """A size symbol whose value is that of `definition`."""

    definition: sympy.Expr

    @staticmethod
    def of(definition: sympy.Expr) -> ComputedSymbol:
        """The symbol of an integer expression: equal expressions have one name, in every graph and process."""
        digest = hashlib.sha256(str(definition).encode()).hexdigest()[:10]
        symbol = ComputedSymbol(f"n{digest}", integer=True, nonnegative=definition.is_nonnegative or None)
        symbol.definition = definition
        return symbol


def printable(expr: Any) -> Any:
    """An integer expression whose parts that code generators do not print are `ComputedSymbol`."""
    if isinstance(expr, int) or not expr.args:
        return expr
    if _is_known(expr):
        parts = [printable(part) for part in expr.args]
        return expr if all(new is old for new, old in zip(parts, expr.args, strict=True)) else expr.func(*parts)
    return ComputedSymbol.of(expr)


def _is_known(expr: Any) -> bool:
    name = type(expr).__name__
    if name in _KNOWN_OF_FRACTIONS:
        return all(symbol.is_integer for symbol in expr.free_symbols) and expr.args[0].is_rational is True
    if expr.is_Pow:
        return expr.exp.is_Integer and expr.base.is_integer
    return name in _KNOWN and all(part.is_Rational or part.is_integer for part in expr.args)


def spelled_out(expr: Any) -> Any:
    """The expression with definitions in place of `ComputedSymbol`."""
    found = {s: s.definition for s in getattr(expr, "free_symbols", ()) if isinstance(s, ComputedSymbol)}
    return expr.xreplace(found) if found else expr


def needed_symbols(expr: Any) -> set[Any]:
    """The symbols whose values an extent (an int, or an expression) takes."""
    return getattr(spelled_out(expr), "free_symbols", set())
