"""Index expressions: sympy to C++ text, and the questions asked of them (which variables, which step)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import sympy

from triptych_inductor.codegen.cpp.naming import c_name


def symbols_of(expr: Any) -> frozenset[sympy.Symbol]:
    """The free symbols of an int or a sympy expression."""
    if isinstance(expr, int):
        return frozenset()
    return frozenset(expr.free_symbols)


def split_linear(expr: Any, variable: sympy.Symbol) -> tuple[Any, Any] | None:
    """(step, rest) with `expr == step * variable + rest`, neither containing `variable`; None when it is not linear.

    >>> split_linear(8 * i + j, i)
    (8, j)
    """
    if isinstance(expr, int) or variable not in expr.free_symbols:
        return 0, expr
    step: Any = 0
    rest = []
    for term in expr.args if expr.is_Add else (expr,):
        if variable not in term.free_symbols:
            rest.append(term)
            continue
        if term == variable:
            step += 1
            continue
        factor = term / variable if term.is_Mul and variable in term.args else None
        if factor is None or variable in factor.free_symbols:
            return None
        step += factor
    step = sympy.sympify(step)
    return (int(step) if step.is_Integer else step), sympy.Add(*rest)


def static(expr: Any) -> int | None:
    """The value of a constant expression, else None."""
    if isinstance(expr, int):
        return expr
    return int(expr) if expr.is_Integer else None


def _symbol_name(name: str) -> str:
    """Loop variables keep their names; sizes get one that hides nothing."""
    return name if _LOOP_VARIABLE.fullmatch(name) else c_name(name)


_LOOP_VARIABLE = re.compile(r"[ir]\d+")


class IndexPrinter:
    """Prints integer expressions as C++ `long` arithmetic; `names` gives the text of symbols (default: their own
    name)."""

    def __init__(self, names: Mapping[sympy.Symbol, str] | None = None) -> None:
        self.names = names or {}

    def __call__(self, expr: Any) -> str:
        return self._print(expr)[0]

    def atom(self, expr: Any) -> str:
        """Text that can be an operand of any operator."""
        text, simple = self._print(expr)
        return text if simple else f"({text})"

    def _print(self, expr: Any) -> tuple[str, bool]:
        if isinstance(expr, int) or expr.is_Integer:
            value = int(expr)
            return f"{value}l" if abs(value) >> 31 else str(value), value >= 0
        if expr.is_Symbol:
            return self.names.get(expr) or _symbol_name(expr.name), True
        printer = getattr(self, "_print_" + type(expr).__name__, None)
        if printer is None:
            raise TypeError(f"index expression {expr} has no C++ form ({type(expr).__name__})")
        return printer(expr)

    def _print_Add(self, expr: Any) -> tuple[str, bool]:
        text = ""
        # Terms with variables first, numbers last, as one writes them.
        for term in sorted(expr.args, key=lambda t: (t.is_Integer, str(t))):
            piece = self.atom(term) if term.is_Integer and not term.is_negative else self._print(term)[0]
            text += piece if not text else (f" - {piece[1:]}" if piece.startswith("-") else f" + {piece}")
        return text, False

    def _print_Mul(self, expr: Any) -> tuple[str, bool]:
        numerator, denominator = expr.as_numer_denom()
        if denominator != 1:
            return f"floor_div({self(numerator)}, {self(denominator)})", True
        sign = ""
        args = list(expr.args)
        if args[0] == -1:
            sign, args = "-", args[1:]
        return sign + "*".join(
            self.atom(a) if i or not getattr(a, "is_Integer", False) else self(a) for i, a in enumerate(args)
        ), False

    def _print_Pow(self, expr: Any) -> tuple[str, bool]:
        base, exponent = expr.args
        if exponent == 2:
            return f"{self.atom(base)}*{self.atom(base)}", False
        return f"power_of({self(base)}, {self(exponent)})", True

    def _divided(self, operator: str, function: str, expr: Any) -> tuple[str, bool]:
        a, b = expr.args
        if is_nonnegative(a) and is_nonnegative(b):
            return f"{self.atom(a)} {operator} {self.atom(b)}", False
        return f"{function}({self(a)}, {self(b)})", True

    def _print_FloorDiv(self, expr: Any) -> tuple[str, bool]:
        return self._divided("/", "floor_div", expr)

    _print_CleanDiv = _print_IntTrueDiv = _print_FloorDiv

    def _print_Mod(self, expr: Any) -> tuple[str, bool]:
        return self._divided("%", "modulo", expr)

    _print_PythonMod = _print_Mod

    def _print_ModularIndexing(self, expr: Any) -> tuple[str, bool]:
        a, divisor, modulus = expr.args
        return f"modulo(floor_div({self(a)}, {self(divisor)}), {self(modulus)})", True

    def _print_floor(self, expr: Any) -> tuple[str, bool]:
        numerator, denominator = expr.args[0].as_numer_denom()
        return f"floor_div({self(numerator)}, {self(denominator)})", True

    def _print_ceiling(self, expr: Any) -> tuple[str, bool]:
        numerator, denominator = expr.args[0].as_numer_denom()
        return f"-floor_div(-({self(numerator)}), {self(denominator)})", False

    def _nested(self, function: str, expr: Any) -> tuple[str, bool]:
        text = self(expr.args[0])
        for other in expr.args[1:]:
            text = f"{function}({text}, {self(other)})"
        return text, True

    def _print_Max(self, expr: Any) -> tuple[str, bool]:
        return self._nested("max_of", expr)

    def _print_Min(self, expr: Any) -> tuple[str, bool]:
        return self._nested("min_of", expr)


def is_nonnegative(expr: Any) -> bool:
    """Whether an expression is seen to be at least 0 (all its symbols are, and nothing is subtracted)."""
    if isinstance(expr, int) or expr.is_Integer:
        return int(expr) >= 0
    if expr.is_Symbol:
        return bool(expr.is_nonnegative)
    if expr.is_Add or expr.is_Mul or type(expr).__name__ in ("FloorDiv", "Mod", "CleanDiv", "PythonMod", "Max", "Min"):
        return all(is_nonnegative(a) for a in expr.args)
    return False
