"""The GPU driver through ctypes: loading machine code and the table that the C launcher works with.

One row a family of devices; NVIDIA's and AMD's drivers have the same calls under other names.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.runtime.binding import runtime_table
from triptych_inductor.runtime.native import native_library

_MAX_DYNAMIC_SHARED = 8  # the function attribute of that name, in both drivers
_PLAIN_SHARED = 48 * 1024  # what a function may have without asking


class DriverError(RuntimeError):
    """A call of the GPU driver failed; the text has the call and the driver's words."""


@dataclass(frozen=True)
class DriverNames:
    """Where a family's driver is, and what its functions are called ("" where it has none)."""

    library: str
    torch_library: str
    launch: str
    load: str
    find: str
    set_attribute: str
    error_text: str
    get_context: str = ""
    push_context: str = ""
    pop_context: str = ""
    extra_parameters: int = 2  # pointers that Triton's functions take after their own parameters


DRIVERS: dict[str, DriverNames] = {
    "nvidia": DriverNames(
        "libcuda.so.1",
        "libtorch_cuda.so",
        "cuLaunchKernel",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncSetAttribute",
        "cuGetErrorString",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
    ),
    "amd": DriverNames(
        "libamdhip64.so",
        "libtorch_hip.so",
        "hipModuleLaunchKernel",
        "hipModuleLoadData",
        "hipModuleGetFunction",
        "hipFuncSetAttribute",
        "hipDrvGetErrorString",
    ),
}


class DriverTable(ctypes.Structure):
    """Mirror of `Driver` in `launcher.cpp`."""

    _fields_ = [
        ("type_offset", ctypes.c_long),
        ("handle_offset", ctypes.c_long),
        ("tensor_type", ctypes.c_void_p),
        ("data_ptr", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("get_context", ctypes.c_void_p),
        ("push_context", ctypes.c_void_p),
        ("pop_context", ctypes.c_void_p),
        ("error_text", ctypes.c_void_p),
    ]


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


class Driver:
    """The driver of one family: `table` for the launcher, and module loading."""

    def __init__(self, family: str) -> None:
        if family not in DRIVERS:
            raise DriverError(f"no driver is described for {family} devices; described: {', '.join(DRIVERS)}")
        self.names = DRIVERS[family]
        try:
            self.library = ctypes.CDLL(self.names.library)
        except OSError as error:
            raise DriverError(f"the driver library {self.names.library} cannot be opened: {error}") from error
        self._keep: list[Any] = []
        self.table = self._table()

    def _table(self) -> DriverTable:
        common = runtime_table()
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / self.names.torch_library))
        optional = [self.names.get_context, self.names.push_context, self.names.pop_context, self.names.error_text]
        addresses = [_address(getattr(self.library, name)) if name else None for name in optional]
        return DriverTable(
            common.type_offset,
            common.handle_offset,
            common.tensor_type,
            common.data_ptr,
            self._stream_function(torch_library),
            _address(getattr(self.library, self.names.launch)),
            *addresses,
        )

    def _stream_function(self, torch_library: ctypes.CDLL) -> int | None:
        """torch's C function for the current stream; a slower one through Python where this torch does not export
        it."""
        if hasattr(torch_library, "aoti_torch_get_current_cuda_stream"):
            return _address(torch_library.aoti_torch_get_current_cuda_stream)
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))

        def current(index: int, result: Any) -> int:
            result[0] = torch.cuda.current_stream(index).cuda_stream
            return 0

        self._keep.append(prototype(current))
        return _address(self._keep[-1])

    def check(self, status: int, call: str) -> None:
        """`DriverError` unless a call's status is 0."""
        if status == 0:
            return
        text = ctypes.c_char_p()
        getattr(self.library, self.names.error_text)(status, ctypes.byref(text))
        words = text.value.decode() if text.value else "unknown error"
        raise DriverError(f"{call}: {words} ({status})")

    def load(self, data: bytes, name: str, shared: int) -> int:
        """The handle of function `name` of a piece of machine code, in the current context."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(getattr(self.library, self.names.load)(ctypes.byref(module), data), self.names.load)
        find = getattr(self.library, self.names.find)
        self.check(find(ctypes.byref(function), module, name.encode()), f"{self.names.find} {name}")
        if shared > _PLAIN_SHARED:
            ask = getattr(self.library, self.names.set_attribute)
            self.check(ask(function, _MAX_DYNAMIC_SHARED, shared), f"{self.names.set_attribute} {name}")
        assert function.value is not None
        return function.value

    def current_context(self) -> int | None:
        """The handle of this thread's context, None where the driver has none."""
        if not self.names.get_context:
            return None
        context = ctypes.c_void_p()
        self.check(getattr(self.library, self.names.get_context)(ctypes.byref(context)), self.names.get_context)
        return context.value


@cache
def driver(family: str) -> Driver:
    """The driver of a family of devices; `DriverError` where it is missing."""
    return Driver(family)


def driver_of(facts: DeviceFacts) -> Driver:
    """The driver of a device."""
    return driver(facts.family.name)


@cache
def launcher() -> ctypes.PyDLL:
    """The C launcher, built once by the C++ compiler and kept in the store."""
    library = native_library(__package__, "launcher")
    library.triptych_function.restype = ctypes.py_object
    library.triptych_function.argtypes = [ctypes.c_void_p]
    return library
