"""Keys of sequences: positions and slices, and the errors of what is neither."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.common import constant_of, index_of, is_constant_equal, supports, type_name

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


def _is_index(value: Value) -> bool:
    return hasattr(value.python_type(), "__index__") or supports(value, "__index__")


def position_of(tx: Frame, key: Value, kind: str) -> int:
    """A key that is no slice, as it is: it may count from the end, or lie outside."""
    if not _is_index(key):
        tx.raise_python(TypeError, f"{kind} indices must be integers or slices, not {type_name(key)}")
    index = index_of(tx, key)
    if kind != "range" and not -sys.maxsize - 1 <= index <= sys.maxsize:
        tx.raise_python(IndexError, f"cannot fit '{type_name(key)}' into an index-sized integer")
    return index


def slice_of(tx: Frame, key: Value) -> slice:
    """A slice as numbers."""
    parts = getattr(key, "parts", None)
    if parts is None:
        return constant_of(tx, key, "a slice")  # type: ignore[no-any-return]
    bounds = [_bound(tx, part) for part in parts]
    if bounds[2] == 0:
        tx.raise_python(ValueError, "slice step cannot be zero")
    return slice(*bounds)


def _bound(tx: Frame, part: Value) -> Any:
    if is_constant_equal(part, None):
        return None
    if not _is_index(part):
        tx.raise_python(TypeError, "slice indices must be integers or None or have an __index__ method")
    return index_of(tx, part, "a bound of a slice")


def repeated(tx: Frame, items: list[Any], times: Value) -> list[Any]:
    """`items * times`, which may be more than there can be."""
    if not _is_index(times):
        tx.raise_python(TypeError, f"can't multiply sequence by non-int of type '{type_name(times)}'")
    try:
        return items * index_of(tx, times, "a repetition")
    except (MemoryError, OverflowError) as error:
        return tx.raise_python(type(error), *error.args)
