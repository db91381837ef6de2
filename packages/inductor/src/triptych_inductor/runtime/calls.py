"""Calls of torch's library: products and convolutions by its C functions where it exports them, else by Python's.

Each gives a function that is called as torch's own: `product("mm", "cuda")` as `torch.mm(a, b, out=c)`. What sees
operators (dispatch modes, the profiler) sees these, since then torch's Python function is called.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych_inductor.runtime import objects
from triptych_inductor.wrapper import support

PRODUCTS = {"mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3}
"""Name in torch -> number of tensors, without the result."""

PRODUCT, CONVOLUTION, LAID_OUT = range(3)  # the kinds of `triptych_call`


class _Call(ctypes.Structure):
    """Mirror of `Call` in `calls.cpp`."""

    _fields_ = [
        ("torch", ctypes.c_void_p),
        ("inputs", ctypes.c_long),
        ("function", ctypes.c_void_p),
        ("lists", ctypes.c_void_p),
        *((name, ctypes.c_long) for name in ("dim", "transposed", "groups")),
        ("otherwise", ctypes.py_object),
        ("method", objects.MethodDef),
    ]


@functools.cache
def product(name: str, device_type: str) -> Callable[..., torch.Tensor]:
    """`torch.mm` and its relatives, for calls with `out=` and without scales.

    >>> product("mm", "cpu")(torch.ones(1, 2), torch.ones(2, 1), out=torch.empty(1, 1))
    tensor([[2.]])
    """
    plain: Callable[..., torch.Tensor] = getattr(torch, name)
    return _builtin(PRODUCT, plain, _exported(f"{name}_out", device_type), inputs=PRODUCTS[name])


@functools.cache
def convolution(
    device_type: str,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Callable[..., torch.Tensor]:
    """`torch.convolution` with everything given but (input, weight, bias or None)."""

    def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return torch.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)

    parts = (stride, padding, dilation, output_padding)
    lists = (ctypes.c_long * (4 * len(stride)))(*(n for part in parts for n in part))
    function = _exported("convolution", device_type) if len(set(map(len, parts))) == 1 else None
    numbers = {"lists": ctypes.addressof(lists), "dim": len(stride), "transposed": int(transposed), "groups": groups}
    return _builtin(CONVOLUTION, plain, function, lists, **numbers)


def _exported(name: str, device_type: str) -> Any:
    """A C function of torch for a type of devices; None where this torch has none."""
    try:
        return getattr(objects.torch_library(device_type), f"aoti_torch_{device_type}_{name}", None)
    except OSError:
        return None


def _builtin(kind: int, plain: Any, function: Any, *keep: Any, **fields: int) -> Any:
    native = objects.native()
    if native is None or (function is None and kind != LAID_OUT):
        return plain
    address = None if function is None else objects.address_of(function)
    call = _Call(torch=native.torch, function=address, otherwise=plain, **fields)
    return native.builtin("triptych_call", call, kind, plain, *keep)


@functools.cache
def layout() -> Callable[..., torch.Tensor | None]:
    """`support.laid_out`, where the strides are as expected without Python."""
    made: Callable[..., torch.Tensor | None] = _builtin(LAID_OUT, support.laid_out, None)
    return made
