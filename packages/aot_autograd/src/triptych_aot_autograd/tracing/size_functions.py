"""Functions that a size expression can be made of, by the name of their sympy class: what computes them in a graph.

The functions take Python numbers and symbolic ones alike, so that a node's target is also how its value is found.
`FOLDED` are those of two arguments that sympy gives any number of.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from triptych_aot_autograd import _torch_compat as compat


def divide_up(a: Any, b: Any) -> Any:
    """`a / b`, rounded up, in integers."""
    return -(-a // b)


def part_of(a: Any, divisor: Any, modulus: Any) -> Any:
    """The digit of `a` at the place `divisor` in base `modulus`."""
    return a // divisor % modulus


def whole_float(number: Any) -> Any:
    """The number without its fraction, still a float."""
    return torch.sym_float(math.trunc(number))


def choose(condition: Any, first: Any, second: Any) -> Any:
    """`first` where the condition holds, else `second`; either may be a plain number."""
    if not isinstance(condition, torch.SymBool):
        return first if condition else second
    whole = all(isinstance(value, (int, torch.SymInt)) for value in (first, second))
    convert = compat.as_symbolic_int if whole else compat.as_symbolic_float
    return torch.sym_ite(condition, convert(first, condition), convert(second, condition))


def same(number: Any) -> Any:
    """The number itself: what stands for an expression that sympy is not to take apart."""
    return number


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Pow": operator.pow,
    "PowByNatural": operator.pow,
    "FloatPow": operator.pow,
    "Abs": operator.abs,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": divide_up,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "PythonMod": operator.mod,
    "Mod": operator.mod,
    "ModularIndexing": part_of,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitwiseFn_bitwise_and": operator.and_,
    "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor,
    "Identity": same,
    "ToFloat": torch.sym_float,
    "TruncToInt": torch.sym_int,
    "TruncToFloat": whole_float,
    "FloorToInt": math.floor,
    "floor": math.floor,
    "CeilToInt": math.ceil,
    "ceiling": math.ceil,
    "RoundToInt": round,
    "RoundDecimal": round,
    **{f"OpaqueUnaryFn_{name}": function for name, function in compat.SYMBOLIC_MATH.items()},
    "Where": torch.sym_ite,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "StrictGreaterThan": operator.gt,
    "LessThan": operator.le,
    "GreaterThan": operator.ge,
    "And": operator.and_,
    "Or": operator.or_,
    "Not": torch.sym_not,
}
FOLDED = {"Add", "Mul", "Max", "Min", "And", "Or"}
