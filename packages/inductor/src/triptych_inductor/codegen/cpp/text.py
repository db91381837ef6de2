"""C++ text of the pointwise ops: format strings over operands, by kind of dtype.

`{0}`, `{1}`, .. are operands, `{one}` is the number 1 of the dtype, `{active}` the mask of lanes that count. An op
without a row is a function of the same name in the vector headers.
"""

from __future__ import annotations

import torch

from triptych_inductor.codegen.cpp.types import TYPES, literal
from triptych_inductor.loops.table import OPS

COMMON: dict[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "truediv": "{0} / {1}",
    "neg": "-{0}",
    "mod": "remainder({0}, {1})",
    "round": "round_even({0})",
    "where": "sel({0}, {1}, {2})",
    "logical_and": "nonzero({0}) & nonzero({1})",
    "logical_or": "nonzero({0}) | nonzero({1})",
    "logical_xor": "nonzero({0}) ^ nonzero({1})",
    "logical_not": "~nonzero({0})",
}
"""Texts for all dtypes but bool, where no other table says otherwise."""

_DIVISOR = "checked_divisor({1}, splat({one}), {active}, bad)"
INTEGER: dict[str, str] = {
    "floordiv": f"floordiv({{0}}, {_DIVISOR})",
    "remainder": f"remainder({{0}}, {_DIVISOR})",
    "mod": f"remainder({{0}}, {_DIVISOR})",
    "fmod": f"fmod({{0}}, {_DIVISOR})",
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), "{0}"),
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_not": "~{0}",
    "isnan": "splat(false)",
    "isinf": "splat(false)",
    "signbit": "lt({0}, {0} ^ {0})",
}

BOOLEAN: dict[str, str] = {
    **dict.fromkeys(("add", "maximum", "logical_or", "bitwise_or"), "{0} | {1}"),
    **dict.fromkeys(("mul", "minimum", "logical_and", "bitwise_and"), "{0} & {1}"),
    **dict.fromkeys(("ne", "logical_xor", "bitwise_xor"), "{0} ^ {1}"),
    **dict.fromkeys(("logical_not", "bitwise_not"), "~{0}"),
    **dict.fromkeys(("abs", "sign"), "{0}"),
    **dict.fromkeys(("isnan", "isinf", "signbit"), "splat(false)"),
    "eq": "~({0} ^ {1})",
    "lt": "~{0} & {1}",
    "le": "~{0} | {1}",
    "gt": "{0} & ~{1}",
    "ge": "{0} | ~{1}",
    "where": "sel({0}, {1}, {2})",
}

SECTION: dict[str, str] = {
    **dict.fromkeys("exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf pow rsqrt reciprocal frac".split(), "math"),
    **dict.fromkeys("sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 hypot".split(), "library"),
    **dict.fromkeys("erfc erfinv lgamma digamma nextafter".split(), "library"),
}
"""Which header an op needs beyond the ones that every unit has."""

LIBRARY_IN_DOUBLE = frozenset({"exp2", "log2", "log10", "erf", "pow"})
"""Ops of `math` whose double form lies in `library`."""


def op_text(name: str, dtype: torch.dtype, operands: list[str], active: str) -> str:
    """C++ of one pointwise op on vector expressions of `dtype` (the operands' dtype; of `where`, the values')."""
    ctype = TYPES[dtype]
    if ctype.kind == "boolean":
        pattern = BOOLEAN[name]
    else:
        pattern = (INTEGER.get(name) if ctype.kind == "integer" else None) or COMMON.get(name)  # type: ignore[assignment]
        if pattern is None:
            function = f"{name}_{ctype.half}" if ctype.half and name in OWN_HALF_FORM else name
            pattern = f"{function}({', '.join(f'{{{i}}}' for i in range(len(operands)))})"
    text = pattern.format(*operands, one=literal(1, dtype), active=active)
    rounds = ctype.half and name not in EXACT and (name not in OPS or OPS[name].result == "same")
    return f"round_{ctype.half}({text})" if rounds else text


OWN_HALF_FORM = frozenset({"nextafter"})
"""Ops that depend on the dtype's own grid: on half types a function `<op>_<half>`."""

EXACT = frozenset("where neg abs sign relu minimum maximum floor ceil round trunc copysign".split())
"""Ops whose result on a half type needs no rounding."""


def op_section(name: str, dtype: torch.dtype) -> str:
    """The header that the op needs, or "" when every unit has it."""
    if dtype is torch.float64 and name in LIBRARY_IN_DOUBLE:
        return "library"
    return SECTION.get(name, "") if TYPES[dtype].kind == "float" else ""
