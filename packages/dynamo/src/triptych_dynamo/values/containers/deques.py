"""`collections.deque`: a list with two ends and a bound."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import containers
from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import (
    MethodTable,
    builds_literal,
    constant_of,
    fold,
    index_of,
    is_constant_equal,
    literal,
    none,
    origin_of,
)
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.list_methods import LIST
from triptych_dynamo.values.containers.sequences import ListValue, guard_sequence
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

DEQUE = MethodTable(LIST)
for _name in ("sort", "__imul__", "__init__"):
    del DEQUE.rows[_name]


class DequeValue(ListValue):
    """A deque; `maxlen` is None or a number."""

    methods = DEQUE
    family: type = deque

    def __init__(self, items: Any, maxlen: int | None = None, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.cls = deque
        self.maxlen = maxlen
        self.moved = False  # whether more than items in their places changed
        if source is None:
            self.trim(from_left=True)

    def trim(self, *, from_left: bool) -> None:
        """Drop what is over the bound."""
        while self.maxlen is not None and len(self._items) > self.maxlen:
            del self._items[0 if from_left else -1]

    def as_constant(self) -> Any:
        return deque((item.as_constant() for item in self.items), self.maxlen)

    def as_graph_arg(self, tx: Frame) -> Any:
        return tx.unsupported("graph-argument", "a deque")

    def like(self, items: list[Value]) -> DequeValue:
        return DequeValue(list(items), self.maxlen)

    def get_attr(self, tx: Frame, name: str) -> Value:
        return tx.constant(self.maxlen) if name == "maxlen" else super().get_attr(tx, name)

    def changed(self, tx: Frame) -> None:
        self.moved = True
        super().changed(tx)

    def replay(self, cg: Writer) -> None:
        """Emit `obj.clear(); obj.extend([...])`, or the items alone: what iterates over it may go on then."""
        items = self.items
        if not self.moved:
            for index, item in enumerate(items):
                cg.load(item)
                cg.load(self)
                cg.load_const(index)
                cg.store_subscr()
            return
        for name in ("clear", "extend"):
            cg.load_object(getattr(deque, name))
            cg.load(self)
            if name == "extend":
                self._load_list(cg)
            cg.call(2 if name == "extend" else 1)
            cg.pop()

    def _load_list(self, cg: Writer) -> None:
        for item in self.items:
            cg.load(item)
        cg.build("LIST", len(self.items))

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(deque)
        self._load_list(cg)
        cg.load_const(self.maxlen)
        cg.call(2)


@DEQUE("append")
def _append(self: DequeValue, tx: Frame, item: Value) -> Value:
    self.changed(tx)
    self._items.append(item)
    self.trim(from_left=True)
    return none(tx)


@DEQUE("appendleft")
def _appendleft(self: DequeValue, tx: Frame, item: Value) -> Value:
    self.changed(tx)
    self._items.insert(0, item)
    self.trim(from_left=False)
    return none(tx)


@DEQUE("extend")
def _extend(self: DequeValue, tx: Frame, iterable: Value) -> Value:
    for item in iterators.items_of(tx, iterable):
        _append(self, tx, item)
    return none(tx)


@DEQUE("__iadd__")
def _iadd(self: DequeValue, tx: Frame, iterable: Value) -> Value:
    _extend(self, tx, iterable)
    return self


@DEQUE("extendleft")
def _extendleft(self: DequeValue, tx: Frame, iterable: Value) -> Value:
    for item in iterators.items_of(tx, iterable):
        _appendleft(self, tx, item)
    return none(tx)


@DEQUE("pop")
def _pop(self: DequeValue, tx: Frame) -> Value:
    return _take(self, tx, -1)


@DEQUE("popleft")
def _popleft(self: DequeValue, tx: Frame) -> Value:
    return _take(self, tx, 0)


def _take(self: DequeValue, tx: Frame, index: int) -> Value:
    if not self._items:
        return tx.raise_python(IndexError, "pop from an empty deque")
    item = self.item(index)
    self.changed(tx)
    del self._items[index]
    return item


@DEQUE("insert")
def _insert(self: DequeValue, tx: Frame, index: Value, item: Value) -> Value:
    if self.maxlen is not None and len(self) >= self.maxlen:
        return tx.raise_python(IndexError, "deque already at its maximum size")
    self.changed(tx)
    self._items.insert(index_of(tx, index), item)
    return none(tx)


@DEQUE("rotate")
def _rotate(self: DequeValue, tx: Frame, n: Value | None = None) -> Value:
    return tx.call(tx.wrap(containers.rotate, None), [self] if n is None else [self, n], {})


def _place(self: DequeValue, tx: Frame, key: Value) -> int:
    index = index_of(tx, key)
    if not -len(self) <= index < len(self):
        return tx.raise_python(IndexError, "deque index out of range")
    return index


@DEQUE("__getitem__")
def _getitem(self: DequeValue, tx: Frame, key: Value) -> Value:
    index = _place(self, tx, key)
    return self.item(index)


@DEQUE("__setitem__")
def _setitem(self: DequeValue, tx: Frame, key: Value, item: Value) -> Value:
    index = _place(self, tx, key)
    moved = self.moved
    self.changed(tx)
    self.moved = moved
    self._items[index] = item
    return none(tx)


@DEQUE("__delitem__")
def _delitem(self: DequeValue, tx: Frame, key: Value) -> Value:
    index = _place(self, tx, key)
    self.changed(tx)
    del self._items[index]
    return none(tx)


@DEQUE("remove")
def _remove(self: DequeValue, tx: Frame, wanted: Value) -> Value:
    return tx.call(tx.wrap(containers.deque_remove, None), [self, wanted], {})


@DEQUE("index")
def _index(self: DequeValue, tx: Frame, *args: Value) -> Value:
    return tx.call(tx.wrap(containers.deque_index, None), [self, *args], {})


@DEQUE("__reduce_ex__", "__reduce__")
def _reduce(self: DequeValue, tx: Frame, protocol: Value | None = None) -> Value:
    """What `copy` asks for: the class, its arguments and the items."""
    bounds = [] if self.maxlen is None else [tx.trace.make_tuple([]), tx.constant(self.maxlen)]
    items = iterators.get_iter(tx, self)
    return tx.trace.make_tuple([tx.wrap(deque, None), tx.trace.make_tuple(bounds), none(tx), items])


@DEQUE("copy", "__copy__")
def _copy(self: DequeValue, tx: Frame) -> Value:
    return self.like(self.items)


@constructs(deque)
def _deque(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    bound = kwargs.get("maxlen") or (args[1] if len(args) > 1 else None)
    maxlen = None if bound is None or is_constant_equal(bound, None) else constant_of(tx, bound, "maxlen")
    fold(tx, deque, [(), maxlen])  # raises for what is no bound
    iterable = kwargs.get("iterable") or (args[0] if args else None)
    return DequeValue([] if iterable is None else iterators.items_of(tx, iterable), maxlen)


@wraps(deque)
def wrap_deque(tx: Frame, obj: deque[Any], source: Source | None) -> Value:
    """A deque of the program."""
    source = origin_of(obj, source)
    tx.guard("equals", AttrSource(source, "maxlen"), obj.maxlen)
    return DequeValue(guard_sequence(tx, obj, source), obj.maxlen, source)


@builds_literal(deque)
def _deque_literal(tx: Frame, obj: deque[Any]) -> Value:
    return DequeValue([literal(tx, item) for item in obj], obj.maxlen)
