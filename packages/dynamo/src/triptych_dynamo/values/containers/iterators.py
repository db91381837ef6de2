"""Iterators: `iter(obj)` of everything, and the lazy builtins `zip`, `map`, `filter`, `enumerate`, `reversed`.

An iterator answers `next_item(tx)`: the next value, or None when it is exhausted. `get_iter` gives the iterator of
any value, `iterate` steps through any value from Python.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from collections.abc import Iterator as IteratorABC
from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException
from triptych_dynamo.polyfills import iteration
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import builds_literal, constant_of, index_of, literal, supports, type_name
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_METHODS = ("__iter__", "__next__", "__length_hint__")


class IteratorValue(Value):
    """Base of the iterators that the trace makes."""

    cls: type = type(iter(()))

    def __init__(self) -> None:
        super().__init__()
        self.exhausted = False

    def python_type(self) -> type:
        return self.cls

    def truth(self, tx: Frame) -> bool:
        return True

    def step(self, tx: Frame) -> Value | None:
        """The next value or None, in each family."""
        raise NotImplementedError

    def left(self) -> int | None:
        """How many items are left; None where only the run tells."""
        return None

    def next_item(self, tx: Frame) -> Value | None:
        """The next value, or None when there is none; an exhausted iterator stays so."""
        if self.exhausted:
            return None
        item = self.step(tx)
        self.exhausted = item is None
        return item

    def iterate(self, tx: Frame) -> Iterator[Value]:
        while (item := self.next_item(tx)) is not None:
            yield item

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in _METHODS and hasattr(self.cls, name):
            return BuiltinMethodValue(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self
        if name == "__next__":
            item = self.next_item(tx)
            return tx.raise_python(StopIteration) if item is None else item
        left = self.left() if name == "__length_hint__" else None
        if left is not None:
            return tx.constant(0 if self.exhausted else max(left, 0))
        return super().call_method(tx, name, args, kwargs)


def _reconstruct_rest(cg: Writer, items: list[Value]) -> None:
    """Emit an iterator over a list of what is left."""
    cg.load_object(iter)
    for item in items:
        cg.load(item)
    cg.build("LIST", len(items))
    cg.call(1)


_DEQUE_ITERATOR: type = type(iter(collections.deque()))


class SequenceIterator(IteratorValue):
    """Over a live list, tuple or deque: sees items that are added while it runs."""

    def __init__(self, sequence: Any, cls: type | None = None) -> None:
        super().__init__()
        self.sequence, self.index = sequence, 0
        self.cls = cls or type(iter(sequence.family()))

    def step(self, tx: Frame) -> Value | None:
        if self.index >= len(self.sequence):
            return None
        self.index += 1
        return self.sequence.item(self.index - 1)  # type: ignore[no-any-return]

    def left(self) -> int:
        return len(self.sequence) - self.index

    def reconstruct(self, cg: Writer) -> None:
        if self.exhausted:
            _reconstruct_rest(cg, [])
        elif self.cls is not _DEQUE_ITERATOR:
            _reconstruct_at(cg, iter, self, self.index)
        elif _is_filled_later(cg, self.sequence):
            _reconstruct_rest(cg, self.sequence.items[self.index :])
        else:
            _reconstruct_deque_iterator(cg, self, self.index)

    def replay(self, cg: Writer) -> None:
        _set_position(cg, self, self.index)


def _is_filled_later(cg: Writer, sequence: Any) -> bool:
    """Whether effects replace the items: an iterator is made before, over what there was."""
    moves = sequence.source is not None and getattr(sequence, "moved", True)  # a deque's items may stay in place
    return moves and any(item is sequence.this for item in cg.trace.effects.changed())


def _reconstruct_at(cg: Writer, function: Any, iterator: Any, index: int) -> None:
    """Emit `function(sequence)`, set to a position, which the sequence must have by then."""
    cg.load_object(function)
    cg.load(iterator.sequence)
    cg.call(1)
    if _is_filled_later(cg, iterator.sequence):
        cg.last(iterator)
    else:
        cg.copy()
        _emit_position(cg, index)


def _set_position(cg: Writer, iterator: Value, index: int) -> None:
    cg.load(iterator)
    _emit_position(cg, index)


def _emit_position(cg: Writer, index: int) -> None:
    """`iterator ->`."""
    cg.load_attr("__setstate__")
    cg.load_const(index)
    cg.call(1)
    cg.pop()


def _reconstruct_deque_iterator(cg: Writer, iterator: Any, steps: int) -> None:
    """Emit one that has made its first steps: the class takes their number, and has no `__setstate__`."""
    cg.load_object(iterator.cls)
    cg.load(iterator.sequence)
    cg.load_const(steps)
    cg.call(2)


_DEQUE_REVERSED: type = type(reversed(collections.deque()))


class ReverseIterator(IteratorValue):
    """`reversed` of a live list or of any sequence value with `item`."""

    def __init__(self, sequence: Any) -> None:
        super().__init__()
        self.sequence, self.index = sequence, len(sequence) - 1
        self.cls = type(reversed(sequence.family()))

    def step(self, tx: Frame) -> Value | None:
        if not 0 <= self.index < len(self.sequence):
            return None
        self.index -= 1
        return self.sequence.item(self.index + 1)  # type: ignore[no-any-return]

    def left(self) -> int:
        return self.index + 1 if self.index < len(self.sequence) else 0

    def reconstruct(self, cg: Writer) -> None:
        if self.exhausted or not 0 <= self.index < len(self.sequence):
            cg.load_object(reversed)
            cg.load_object(self.sequence.family)
            cg.call(0)
            cg.call(1)
        elif self.cls is not _DEQUE_REVERSED:
            _reconstruct_at(cg, reversed, self, self.index)
        elif _is_filled_later(cg, self.sequence):
            _reconstruct_rest(cg, self.sequence.items[self.index :: -1])
        else:
            _reconstruct_deque_iterator(cg, self, len(self.sequence) - 1 - self.index)

    def replay(self, cg: Writer) -> None:
        _set_position(cg, self, self.index)


class ReverseByIndex(IteratorValue):
    """`reversed` of an object with `__len__` and `__getitem__` of its own."""

    cls = reversed

    def __init__(self, sequence: Value, index: int) -> None:
        super().__init__()
        self.sequence, self.index = sequence, index

    def step(self, tx: Frame) -> Value | None:
        if self.index < 0:
            return None
        self.index -= 1
        try:
            return self.sequence.call_method(tx, "__getitem__", [tx.constant(self.index + 1)], {})
        except TracedException as error:
            if issubclass(error.value.python_type(), (IndexError, StopIteration)):
                return None
            raise

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__length_hint__" and not self.exhausted:
            length = index_of(tx, self.sequence.call_method(tx, "__len__", [], {}))
            return tx.constant(0 if length < self.index + 1 else self.index + 1)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        if self.exhausted or self.index < 0:
            cg.load_object(reversed)
            cg.load_const(())
            cg.call(1)
        else:
            cg.load_object(reversed)
            cg.load(self.sequence)
            cg.call(1)
            cg.last(self)

    def replay(self, cg: Writer) -> None:
        _set_position(cg, self, self.index)


def _count(numbers: range) -> int:
    """How many numbers: `len` has no answer beyond the machine's sizes."""
    up = 1 if numbers.step > 0 else -1
    return max(0, (numbers.stop - numbers.start + numbers.step - up) // numbers.step)


class RangeIterator(IteratorValue):
    """Over a range of constants."""

    def __init__(self, numbers: range) -> None:
        super().__init__()
        self.numbers, self.index, self.count = numbers, 0, _count(numbers)
        self.cls = type(iter(numbers))

    def left(self) -> int:
        return self.count - self.index

    def step(self, tx: Frame) -> Value | None:
        if self.index >= self.count:
            return None
        self.index += 1
        return tx.constant(self.numbers[self.index - 1])

    def reconstruct(self, cg: Writer) -> None:
        rest = self.numbers[self.index :]
        cg.load_object(iter)
        cg.load_object(range)
        for bound in (rest.start, rest.stop, rest.step):
            cg.load_const(bound)
        cg.call(3)
        cg.call(1)


class SnapshotIterator(IteratorValue):
    """Over values listed at its start; `check` may raise the traced error that a changed container raises."""

    def __init__(self, items: list[Value], cls: type, check: Callable[[Frame], None] | None = None) -> None:
        super().__init__()
        self.items, self.index, self.cls, self.check = items, 0, cls, check

    def left(self) -> int:
        return len(self.items) - self.index

    def step(self, tx: Frame) -> Value | None:
        if self.check is not None:
            self.check(tx)
        if self.index >= len(self.items):
            return None
        self.index += 1
        return self.items[self.index - 1]

    def reconstruct(self, cg: Writer) -> None:
        _reconstruct_rest(cg, [] if self.exhausted else self.items[self.index :])


@builds_literal(IteratorABC)
def _iterator_literal(tx: Frame, obj: Any) -> Value:
    """What a folded function gives step by step."""
    try:
        items = list(obj)
    except Exception as error:
        tx.raise_python(type(error), *error.args)
    return SnapshotIterator([literal(tx, item) for item in items], type(obj))


class ZipIterator(IteratorValue):
    """`zip(*iterables, strict=)`."""

    cls = zip

    def __init__(self, parts: list[Value], strict: bool, make_tuple: Callable[[list[Value]], Value]) -> None:
        super().__init__()
        self.parts, self.strict, self.make_tuple = parts, strict, make_tuple

    def step(self, tx: Frame) -> Value | None:
        row: list[Value] = []
        for position, part in enumerate(self.parts):
            item = next_item(tx, part)
            if item is None:
                self._ended(tx, position)
                return None
            row.append(item)
        return self.make_tuple(row) if row else None

    def _ended(self, tx: Frame, position: int) -> None:
        if not self.strict:
            return
        if position:
            before = "argument 1" if position == 1 else f"arguments 1-{position}"
            tx.raise_python(ValueError, f"zip() argument {position + 1} is shorter than {before}")
        for later in range(1, len(self.parts)):
            if next_item(tx, self.parts[later]) is not None:
                before = "argument 1" if later == 1 else f"arguments 1-{later}"
                tx.raise_python(ValueError, f"zip() argument {later + 1} is longer than {before}")

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(zip)
        for part in self.parts:
            cg.load(part)
        if self.strict:
            cg.load_const(True)
            cg.call(len(self.parts) + 1, ("strict",))
        else:
            cg.call(len(self.parts))


class MapIterator(IteratorValue):
    """`map(function, *iterables)`."""

    cls = map

    def __init__(self, function: Value, parts: list[Value]) -> None:
        super().__init__()
        self.function, self.parts = function, parts

    def step(self, tx: Frame) -> Value | None:
        row: list[Value] = []
        for part in self.parts:
            item = next_item(tx, part)
            if item is None:
                return None
            row.append(item)
        return tx.call(self.function, row, {})

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(map)
        cg.load(self.function)
        for part in self.parts:
            cg.load(part)
        cg.call(1 + len(self.parts))


class FilterIterator(IteratorValue):
    """`filter(function, iterable)`; None as function keeps what is true."""

    cls = filter

    def __init__(self, function: Value, part: Value) -> None:
        super().__init__()
        self.function, self.part = function, part

    def step(self, tx: Frame) -> Value | None:
        plain = self.function.is_constant() and self.function.as_constant() is None
        while (item := next_item(tx, self.part)) is not None:
            verdict = item if plain else tx.call(self.function, [item], {})
            if verdict.truth(tx):
                return item
        return None

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(filter)
        cg.load(self.function)
        cg.load(self.part)
        cg.call(2)


class EnumerateIterator(IteratorValue):
    """`enumerate(iterable, start)`."""

    cls = enumerate

    def __init__(self, part: Value, start: int, make_tuple: Callable[[list[Value]], Value]) -> None:
        super().__init__()
        self.part, self.index, self.make_tuple = part, start, make_tuple

    def step(self, tx: Frame) -> Value | None:
        item = next_item(tx, self.part)
        if item is None:
            return None
        self.index += 1
        return self.make_tuple([tx.constant(self.index - 1), item])

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(enumerate)
        cg.load(self.part)
        cg.load_const(self.index)
        cg.call(2)


def get_iter(tx: Frame, value: Value) -> Value:
    """`iter(value)`: its `__iter__`, else its `__getitem__` from 0 on; raises the traced TypeError when it has
    neither.
    """
    if isinstance(value, IteratorValue):
        return value
    if isinstance(value, TensorValue):
        return SnapshotIterator(list(value.iterate(tx)), type(iter(())))
    if issubclass(value.python_type(), (str, bytes)) and value.is_constant():  # in this order: containers stay unread
        return SnapshotIterator(list(value.iterate(tx)), type(iter(value.as_constant())))
    if supports(value, "__iter__"):
        return value.call_method(tx, "__iter__", [], {})
    if supports(value, "__getitem__") and not supports(value, "keys"):
        return tx.call(tx.wrap(iteration.iter_by_index, None), [value], {})
    return tx.raise_python(TypeError, f"'{type_name(value)}' object is not iterable")


def next_item(tx: Frame, iterator: Value) -> Value | None:
    """One step of any iterator: the next value, or None when it is exhausted."""
    step = getattr(iterator, "next_item", None)
    if step is None or not supports(iterator, "__next__"):
        return tx.raise_python(TypeError, f"'{type_name(iterator)}' object is not an iterator")
    return step(tx)  # type: ignore[no-any-return]


def iterate(tx: Frame, value: Value) -> Iterator[Value]:
    """Step through any value by the iterator protocol."""
    iterator = get_iter(tx, value)
    while (item := next_item(tx, iterator)) is not None:
        yield item


def items_of(tx: Frame, value: Value) -> list[Value]:
    """All items of any iterable, as a Python list of values."""
    return list(iterate(tx, value))


def start_of_enumerate(tx: Frame, start: Value | None) -> int:
    """The `start` argument of `enumerate` as a number."""
    return 0 if start is None else int(constant_of(tx, start, "the start of enumerate"))
