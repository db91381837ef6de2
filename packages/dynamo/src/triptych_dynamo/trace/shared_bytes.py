"""Tensors and arrays over the memory of a bytearray (`torch.frombuffer`): a graph reads and writes them at other times
than the program reads and writes the bytes, so the two never meet in one region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.guards.python_check import memory_range
from triptych_dynamo.sources import ComputedSource, Source, is_owned

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class SharedBytes:
    """The objects of bytes that the program uses, and their memory in this call."""

    def __init__(self) -> None:
        self._places: dict[Source, tuple[int, int]] = {}

    def add(self, tx: Frame, source: Source, obj: Any) -> None:
        """The program uses the bytes of `obj`."""
        if source not in self._places:
            self._places[source] = memory_of(obj)
            for tensor in tx.trace.inputs.real_tensors().values():
                self._check(tx, tensor)

    def meet(self, tx: Frame, tensor: torch.Tensor) -> None:
        """A tensor becomes an input."""
        if self._places:
            self._check(tx, tensor)

    def _check(self, tx: Frame, tensor: torch.Tensor) -> None:
        start, end = range_of(tensor)
        if any(start < last and first < end for first, last in self._places.values()):
            tx.unsupported("graph-argument", "a tensor and an object of bytes in the same memory")

    def guard(self, tx: Any, tensors: list[Source]) -> None:
        """They are apart in other calls, too; tensors that modules own are taken as they are now."""
        read = [
            item.operands[0] if isinstance(item, ComputedSource) else item for item in tensors if not is_owned(item)
        ]
        for source in self._places if read else ():
            fact = PythonFact(are_apart, f"{source} shares no memory with a tensor", (source, *read))
            tx.guard("python", source, fact)


def memory_of(obj: Any) -> tuple[int, int]:
    """Where the bytes of an object are."""
    if len(obj) == 0:
        return 0, 0
    shown = torch.frombuffer(obj, dtype=torch.uint8)
    return shown.data_ptr(), shown.data_ptr() + shown.numel()


def range_of(tensor: Any) -> tuple[int, int]:
    """Where the numbers of a tensor or an array are."""
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.as_tensor(tensor)
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return 0, 0
    return memory_range(tensor)


def are_apart(obj: Any, *tensors: Any) -> bool:
    """Whether the memory of an object of bytes is none of the tensors'."""
    first, last = memory_of(obj)
    return not any(start < last and first < end for start, end in map(range_of, tensors))
