"""`Inputs`: what the arguments of a call looked like, to be compared with those of later calls by C code."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from typing import Any

import torch

from triptych_inductor.runtime import objects


class _Input(ctypes.Structure):
    """Mirror of `Input` in `inputs.cpp`."""

    _fields_ = [
        ("object", ctypes.c_void_p),
        ("address", ctypes.c_void_p),
        ("dim", ctypes.c_long),
        ("numbers", ctypes.c_void_p),
    ]


class _Inputs(ctypes.Structure):
    """Mirror of `Inputs` in `inputs.cpp`."""

    _fields_ = [
        ("torch", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("data_ptr", ctypes.c_void_p),
        ("count", ctypes.c_long),
        ("rows", ctypes.c_void_p),
    ]


class Inputs:
    """The forms of a call's arguments, and the addresses of tensors that are not in `anywhere` (positions).

    Holds no tensor. Numbers and other plain arguments are held, and compared by identity.

    >>> known = Inputs.of([torch.ones(2), 3])
    >>> known is None or not known.fit([torch.ones(3), 3])
    True
    """

    def __init__(self, native: objects.Native, args: Sequence[Any], anywhere: Collection[int]) -> None:
        self._plain = [a for a in args if not isinstance(a, torch.Tensor)]
        self._numbers: list[Any] = []
        self._rows = (_Input * len(args))(*[self._row(a, k in anywhere) for k, a in enumerate(args)])
        functions = (native.cpu.aoti_torch_get_sizes, native.cpu.aoti_torch_get_data_ptr)
        self._native = native
        self._record = _Inputs(
            native.torch, *map(objects.address_of, functions), len(args), ctypes.addressof(self._rows)
        )
        self._address = ctypes.addressof(self._record)

    @staticmethod
    def of(args: Sequence[Any], anywhere: Collection[int] = ()) -> Inputs | None:
        """The record; None without torch's C functions, and where tensors are of other classes than torch's own."""
        native = objects.native()
        if native is None or any(isinstance(a, torch.Tensor) and type(a) not in PLAIN for a in args):
            return None
        return Inputs(native, args, anywhere)

    def fit(self, args: list[Any]) -> bool:
        """Whether these arguments have the recorded forms and addresses."""
        return bool(self._native.as_before(self._address, args))

    def _row(self, value: Any, anywhere: bool) -> _Input:
        if not isinstance(value, torch.Tensor):
            return _Input(object=id(value))
        numbers = (ctypes.c_long * (2 * value.ndim))(*value.shape, *value.stride())
        self._numbers.append(numbers)
        address = None if anywhere else value.data_ptr()
        return _Input(None, address, value.ndim, ctypes.addressof(numbers))


PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Classes whose objects the C code knows."""
