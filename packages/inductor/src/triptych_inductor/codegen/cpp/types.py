"""How dtypes appear in C++: the type in memory, the vector type in registers, literals and conversions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class CType:
    """`memory`: an element in memory; `vector`: N lanes; `scalar`: type of literals; `kind`: which op texts apply.

    `half` types live in registers as float32 whose value the half type can hold.
    """

    memory: str
    vector: str
    scalar: str
    kind: str
    size: int
    half: str = ""


TYPES: dict[torch.dtype, CType] = {
    torch.float32: CType("float", "f32", "float", "float", 4),
    torch.float64: CType("double", "f64", "double", "float", 8),
    torch.bfloat16: CType("bf16", "f32", "float", "float", 2, "bf16"),
    torch.float16: CType("f16", "f32", "float", "float", 2, "f16"),
    torch.int8: CType("signed char", "i8", "signed char", "integer", 1),
    torch.uint8: CType("unsigned char", "u8", "unsigned char", "integer", 1),
    torch.int16: CType("short", "i16", "short", "integer", 2),
    torch.int32: CType("int", "i32", "int", "integer", 4),
    torch.int64: CType("long", "i64", "long", "integer", 8),
    torch.bool: CType("bool", "mask", "bool", "boolean", 1),
}
"""The dtypes that C++ kernels read, compute and write. Kernels over others have no C++ form."""

SUPPORTED_DTYPES = frozenset(TYPES)


def literal(value: Any, dtype: torch.dtype) -> str:
    """A Python number as a C++ expression of the dtype's scalar type, exactly.

    >>> literal(0.5, torch.float32)
    '0x1p-1f'
    """
    ctype = TYPES[dtype]
    if ctype.kind == "boolean":
        return "true" if value else "false"
    if ctype.kind == "float":
        suffix = "f" if ctype.scalar == "float" else ""
        number = float(value)
        if math.isnan(number):
            return f'__builtin_nan{suffix}("")'
        if math.isinf(number):
            return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
        number = torch.tensor(number, dtype=torch.float64).to(dtype).item()
        return literal(number, torch.float32) if math.isinf(number) else _hexadecimal(number) + suffix
    bits = 8 * ctype.size
    wrapped = int(value) & ((1 << bits) - 1)
    if dtype is not torch.uint8 and wrapped >> (bits - 1):
        wrapped -= 1 << bits
    if wrapped == -(1 << 63):
        return "(-9223372036854775807l - 1)"
    return f"({ctype.scalar}){wrapped}{'l' if bits == 64 else ''}"


def _hexadecimal(number: float) -> str:
    mantissa, exponent = number.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent.removeprefix('+')}"


def cast_text(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """Conversion of a vector expression, as `Tensor.to` converts."""
    into = TYPES[target]
    if into.kind == "boolean":
        return text if source is torch.bool else f"nonzero({text})"
    if source is torch.bool:
        text = f"({text} & 1)"
    result = f"to_{into.vector}({text})"
    if into.half and TYPES[source].half != into.half:
        return f"round_{into.half}({result})"
    return result
