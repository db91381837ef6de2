"""Dtypes as Triton spells them: one row each, with the class whose op text applies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class DtypeRow:
    """`text`: the dtype in a kernel. `pointer`: a pointer to it in a signature. `kind`: column of the op text
    tables."""

    text: str
    pointer: str
    kind: str  # "float", "double", "half", "signed", "unsigned", "bool"
    bits: int


DTYPES: dict[torch.dtype, DtypeRow] = {
    torch.float32: DtypeRow("tl.float32", "*fp32", "float", 32),
    torch.float64: DtypeRow("tl.float64", "*fp64", "double", 64),
    torch.float16: DtypeRow("tl.float16", "*fp16", "half", 16),
    torch.bfloat16: DtypeRow("tl.bfloat16", "*bf16", "half", 16),
    torch.int8: DtypeRow("tl.int8", "*i8", "signed", 8),
    torch.int16: DtypeRow("tl.int16", "*i16", "signed", 16),
    torch.int32: DtypeRow("tl.int32", "*i32", "signed", 32),
    torch.int64: DtypeRow("tl.int64", "*i64", "signed", 64),
    torch.uint8: DtypeRow("tl.uint8", "*u8", "unsigned", 8),
    torch.uint16: DtypeRow("tl.uint16", "*u16", "unsigned", 16),
    torch.uint32: DtypeRow("tl.uint32", "*u32", "unsigned", 32),
    torch.uint64: DtypeRow("tl.uint64", "*u64", "unsigned", 64),
    torch.bool: DtypeRow("tl.int1", "*i1", "bool", 8),
}


def text_of(dtype: torch.dtype) -> str:
    """`tl.float32` and so on; `TypeError` for a dtype that kernels do not compute with."""
    row = DTYPES.get(dtype)
    if row is None:
        raise TypeError(f"Triton kernels do not compute with {dtype}")
    return row.text


def literal(value: Any, dtype: torch.dtype) -> str:
    """A Python number as a scalar of `dtype`, exact for integers of 64 bits and for non-finite numbers.

    >>> literal(float("inf"), torch.float32)
    "tl.full([], float('inf'), tl.float32)"
    """
    return f"tl.full([], {number_text(value, dtype)}, {text_of(dtype)})"


def number_text(value: Any, dtype: torch.dtype) -> str:
    """A Python number as text that a kernel may use where a scalar is converted to `dtype` anyway."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return "1" if value else "0"
    if kind in ("signed", "unsigned"):
        bits = DTYPES[dtype].bits
        wrapped = int(value) & ((1 << bits) - 1)
        if kind == "signed" and wrapped >> (bits - 1):
            wrapped -= 1 << bits
        return str(wrapped)
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        return f"float('{number}')"
    return repr(number)
