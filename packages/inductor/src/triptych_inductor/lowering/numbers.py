"""Symbolic numbers as values of loops: sizes by index arithmetic, floats evaluated in float64, conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch

from triptych_inductor.ir import extents
from triptych_inductor.ir.computed import ComputedSymbol, printable
from triptych_inductor.ir.index import Index
from triptych_inductor.ir.tensors import number_name
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value

_COMPARISONS = {
    **{"Equality": "eq", "Unequality": "ne", "StrictLessThan": "lt", "LessThan": "le"},
    **{"StrictGreaterThan": "gt", "GreaterThan": "ge"},
}
_MATH = ("sqrt", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")


def symbolic(expr: sympy.Expr, dtype: torch.dtype) -> Value:
    """A symbolic number: integers by index expression, float ones evaluated in float64."""
    if expr.is_integer and all(s.is_integer for s in expr.free_symbols):
        return ops.cast(_whole(expr), dtype)
    return ops.cast(_double(expr), dtype)


def truth(expr: Any) -> Value:
    """A symbolic bool."""
    if isinstance(expr, sympy.logic.boolalg.BooleanAtom):
        return ops.constant(bool(expr), torch.bool)
    name = type(expr).__name__
    if name in _COMPARISONS:
        whole = all(arg.is_integer for arg in expr.args)
        left, right = [symbolic(arg, torch.int64 if whole else torch.float64) for arg in expr.args]
        return getattr(ops, _COMPARISONS[name])(left, right)
    parts = [truth(arg) for arg in expr.args]
    if name == "Not":
        return ops.logical_not(parts[0])
    return _folded({"And": ops.logical_and, "Or": ops.logical_or}[name], parts)


def _whole(expr: sympy.Expr) -> Value:
    return ops.index_expr(Index.of(extents.as_extent(printable(expr))), torch.int64)


def _double(expr: sympy.Expr) -> Value:
    if expr.is_number:
        return ops.constant(float(expr), torch.float64)
    if expr.is_Symbol and not expr.is_integer:
        return ops.load(number_name(expr), Index.of(0))
    name = type(expr).__name__
    if expr.is_Symbol or (name in _OF_INTEGERS and all(s.is_integer for s in expr.free_symbols)):
        return ops.cast(_whole(expr if expr.is_integer else ComputedSymbol.of(expr)), torch.float64)
    if isinstance(expr, sympy.Piecewise):
        return _piecewise(expr.args)
    if name not in _FUNCTIONS:
        raise TypeError(f"symbolic number {expr} is not understood")
    return _FUNCTIONS[name](*[_double(a) for a in expr.args])


def _piecewise(cases: Any) -> Value:
    value = _double(cases[0].expr)
    return value if len(cases) == 1 else ops.where(truth(cases[0].cond), value, _piecewise(cases[1:]))


def _folded(combine: Callable[[Value, Value], Value], parts: Any) -> Value:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def _remainder(a: Value, b: Value) -> Value:
    return ops.sub(a, ops.mul(b, ops.floor(ops.truediv(a, b))))


_OF_INTEGERS = frozenset({"FloorDiv", "Mod", "PythonMod", "LShift", "RShift", "ModularIndexing"}) | {
    f"BitwiseFn_bitwise_{name}" for name in ("and", "or", "xor")
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "Add": lambda *parts: _folded(ops.add, parts),
    "Mul": lambda *parts: _folded(ops.mul, parts),
    "Max": lambda *parts: _folded(ops.maximum, parts),
    "Min": lambda *parts: _folded(ops.minimum, parts),
    **dict.fromkeys(("Pow", "PowByNatural", "FloatPow"), ops.pow),
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), ops.truediv),
    "FloorDiv": lambda a, b: ops.floor(ops.truediv(a, b)),
    **dict.fromkeys(("Mod", "PythonMod"), _remainder),
    **dict.fromkeys(("ToFloat", "Identity"), lambda a: a),
    **dict.fromkeys(("TruncToInt", "TruncToFloat"), ops.trunc),
    **dict.fromkeys(("FloorToInt", "floor"), ops.floor),
    **dict.fromkeys(("CeilToInt", "ceiling"), ops.ceil),
    "RoundToInt": ops.round,
    "Abs": ops.abs,
    **{f"OpaqueUnaryFn_{name}": getattr(ops, name) for name in _MATH},
}
