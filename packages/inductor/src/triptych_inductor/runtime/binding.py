"""What compiled units need of the process: torch's C functions, its thread pool, and the layout of tensor objects.

The layout is not assumed but found: the tensor's handle is searched in the object's memory and compared with
`Tensor._cdata`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from pathlib import Path

import torch


class RuntimeTable(ctypes.Structure):
    """Mirror of `Runtime` in the unit's launcher."""

    _fields_ = [
        ("type_offset", ctypes.c_long),
        ("handle_offset", ctypes.c_long),
        ("tensor_type", ctypes.c_void_p),
        ("data_ptr", ctypes.c_void_p),
        ("max_threads", ctypes.c_void_p),
        ("thread_number", ctypes.c_void_p),
        ("thread_count", ctypes.c_void_p),
        ("gomp_parallel", ctypes.c_void_p),
    ]


@cache
def runtime_table() -> RuntimeTable:
    """The table for this process; `RuntimeError` where torch or the interpreter is laid out in an unknown way."""
    torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    pool = _thread_pool(torch_library)
    address = lambda function: ctypes.cast(function, ctypes.c_void_p).value  # noqa: E731
    return RuntimeTable(
        _type_offset(),
        _handle_offset(),
        id(torch.Tensor),
        address(torch_library.aoti_torch_get_data_ptr),
        address(pool.omp_get_max_threads),
        address(pool.omp_get_thread_num),
        address(pool.omp_get_num_threads),
        address(pool.GOMP_parallel),
    )


def _type_offset() -> int:
    """Where an object's type lies in it."""
    probe = object()
    words = (ctypes.c_void_p * (object.__basicsize__ // 8)).from_address(id(probe))
    for k, word in enumerate(words):
        if word == id(object):
            return 8 * k
    raise RuntimeError("the layout of Python objects is not the one this runtime knows")


def _handle_offset() -> int:
    """Where a tensor object holds the pointer to its implementation."""
    made = [torch.empty(size, device="cpu") for size in (1, (2, 3), 4)]  # whatever the program's default device is
    probes = [*made[:2], torch.nn.Parameter(made[2])]
    for offset in range(object.__basicsize__, torch.Tensor.__basicsize__, 8):
        if all(ctypes.c_void_p.from_address(id(p) + offset).value == p._cdata for p in probes):
            return offset
    raise RuntimeError("the layout of tensor objects is not the one this runtime knows")


def _thread_pool(torch_library: ctypes.CDLL) -> ctypes.CDLL:
    """The OpenMP runtime that torch itself uses, so that both share one pool of threads."""
    if hasattr(torch_library, "GOMP_parallel"):
        return torch_library  # looked up through its dependencies
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split()[-1]
            if "libgomp" in path or "libomp" in path or "libiomp" in path:
                return ctypes.CDLL(path)
    raise RuntimeError("torch's OpenMP runtime was not found in this process")
