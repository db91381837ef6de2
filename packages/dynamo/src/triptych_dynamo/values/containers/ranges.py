"""`range` and `slice` objects, whose parts are numbers of the trace."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import MethodTable, builds_literal, constant_of, fold, index_of, is_scalar
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.indices import position_of, slice_of
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_PARTS = ("start", "stop", "step")
RANGE = MethodTable()


class RangeValue(Value):
    """A range of known numbers."""

    def __init__(self, value: range, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return range

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> range:
        return self.value

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return (tx.constant(number) for number in self.value)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in _PARTS:
            return tx.constant(getattr(self.value, name))
        if name in RANGE:
            return BuiltinMethodValue(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return RANGE.run(self, tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(range)
        for part in _PARTS:
            cg.load_const(getattr(self.value, part))
        cg.call(3)


@RANGE("__len__")
def _len(self: RangeValue, tx: Frame) -> Value:
    return fold(tx, len, [self.value])


@RANGE("__iter__")
def _iter(self: RangeValue, tx: Frame) -> Value:
    return iterators.RangeIterator(self.value)


@RANGE("__reversed__")
def _reversed(self: RangeValue, tx: Frame) -> Value:
    return iterators.RangeIterator(self.value[::-1])


@RANGE("__getitem__")
def _getitem(self: RangeValue, tx: Frame, key: Value) -> Value:
    if key.python_type() is slice:
        return RangeValue(self.value[slice_of(tx, key)])
    return fold(tx, operator.getitem, [self.value, position_of(tx, key, "range")])


@RANGE("__contains__")
def _contains(self: RangeValue, tx: Frame, item: Value) -> Value:
    return tx.constant(constant_of(tx, item, "a member of a range") in self.value)


@RANGE("__eq__")
def _eq(self: RangeValue, tx: Frame, other: Value) -> Value:
    return tx.constant(self.value == other.value if isinstance(other, RangeValue) else NotImplemented)


@RANGE("__ne__")
def _ne(self: RangeValue, tx: Frame, other: Value) -> Value:
    return tx.constant(self.value != other.value if isinstance(other, RangeValue) else NotImplemented)


@RANGE("index")
def _index(self: RangeValue, tx: Frame, item: Value) -> Value:
    number = constant_of(tx, item, "a member of a range")
    if number not in self.value:
        return tx.raise_python(ValueError, f"{number} is not in range")
    return tx.constant(self.value.index(number))


@RANGE("count")
def _count(self: RangeValue, tx: Frame, item: Value) -> Value:
    return tx.constant(self.value.count(constant_of(tx, item, "a member of a range")))


def make_range(tx: Frame, args: list[Value]) -> Value:
    """`range(*args)`; symbolic bounds are specialised, since the loop is unrolled."""
    numbers = [index_of(tx, arg, "a bound of a range") for arg in args]
    return fold(tx, range, numbers)


@wraps(range)
def wrap_range(tx: Frame, obj: range, source: Source | None) -> Value:
    """A range of the program."""
    tx.guard("range_is", source, obj)
    return RangeValue(obj, source)


@builds_literal(range)
def _range_literal(tx: Frame, obj: range) -> Value:
    return RangeValue(obj)


class SliceValue(Value):
    """A slice; its parts may be constants, symbolic numbers or any object."""

    def __init__(self, start: Value, stop: Value, step: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.parts = (start, stop, step)

    def python_type(self) -> type:
        return slice

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def as_constant(self) -> slice:
        return slice(*(part.as_constant() for part in self.parts))

    def specialize(self, tx: Frame) -> Value:
        """The same slice with symbolic parts decided now."""

        def known(part: Value) -> Value:
            return part if is_scalar(part) else tx.constant(index_of(tx, part, "a bound of a slice"))

        start, stop, step = self.parts
        return SliceValue(known(start), known(stop), known(step))

    def as_graph_arg(self, tx: Frame) -> Any:
        return slice(*(part.as_graph_arg(tx) for part in self.parts))

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return (slice, *(part.key(tx) for part in self.parts))

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in _PARTS:
            return self.parts[_PARTS.index(name)]
        if name == "indices":
            return BuiltinMethodValue(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "indices" and len(args) == 1:
            return fold(tx, slice_of(tx, self).indices, [index_of(tx, args[0], "a length")])
        if name in ("__eq__", "__ne__"):
            return self._equals(tx, name, args[0])
        return super().call_method(tx, name, args, kwargs)

    def _equals(self, tx: Frame, name: str, other: Value) -> Value:
        if not isinstance(other, SliceValue):
            return tx.constant(NotImplemented)
        same = all(operators.equal(tx, a, b) for a, b in zip(self.parts, other.parts, strict=True))
        return tx.constant(same == (name == "__eq__"))

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(slice)
        for part in self.parts:
            cg.load(part)
        cg.call(3)


def make_slice(tx: Frame, args: list[Value]) -> Value:
    """`slice(stop)` and `slice(start, stop[, step])`."""
    missing = tx.constant(None)
    if len(args) == 1:
        return SliceValue(missing, args[0], missing)
    return SliceValue(args[0], args[1], args[2] if len(args) == 3 else missing)


@wraps(slice)
def wrap_slice(tx: Frame, obj: slice, source: Source | None) -> Value:
    """A slice of the program."""
    tx.guard("type_is", source, slice)
    start, stop, step = (tx.wrap(getattr(obj, part), AttrSource(source, part) if source else None) for part in _PARTS)
    return SliceValue(start, stop, step, source)


@builds_literal(slice)
def _slice_literal(tx: Frame, obj: slice) -> Value:
    return SliceValue(tx.constant(obj.start), tx.constant(obj.stop), tx.constant(obj.step))
