"""The pointwise op table: one row an op, with what every analysis and every code generator needs to know of it.

Code generators add the text of an op in tables of their own (`codegen/cpp/text_*.py`), keyed by the name in this table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

HALF = frozenset({torch.float16, torch.bfloat16})
FLOAT = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
SIGNED = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})
UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})
INTEGER = SIGNED | UNSIGNED
BOOL = frozenset({torch.bool})
NUMBER = FLOAT | INTEGER
ANY = NUMBER | BOOL
SUPPORTED_DTYPES = ANY


@dataclass(frozen=True)
class OpRow:
    """Facts of one pointwise op.

    `result`: "same" (the operands' dtype) or "bool". `dtypes`: what the operands may be. `commutative`: operands may be
    exchanged. `cost`: relative price of one element (an addition is 1), for chunk sizes and inlining caps.
    `can_fail`: evaluation can raise in eager (integer division by zero).
    """

    name: str
    arity: int
    dtypes: frozenset[torch.dtype]
    result: str = "same"
    commutative: bool = False
    cost: int = 1
    can_fail: bool = False


def _rows(names: str, arity: int, dtypes: frozenset[torch.dtype], **facts: object) -> list[OpRow]:
    return [OpRow(name, arity, dtypes, **facts) for name in names.split()]  # type: ignore[arg-type]


_TABLE = [
    # Arithmetic.
    *_rows("add mul", 2, ANY, commutative=True),
    *_rows("sub", 2, NUMBER),
    *_rows("truediv", 2, FLOAT, cost=4),
    *_rows("floordiv mod remainder fmod", 2, NUMBER, cost=10, can_fail=True),
    *_rows("pow", 2, NUMBER, cost=40),
    *_rows("neg", 1, NUMBER),
    *_rows("abs sign", 1, ANY),
    *_rows("minimum maximum", 2, ANY, commutative=True),
    *_rows("fma", 3, NUMBER),
    *_rows("relu", 1, NUMBER),
    # Roots, exponentials, logarithms.
    *_rows("sqrt rsqrt reciprocal", 1, FLOAT, cost=6),
    *_rows("exp exp2 expm1 log log2 log10 log1p sigmoid", 1, FLOAT, cost=12),
    # Trigonometric and hyperbolic functions.
    *_rows("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", 1, FLOAT, cost=16),
    *_rows("atan2 hypot", 2, FLOAT, cost=20),
    # Special functions.
    *_rows("erf erfc", 1, FLOAT, cost=16),
    *_rows("erfinv lgamma digamma", 1, FLOAT, cost=60),
    # Rounding; on integers the identity.
    *_rows("floor ceil round trunc", 1, NUMBER),
    *_rows("frac", 1, FLOAT),
    # Choice and comparison.
    *_rows("eq ne", 2, ANY, result="bool", commutative=True),
    *_rows("lt le gt ge", 2, ANY, result="bool"),
    # Logic; operands of any dtype, nonzero is true.
    *_rows("logical_and logical_or logical_xor", 2, ANY, result="bool", commutative=True),
    *_rows("logical_not", 1, ANY, result="bool"),
    *_rows("bitwise_and bitwise_or bitwise_xor", 2, INTEGER | BOOL, commutative=True),
    *_rows("bitwise_not", 1, INTEGER | BOOL),
    *_rows("shift_left shift_right", 2, INTEGER),
    # Predicates and the bits of floating-point numbers.
    *_rows("isnan isinf signbit", 1, ANY, result="bool"),
    *_rows("copysign nextafter", 2, FLOAT),
]

OPS: dict[str, OpRow] = {row.name: row for row in _TABLE}
"""Every pointwise op but `where` (whose first operand is bool), by name."""

WHERE = OpRow("where", 3, ANY)

REDUCTIONS: dict[str, frozenset[torch.dtype]] = {
    "sum": NUMBER,
    "prod": NUMBER,
    "max": ANY,
    "min": ANY,
    "argmax": ANY,
    "argmin": ANY,
    "any": ANY,
    "all": ANY,
    "xor": INTEGER | BOOL,
    "welford": FLOAT,
}
"""Kinds of `reduce` and the dtypes that they take. `argmax`/`argmin` give int64 positions, `any`/`all` bool."""

SCANS: dict[str, tuple[frozenset[torch.dtype], bool]] = {
    "sum": (NUMBER, False),
    "prod": (NUMBER, False),
    "logaddexp": (FLOAT, False),
    "max": (NUMBER, True),
    "min": (NUMBER, True),
}
"""Kinds of `scan`: the dtypes that they take, and whether a position (int64) comes with the value."""

ORDERED_REDUCTIONS = frozenset({"argmax", "argmin"})
"""Kinds of `reduce` whose result depends on the order of the reduction axes; every scan does."""


def result_dtype(name: str, operands: tuple[torch.dtype, ...]) -> torch.dtype:
    """The dtype of a pointwise op on `operands`; `TypeError` where the table does not allow it.

    >>> result_dtype("lt", (torch.float32, torch.float32))
    torch.bool
    """
    if name == "where":
        if operands[0] is not torch.bool or operands[1] is not operands[2]:
            raise TypeError(f"where takes a bool and two values of one dtype, not {operands}")
        return operands[1]
    row = OPS[name]
    first = operands[0]
    if len(operands) != row.arity or any(dtype is not first for dtype in operands):
        raise TypeError(f"{name} takes {row.arity} operands of one dtype, not {operands}")
    if first not in row.dtypes:
        raise TypeError(f"{name} is not defined for {first}")
    return torch.bool if row.result == "bool" else first


def reduction_dtype(kind: str, dtype: torch.dtype) -> torch.dtype:
    """The dtype of a reduction's result, where `dtype` is the one it accumulates in."""
    if kind not in REDUCTIONS:
        raise TypeError(f"unknown reduction {kind!r}; known: {', '.join(REDUCTIONS)}")
    if kind in ("any", "all"):
        return torch.bool
    return torch.int64 if kind in ORDERED_REDUCTIONS else dtype


def scan_dtypes(kind: str, dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """The dtypes of a scan's results; `TypeError` for unknown kinds and dtypes that the kind does not take.

    >>> scan_dtypes("max", torch.float32)
    (torch.float32, torch.int64)
    """
    if kind not in SCANS or dtype not in SCANS[kind][0]:
        raise TypeError(f"no scan {kind!r} of {dtype}; known: {', '.join(SCANS)}")
    return (dtype, torch.int64) if SCANS[kind][1] else (dtype,)


def wraps(check: tuple[str, int] | None) -> bool:
    """Whether negative numbers count from the end, for an `indirect` with this `check`."""
    return check is None or check[0] == "index"
