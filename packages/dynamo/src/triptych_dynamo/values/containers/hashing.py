"""Stand-ins of values as keys of dictionaries and members of sets, and the error of what cannot be one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.errors import TracedException
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.type_names import TELLS_FULL_NAMES, full_name

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


class ObjectKey:
    """Stands for a real object with an `__eq__` in Python, which would not know the stand-ins of others."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __hash__(self) -> int:
        return hash(self.obj)

    def __eq__(self, other: object) -> bool:
        if getattr(other, "asks_program", False):
            return bool(other.equals(None, self.obj))  # type: ignore[attr-defined]
        against = other.obj if isinstance(other, ObjectKey) else other
        return self.obj is against or bool(self.obj == against)


def asks_program(mark: Any) -> bool:
    """Whether looking for this stand-in asks methods of the program."""
    return any(map(asks_program, mark)) if type(mark) is tuple else getattr(mark, "asks_program", False)


@dataclass(frozen=True)
class SameHashes:
    """A check: a dictionary's keys with a `__hash__` of their own, in order, and their hashes.

    numbers: (place among the keys, hash) of each.
    """

    numbers: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, keys: dict[Any, Any]) -> SameHashes:
        """The check for real keys, given by their stand-ins."""
        return cls(tuple((place, hash(mark)) for place, mark in enumerate(keys) if _has_object(mark)))

    def __call__(self, mapping: dict[Any, Any]) -> bool:
        iterate = OrderedDict.__iter__ if isinstance(mapping, OrderedDict) else dict.__iter__
        keys = list(iterate(mapping))  # type: ignore[arg-type]
        return all(place < len(keys) and hash(keys[place]) == number for place, number in self.numbers)


def _has_object(mark: Any) -> bool:
    return any(map(_has_object, mark)) if type(mark) is tuple else isinstance(mark, ObjectKey)


def mark_of_real(obj: Any) -> Any:
    """The stand-in of a real key that the program has not changed."""
    if type(obj) is tuple:
        return tuple(map(mark_of_real, obj))
    return ObjectKey(obj) if isinstance(getattr(type(obj), "__eq__", None), FunctionType) else obj


def key_of(tx: Frame, value: Value) -> Any:
    """The stand-in of a dictionary's key."""
    return _stand_in(tx, value, "dict key")


def member_of(tx: Frame, value: Value) -> Any:
    """The stand-in of a set's element."""
    return _stand_in(tx, value, "set element")


def hold(mark: Any) -> Any:
    """A container keeps this stand-in: from now on a change of its object may change its hash."""
    if getattr(mark, "needs_fields", False):
        mark.value.is_key = True
    return mark


def _stand_in(tx: Frame, value: Value, use: str) -> Any:
    try:
        return value.key(tx)
    except TracedException as error:
        text = _text(tx, error) if TELLS_FULL_NAMES else None
        if text is None:
            raise
    return tx.raise_python(TypeError, f"cannot use '{full_name(value.python_type())}' as a {use} ({text})")


def _text(tx: Frame, error: TracedException) -> str | None:
    """The text of a plain TypeError."""
    arguments = getattr(error.value, "arguments", None)
    if error.value.python_type() is not TypeError or arguments is None:
        return None
    parts = arguments(tx)
    return str(parts[0].as_constant()) if len(parts) == 1 and parts[0].is_constant() else None


def _has_tensor(obj: Any) -> bool:
    """Whether a key is found by the identity of tensors, which its parts in a trace do not have."""
    if isinstance(obj, (tuple, frozenset)):
        return any(map(_has_tensor, obj))
    return isinstance(obj, torch.Tensor)


def check_key(tx: Frame, obj: Any, is_held: Callable[[Any], bool]) -> None:
    """A real key stands for itself, if its container finds it: its hash may have changed, or may fail."""
    if type(obj) in ConstantValue.ATOMS:
        return
    if _has_tensor(obj):
        tx.unsupported("dict-key", "a dictionary or set of the program with tensors in its keys")
    try:
        found = is_held(obj)
    except Exception:
        found = False
    if not found:
        tx.unsupported("dict-key", "a key whose hash is another one than when it went into its dictionary or set")
