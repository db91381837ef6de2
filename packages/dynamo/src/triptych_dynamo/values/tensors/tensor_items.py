"""`tensor[key]` and `tensor[key] = value` with numbers in the key that only the run knows.

torch's own indexing wants to know such an integer while tracing (is it negative?). `select` does not, so each one
becomes a full slice, and a `select` behind. Bounds that are tensors (`x[:n]`) are read into numbers.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.atoms import scalars
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.tensors.tensor import METHODS, TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_FULL = slice(None)
Item = Any  # a value, or a slice of values


def get(tx: Frame, tensor: TensorValue, key: Value) -> Value:
    """`tensor[key]`."""
    items = _with_numbers(tx, key)
    plan = None if items is None else _plan(tx, tensor, items)
    if plan is None:
        return tx.call_graph(operator.getitem, [tensor, key if items is None else _whole(key, items)])
    rest, selections = plan
    result: Value = tensor
    if any(item is not _FULL for item in rest):
        result = tx.call_graph(operator.getitem, [tensor, tuple(rest)])
    for dim, index in reversed(selections):
        result = tx.call_graph("select", [result, dim, index])
    return result


def store(tx: Frame, tensor: TensorValue, key: Value, value: Value) -> None:
    """`tensor[key] = value`."""
    items = _with_numbers(tx, key)
    if items is None:
        tx.call_graph(operator.setitem, [tensor, key, value])
    elif _plan(tx, tensor, items) is None:
        tx.call_graph(operator.setitem, [tensor, _whole(key, items), value])
    else:
        tx.call_graph("copy_" if isinstance(value, TensorValue) else "fill_", [get(tx, tensor, key), value])


def _get_method(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return get(tx, tensor, args[0])


def _store_method(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    store(tx, tensor, *args)
    return ConstantValue(None)


METHODS["__getitem__"] = _get_method
METHODS["__setitem__"] = _store_method


def _with_numbers(tx: Frame, key: Value) -> list[Item] | None:
    """The parts of the key, tensors as bounds of slices read into numbers; None where the key has nothing to change."""
    given = list(key.items) if key.python_type() is tuple and hasattr(key, "items") else [key]
    changed = False
    items: list[Item] = []
    for item in given:
        parts = getattr(item, "parts", None) if item.python_type() is slice else None
        if parts is not None:
            changed = changed or any(isinstance(part, TensorValue) for part in parts)
            item = slice(*[scalars.as_index(part, tx) if isinstance(part, TensorValue) else part for part in parts])
        items.append(item)
    return items if changed or any(_is_unknown(tx, item) for item in items) else None


def _whole(key: Value, items: list[Item]) -> Any:
    return tuple(items) if key.python_type() is tuple else items[0]


def _plan(tx: Frame, tensor: TensorValue, items: list[Item]) -> tuple[list[Item], list[tuple[int, Value]]] | None:
    """The key with full slices for unknown integers, and the (dimension, index) pairs to select; None without any."""
    if not any(_is_unknown(tx, item) for item in items) or not all(map(_is_basic, items)):
        return None
    consumed = sum(not _is_constant(item, None, Ellipsis) for item in items)
    rest: list[Item] = []
    selections: list[tuple[int, Value]] = []
    dim = 0
    for item in items:
        if _is_unknown(tx, item):
            selections.append((dim, item))
            item = _FULL
        rest.append(item)
        if _is_constant(item, Ellipsis):
            dim += tensor.fake.ndim - consumed
        elif isinstance(item, slice) or _is_constant(item, None):
            dim += 1
    return rest, selections


def _is_unknown(tx: Frame, item: Item) -> bool:
    return isinstance(item, SymbolicValue) and item.python_type() is int and tx.trace.unbacked.is_unbacked(item.sym)


def _is_basic(item: Item) -> bool:
    if isinstance(item, (slice, SymbolicValue)):
        return True
    return isinstance(item, ConstantValue) and (type(item.value) is int or _is_constant(item, None, Ellipsis))


def _is_constant(item: Item, *objects: object) -> bool:
    return isinstance(item, ConstantValue) and any(item.value is obj for obj in objects)
