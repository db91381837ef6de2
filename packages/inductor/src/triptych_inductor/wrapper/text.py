"""Python text of extents, constants and tensor windows."""

from __future__ import annotations

import math
from typing import Any

import sympy
import torch

from triptych_inductor._torch_compat import PythonPrinter
from triptych_inductor.ir.computed import spelled_out
from triptych_inductor.ir.nodes import Strided

_PRINTER = PythonPrinter()


class Unprintable(TypeError):
    """A constant without a Python literal; the wrapper binds it as an object."""


def expression(value: Any) -> str:
    """An extent (or symbolic number) as Python text."""
    if type(value) is int:
        return str(value)
    if isinstance(value, sympy.Basic):
        return _PRINTER.doprint(spelled_out(value))
    return repr(value)


def tuple_text(values: Any) -> str:
    """Extents as a tuple."""
    inner = ", ".join(expression(v) for v in values)
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def constant(value: Any) -> str:
    """A plain constant as Python text; `Unprintable` where it has none."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if isinstance(value, complex):
        return f"complex({constant(value.real)}, {constant(value.imag)})"
    if isinstance(value, sympy.Basic):
        return expression(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    raise Unprintable(type(value).__name__)


def window(strided: Strided) -> str:
    """A strided window as an expression over its buffer's variable."""
    name = strided.buffer.name
    if strided.is_whole:
        return name
    buffer = strided.buffer
    if len(strided.size) == 2 and strided.offset == 0 and buffer.size == strided.size[::-1]:
        if buffer.stride == strided.stride[::-1]:
            return f"{name}.t()"
    offset = expression(strided.offset + buffer.offset if buffer.kind == "temporary" else strided.offset)
    if buffer.kind != "temporary":
        base = f"{name}.storage_offset()"
        offset = base if strided.offset == 0 else f"{base} + {offset}"
    return f"as_strided({name}, {tuple_text(strided.size)}, {tuple_text(strided.stride)}, {offset})"
