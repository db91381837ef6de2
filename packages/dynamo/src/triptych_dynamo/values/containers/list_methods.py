"""The methods of lists, and sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.polyfills import containers
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.common import fold, index_of, is_constant_equal, none, supports
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.indices import position_of, repeated, slice_of
from triptych_dynamo.values.containers.sequences import LIST, ListValue, SequenceValue, TupleValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


@LIST("append")
def _append(self: ListValue, tx: Frame, item: Value) -> Value:
    self.changed(tx)
    add_item(self, item)
    return none(tx)


def add_item(self: ListValue, item: Value) -> None:
    """Add at the end, without a look at what is there."""
    (self._items if self.unlooked is None else self.appended).append(item)


@LIST("extend")
def _extend(self: ListValue, tx: Frame, iterable: Value) -> Value:
    self.changed(tx)
    items = list(iterable.items) if isinstance(iterable, SequenceValue) else iterators.iterate(tx, iterable)
    for item in items:
        add_item(self, item)
    return none(tx)


@LIST("__init__")
def _init(self: ListValue, tx: Frame, iterable: Value | None = None) -> Value:
    """`obj.__init__(...)` once more."""
    self.call_method(tx, "clear", [], {})
    return none(tx) if iterable is None else self.call_method(tx, "extend", [iterable], {})


@LIST("__iadd__")
def _iadd(self: ListValue, tx: Frame, iterable: Value) -> Value:
    _extend(self, tx, iterable)
    return self


@LIST("__imul__")
def _imul(self: ListValue, tx: Frame, times: Value) -> Value:
    self.changed(tx)
    self._items[:] = repeated(tx, self.items, times)
    return self


@LIST("insert")
def _insert(self: ListValue, tx: Frame, index: Value, item: Value) -> Value:
    self.changed(tx)
    self._items.insert(index_of(tx, index), item)
    return none(tx)


@LIST("pop")
def _pop(self: ListValue, tx: Frame, index: Value | None = None) -> Value:
    if not self._items:
        return tx.raise_python(IndexError, "pop from empty list")
    position = len(self) - 1 if index is None else index_of(tx, index)
    if not -len(self) <= position < len(self):
        return tx.raise_python(IndexError, "pop index out of range")
    item = self.item(position)
    self.changed(tx)
    del self._items[position]
    return item


@LIST("remove")
def _remove(self: ListValue, tx: Frame, wanted: Value) -> Value:
    return tx.call(tx.wrap(containers.remove, None), [self, wanted], {})


@LIST("clear")
def _clear(self: ListValue, tx: Frame) -> Value:
    self.changed(tx)
    self._items.clear()
    return none(tx)


@LIST("copy", "__copy__")
def _copy(self: ListValue, tx: Frame) -> Value:
    return ListValue(list(self.items))


@LIST("reverse")
def _reverse(self: ListValue, tx: Frame) -> Value:
    self.changed(tx)
    self._items.reverse()
    return none(tx)


@LIST("__reversed__")
def _reversed(self: ListValue, tx: Frame) -> Value:
    return iterators.ReverseIterator(self)


@LIST("sort")
def _sort(self: ListValue, tx: Frame, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    ordered = sort_values(tx, self.items, key, reverse)
    self.changed(tx)
    self._items[:] = ordered
    return none(tx)


@LIST("__setitem__")
def _setitem(self: ListValue, tx: Frame, key: Value, item: Value) -> Value:
    self.changed(tx)
    if key.python_type() is slice:
        taken = slice_of(tx, key)
        if not supports(item, "__iter__") and not supports(item, "__getitem__"):
            fold(tx, list.__setitem__, [[], taken, None])  # raises, with the text of this Python
        replacement = list(iterators.iterate(tx, item))
        _ = self.items
        try:
            self._items[taken] = replacement
        except ValueError as error:
            return tx.raise_python(ValueError, *error.args)
        return none(tx)
    index = position_of(tx, key, "list")
    if not -len(self) <= index < len(self):
        return tx.raise_python(IndexError, "list assignment index out of range")
    self._items[index] = item
    return none(tx)


@LIST("__delitem__")
def _delitem(self: ListValue, tx: Frame, key: Value) -> Value:
    self.changed(tx)
    if key.python_type() is slice:
        _ = self.items
        del self._items[slice_of(tx, key)]
        return none(tx)
    index = position_of(tx, key, "list")
    if not -len(self) <= index < len(self):
        return tx.raise_python(IndexError, "list assignment index out of range")
    del self._items[index]
    return none(tx)


def sort_values(tx: Frame, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
    """The sorted items as a new list; constants by Python's own sort, others by inlined comparisons."""
    backwards = reverse is not None and reverse.truth(tx)
    keys = items if key is None or is_constant_equal(key, None) else [tx.call(key, [item], {}) for item in items]
    if all(value.is_constant() for value in keys):
        try:
            constants = [value.as_constant() for value in keys]
            order = sorted(range(len(keys)), key=constants.__getitem__, reverse=backwards)
        except TypeError as error:
            return tx.raise_python(TypeError, *error.args)
        return [items[index] for index in order]
    pairs = ListValue([TupleValue([k, tx.constant(index)]) for index, k in enumerate(keys)])
    ordered = tx.call(tx.wrap(containers.sorted_by_first, None), [pairs, tx.constant(backwards)], {})
    assert isinstance(ordered, ListValue)
    return [items[operators.get_item(tx, pair, tx.constant(1)).as_constant()] for pair in ordered.items]
