"""Tensors of fixed forms: `new(...)` and `window(...)` give functions that make them, in C where this torch lets us.

A generated wrapper makes each of its intermediates by one of these. What torch does not export, a machine without a C++
compiler or `TRIPTYCH_PLAIN_TENSORS=1` leave the Python functions. On the development machine a small tensor takes 0.5
µs where `torch.empty_strided` takes 1.2, and a window 0.3 where `as_strided` takes 1.3.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from triptych_inductor._torch_compat import WRAP_TENSOR, dispatch_mode_depth
from triptych_inductor.build.compiler import CompileError, CompilerNotFoundError
from triptych_inductor.runtime.binding import runtime_table
from triptych_inductor.runtime.native import native_library

Make = Callable[..., torch.Tensor]
SWITCH = "TRIPTYCH_PLAIN_TENSORS"  # environment variable; "1": tensors are made by Python functions


class _Torch(ctypes.Structure):
    """Mirror of `Torch` in `allocate.cpp`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("empty", "window", "drop", "wrap", "modes")),
        ("type_offset", ctypes.c_long),
        ("handle_offset", ctypes.c_long),
        ("tensor_type", ctypes.c_void_p),
        ("parameter_type", ctypes.c_void_p),
    ]


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Form(ctypes.Structure):
    """Mirror of `Form` in `allocate.cpp`."""

    _fields_ = [
        ("torch", ctypes.c_void_p),
        ("dim", ctypes.c_long),
        ("size", ctypes.c_void_p),
        ("stride", ctypes.c_void_p),
        ("offset", ctypes.c_long),
        *((name, ctypes.c_int) for name in ("dtype", "device_type", "device_index")),
        ("otherwise", ctypes.py_object),
        ("method", _Method),
    ]


_LOCK = threading.Lock()
_KEEP: list[Any] = []  # forms live as long as the process: the functions made of them may


@functools.cache
def new(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> Make:
    """A function without arguments that makes an uninitialised tensor of this form.

    >>> new((2, 3), (3, 1), torch.float32)().shape
    torch.Size([2, 3])
    """
    plain = functools.partial(torch.empty_strided, size, stride, dtype=dtype, device=torch.device(device))
    native = _native()
    return plain if native is None else native.form(size, stride, 0, dtype, torch.device(device), plain, fresh=True)


@functools.cache
def window(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Make:
    """A function of a tensor that gives a window of its memory, `offset` elements from the tensor's first.

    It is no view in the sense of autograd: for what only reads it, where no gradients are recorded.
    """

    def plain(base: torch.Tensor) -> torch.Tensor:
        return base.as_strided(size, stride, base.storage_offset() + offset)

    native = _native()
    cpu = torch.device("cpu")
    return plain if native is None else native.form(size, stride, offset, torch.uint8, cpu, plain, fresh=False)


class _Native:
    """The C library with torch's functions."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        folder = Path(torch.__file__).parent / "lib"
        self._cpu = ctypes.CDLL(str(folder / "libtorch_cpu.so"))
        python, core = ctypes.CDLL(str(folder / "libtorch_python.so")), ctypes.CDLL(str(folder / "libc10.so"))
        functions = [
            self._cpu.aoti_torch_empty_strided,
            self._cpu.aoti_torch__reinterpret_tensor,
            self._cpu.aoti_torch_delete_tensor_object,
            getattr(python, WRAP_TENSOR),
            getattr(core, dispatch_mode_depth),
        ]
        layout = runtime_table()
        addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in functions]
        self._torch = _Torch(
            *addresses, layout.type_offset, layout.handle_offset, layout.tensor_type, id(torch.nn.Parameter)
        )
        self._make = library.triptych_form
        self._make.restype = ctypes.py_object
        self._make.argtypes = [ctypes.c_void_p, ctypes.c_int]

    def form(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        offset: int,
        dtype: torch.dtype,
        device: torch.device,
        plain: Make,
        *,
        fresh: bool,
    ) -> Make:
        """The builtin of a form; `plain` where its dtype or device has no number."""
        codes = [self._code("dtype", str(dtype).removeprefix("torch.")), self._code("device_type", device.type)]
        if None in codes:
            return plain
        sizes, strides = ((ctypes.c_long * max(len(v), 1))(*v) for v in (size, stride))
        form = _Form(
            torch=ctypes.addressof(self._torch),
            dim=len(size),
            size=ctypes.addressof(sizes),
            stride=ctypes.addressof(strides),
            offset=offset,
            dtype=codes[0],
            device_type=codes[1],
            device_index=-1 if device.index is None else device.index,
            otherwise=plain,
        )
        _KEEP.append((form, sizes, strides, plain, self._torch))
        return self._make(ctypes.addressof(form), int(fresh))

    def _code(self, kind: str, name: str) -> int | None:
        function = getattr(self._cpu, f"aoti_torch_{kind}_{name}", None)
        return None if function is None else int(function())


def _native() -> _Native | None:
    """The C functions; None where they cannot be had or are not wanted. One of it, whatever number of threads ask."""
    with _LOCK:
        return _load()


@functools.cache
def _load() -> _Native | None:
    if os.environ.get(SWITCH) == "1":
        return None
    try:
        return _Native(native_library(__package__, "allocate"))
    except (AttributeError, CompilerNotFoundError, CompileError, OSError, RuntimeError):
        return None
