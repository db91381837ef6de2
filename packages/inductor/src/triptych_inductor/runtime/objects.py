"""torch's C functions, as the builtins that generated wrappers call use them: one library, one table of addresses.

What torch does not export, a machine without a C++ compiler or `TRIPTYCH_PLAIN_TENSORS=1` leave the Python functions.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from pathlib import Path
from typing import Any

import torch

from triptych_inductor._torch_compat import WRAP_TENSOR, dispatch_mode_depth, operator_callbacks
from triptych_inductor.build.compiler import CompileError, CompilerNotFoundError
from triptych_inductor.runtime.binding import runtime_table
from triptych_inductor.runtime.native import native_library

SWITCH = "TRIPTYCH_PLAIN_TENSORS"  # environment variable; "1": Python functions make tensors and call torch's library
SOURCES = ("objects", "allocate", "calls", "inputs")

_LOCK = threading.Lock()
_KEEP: list[Any] = []  # what the builtins read lives as long as the process: they may


class TorchTable(ctypes.Structure):
    """Mirror of `Torch` in `objects.cpp`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("empty", "window", "drop", "dim", "strides", "wrap", "modes")),
        ("callbacks", ctypes.c_void_p),
        ("type_offset", ctypes.c_long),
        ("handle_offset", ctypes.c_long),
        ("tensor_type", ctypes.c_void_p),
        ("parameter_type", ctypes.c_void_p),
    ]


class MethodDef(ctypes.Structure):
    """CPython's description of a builtin, which the C side fills."""

    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class Native:
    """The C library with torch's functions."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self.cpu = torch_library("cpu")
        python, core = ctypes.CDLL(str(_folder() / "libtorch_python.so")), ctypes.CDLL(str(_folder() / "libc10.so"))
        functions = [
            self.cpu.aoti_torch_empty_strided,
            self.cpu.aoti_torch__reinterpret_tensor,
            self.cpu.aoti_torch_delete_tensor_object,
            self.cpu.aoti_torch_get_dim,
            self.cpu.aoti_torch_get_strides,
            getattr(python, WRAP_TENSOR),
            getattr(core, dispatch_mode_depth),
            getattr(self.cpu, operator_callbacks),
        ]
        layout = runtime_table()
        self._torch = TorchTable(
            *map(address_of, functions),
            layout.type_offset,
            layout.handle_offset,
            layout.tensor_type,
            id(torch.nn.Parameter),
        )
        self.torch = ctypes.addressof(self._torch)
        self._make = {name: getattr(library, name) for name in ("triptych_form", "triptych_call")}
        for function in self._make.values():
            function.restype = ctypes.py_object
            function.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self.as_before = library.triptych_as_before
        self.as_before.restype = ctypes.c_long
        self.as_before.argtypes = [ctypes.c_void_p, ctypes.py_object]

    def builtin(self, maker: str, record: ctypes.Structure, kind: int, *keep: Any) -> Any:
        """The builtin that a C function makes of a record, which is kept with all that it points to."""
        _KEEP.append((record, self._torch, keep))
        return self._make[maker](ctypes.addressof(record), kind)


def _folder() -> Path:
    return Path(torch.__file__).parent / "lib"


def torch_library(device_type: str) -> ctypes.CDLL:
    """torch's library for a type of devices; `OSError` where this torch has none."""
    return ctypes.CDLL(str(_folder() / f"libtorch_{device_type}.so"))


def address_of(function: Any) -> int | None:
    """Where a C function lies."""
    return ctypes.cast(function, ctypes.c_void_p).value


def native() -> Native | None:
    """The C functions; None where they cannot be had or are not wanted. One of it, whatever number of threads ask."""
    with _LOCK:
        return load()


@functools.cache
def load() -> Native | None:
    """As `native`, by one thread at a time."""
    if os.environ.get(SWITCH) == "1":
        return None
    try:
        return Native(native_library(__package__, *SOURCES))
    except (AttributeError, CompilerNotFoundError, CompileError, OSError, RuntimeError):
        return None
