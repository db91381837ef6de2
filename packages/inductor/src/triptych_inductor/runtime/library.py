"""Loading compiled units: shared libraries to Python callables, one for each kernel.

A kernel is called with tensors (their data pointers are read in C) and ints, in the order of `kernel_arguments`. It
returns None; an index out of range raises IndexError, an integer division by zero RuntimeError, as in eager.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from triptych_inductor.build.isa import cpu_features, isa_named
from triptych_inductor.build.pool import Binary
from triptych_inductor.runtime.binding import runtime_table

KernelCall = Callable[..., None]


class Library(Mapping[str, KernelCall]):
    """Kernels by name. Keeps the libraries loaded for as long as the process lives."""

    def __init__(self, calls: dict[str, KernelCall], arguments: dict[str, tuple[str, ...]]) -> None:
        self._calls = calls
        self.arguments = arguments

    def __getitem__(self, name: str) -> KernelCall:
        return self._calls[name]

    def __iter__(self) -> Any:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)


def load(binaries: Iterable[Binary]) -> Library:
    """Load compiled units; `RuntimeError` where this processor lacks an instruction set that one needs."""
    calls: dict[str, KernelCall] = {}
    arguments: dict[str, tuple[str, ...]] = {}
    for binary in binaries:
        missing = isa_named(binary.isa).requires - cpu_features()
        if missing:
            raise RuntimeError(f"built for {binary.isa}; this processor lacks {', '.join(sorted(missing))}")
        handle = _open(binary)
        for position, (name, names) in enumerate(binary.kernels):
            calls[name] = handle.triptych_kernel(position)
            arguments[name] = names
    return Library(calls, arguments)


_opened = itertools.count(1)


def _fresh_path(descriptor: int) -> str:
    """A path of an open file that no load has used: the loader takes equal paths for one library."""
    detour = "".join("/." if bit == "1" else "/" for bit in f"{next(_opened):b}")
    return f"/proc/self{detour}/fd/{descriptor}"


def _open(binary: Binary) -> ctypes.PyDLL:
    """The dynamic library of a unit, from a file in memory (or a temporary one where the system has no such files)."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("triptych")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(binary.data)
            handle = ctypes.PyDLL(_fresh_path(descriptor))
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary.data)
            file.flush()
            handle = ctypes.PyDLL(file.name)
    handle.triptych_kernel.restype = ctypes.py_object
    handle.triptych_kernel.argtypes = [ctypes.c_long]
    handle.triptych_bind.restype = None
    handle.triptych_bind(ctypes.byref(runtime_table()))
    return handle
