"""Boolean sympy expressions over integers as programs for the stack machine in C.

>>> x = sympy.Symbol("x", integer=True)
>>> compile_shape(sympy.Eq(x % 8, 0), [x])
(('input', 0), ('const', 8), ('mod', 0), ('const', 0), ('eq', 0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy

Step = tuple[str, int]
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_DEPTH = 64


class NotExpressible(Exception):
    """The machine has no words for the expression."""


# By class name: sympy's own, and those of torch.utils._sympy.functions (which need not be imported for it).
_CHAINS = {"Add": "add", "Mul": "mul", "Min": "min", "Max": "max", "And": "and", "Or": "or"}
_PAIRS = {
    "Pow": "pow",
    "PowByNatural": "pow",
    "Mod": "mod",
    "PythonMod": "mod",
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "IntTrueDivExact": "floordiv",
    "Equality": "eq",
    "Unequality": "ne",
    "StrictLessThan": "lt",
    "LessThan": "le",
    "StrictGreaterThan": "gt",
    "GreaterThan": "ge",
}


class _Writer:
    def __init__(self, symbols: Sequence[Any]) -> None:
        self.inputs = {symbol: index for index, symbol in enumerate(symbols)}
        self.steps: list[Step] = []

    def emit(self, name: str, operand: int = 0) -> None:
        self.steps.append((name, operand))

    def write(self, expr: Any) -> None:
        """Steps that leave the value of `expr` on the stack."""
        kind = type(expr).__name__
        if expr in self.inputs:
            self.emit("input", self.inputs[expr])
        elif expr is sympy.true or expr is sympy.false:
            self.emit("const", int(bool(expr)))
        elif isinstance(expr, sympy.Integer) and INT64_MIN <= int(expr) <= INT64_MAX:
            self.emit("const", int(expr))
        elif kind in _CHAINS or kind.lower() in ("min", "max"):
            self.chain(_CHAINS.get(kind, kind.lower()), expr.args)
        elif kind in _PAIRS:
            self.pair(_PAIRS[kind], expr.args)
        elif kind in _FORMS:
            _FORMS[kind](self, expr.args)
        else:
            raise NotExpressible(kind)

    def chain(self, name: str, args: Sequence[Any]) -> None:
        self.write(args[0])
        for arg in args[1:]:
            self.write(arg)
            self.emit(name)

    def pair(self, name: str, args: Sequence[Any]) -> None:
        if len(args) != 2 or (name == "pow" and not (args[1].is_Integer and args[1] >= 0)):
            raise NotExpressible(name)
        self.chain(name, args)

    def negation(self, args: Sequence[Any]) -> None:
        self.write(args[0])
        self.emit("not")

    def ceiling_division(self, args: Sequence[Any]) -> None:
        """`-((-a) // b)`."""
        self.write(args[0])
        self.emit("neg")
        self.write(args[1])
        self.emit("floordiv")
        self.emit("neg")

    def modular_index(self, args: Sequence[Any]) -> None:
        """`(a // b) % c`."""
        self.chain("floordiv", args[:2])
        self.write(args[2])
        self.emit("mod")

    def same(self, args: Sequence[Any]) -> None:
        self.write(args[0])


_FORMS: dict[str, Callable[[_Writer, Sequence[Any]], None]] = {
    "Not": _Writer.negation,
    "CeilDiv": _Writer.ceiling_division,
    "ModularIndexing": _Writer.modular_index,
    "Identity": _Writer.same,
}
_EFFECT = {"const": 1, "input": 1, "neg": 0, "not": 0}


def compile_shape(expr: Any, symbols: Sequence[Any]) -> tuple[Step, ...] | None:
    """The program for `expr` over `symbols` (inputs in that order), or None when the machine cannot do it."""
    writer = _Writer(symbols)
    try:
        writer.write(sympy.sympify(expr))
    except NotExpressible:
        return None
    depth = 0
    for name, _ in writer.steps:
        depth += _EFFECT.get(name, -1)
        if depth > MAX_DEPTH:
            return None
    return tuple(writer.steps)


def as_function(expr: Any, symbols: Sequence[Any]) -> Callable[..., bool]:
    """`expr` as a Python function of the symbols' integers, exact: for what the machine cannot do, and for its twin."""
    names = list(symbols)

    def check(*values: int) -> bool:
        result = sympy.sympify(expr).xreplace(
            {name: sympy.Integer(value) for name, value in zip(names, values, strict=True)}
        )
        return bool(result)

    return check
