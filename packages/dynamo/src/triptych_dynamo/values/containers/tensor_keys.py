"""Tensors as keys of dictionaries: each is found by its identity, whatever `==` makes of it.

A tensor of the program stands for itself by a `RealKey`, one that the trace made by its value. What a dictionary of the
program holds for a tensor is read by the tensor, from wherever the program has it, so that nothing keeps it alive.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.guards.python_check import equal_exactly
from triptych_dynamo.sources import KeyedItemSource, Source
from triptych_dynamo.values.common import Unread

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


@dataclass(frozen=True)
class RealKey:
    """Stands for a real tensor; the trace keeps it alive."""

    address: int


def found_by_identity(key: Any) -> bool:
    """Whether a real key is a tensor whose class hashes it as torch does."""
    return isinstance(key, torch.Tensor) and type(key).__hash__ is torch.Tensor.__hash__


def is_tensor_key(mark: Any) -> bool:
    """Whether a stand-in is that of a tensor, of the program or of the trace."""
    return isinstance(mark, RealKey) or hasattr(mark, "real_key")


class UnreadOfTensor(Unread):
    """The value that a dictionary of the program, read at `source`, holds for the tensor of `entry`."""

    __slots__ = ("entry",)

    def __init__(self, tx: Frame, obj: Any, source: Source, entry: Any) -> None:
        super().__init__(tx, obj, source)
        self.entry = entry

    def read(self) -> Value:
        """Wrap the item, read by the tensor."""
        key = self.entry.key.source
        assert key is not None
        return self.tx.wrap(self.obj, KeyedItemSource(self.source, key))


@dataclass(frozen=True)
class TheseKeys:
    """A check: a dictionary has these keys, or equal constants, in this order; tensors are held weakly."""

    keys: tuple[Any, ...]

    @classmethod
    def of(cls, keys: tuple[Any, ...]) -> TheseKeys:
        """The check for real keys."""
        return cls(tuple(weakref.ref(key) if isinstance(key, torch.Tensor) else key for key in keys))

    def __call__(self, mapping: dict[Any, Any]) -> bool:
        return len(mapping) == len(self.keys) and all(map(_is_key, mapping, self.keys))


def _is_key(found: Any, expected: Any) -> bool:
    if isinstance(expected, weakref.ref):
        return found is not None and found is expected()
    return equal_exactly(found, expected)
