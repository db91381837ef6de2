"""Lists and tuples (named tuples, `torch.Size` and the result tuples of torch among them).

A sequence holds the values of its items; those of a sourced sequence are `Unread` until the program looks at them. A
changed list with a source is written back as a whole after the graph, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.polyfills import containers, reductions
from triptych_dynamo.sources import ItemSource, Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import (
    MethodTable,
    Unread,
    builds_literal,
    is_scalar,
    literal,
    origin_of,
)
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.indices import position_of, repeated, slice_of
from triptych_dynamo.values.containers.ranges import SliceValue as SliceValue
from triptych_dynamo.values.registry import wraps, wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

SEQUENCE = MethodTable()


class Unlooked:
    """The items of a sequence of the program that nothing has asked for: not even their number is guarded."""

    def __init__(self, tx: Frame, obj: Any, source: Source) -> None:
        self.tx, self.obj, self.source = tx, obj, source

    def look(self) -> list[Any]:
        """Guard the length and give the items, unread."""
        self.tx.guard("length", self.source, len(self.obj))
        return [Unread(self.tx, item, ItemSource(self.source, index)) for index, item in enumerate(self.obj)]

    def item(self, index: int) -> Value | None:
        """One item by its place (from the end, where it is negative), whatever the length; None where there is none."""
        if not -len(self.obj) <= index < len(self.obj):
            return None
        return self.tx.wrap(self.obj[index], ItemSource(self.source, index))


class SequenceValue(Value):
    """Base of lists and tuples: `cls` is the exact type."""

    methods = SEQUENCE
    family: type = object  # what comparison and concatenation accept on the other side

    def __init__(self, items: list[Any] | Unlooked, source: Source | None = None, cls: type = object) -> None:
        super().__init__(source)
        self.unlooked = items if isinstance(items, Unlooked) else None
        self.appended: list[Value] = []  # while nobody has looked at the items before
        self._stored: list[Any] = [] if isinstance(items, Unlooked) else items
        self._unread = self.unlooked is not None or any(type(item) is Unread for item in self._stored)
        self.cls = cls
        self.owner: Value | None = None  # the instance of a subclass whose container part this is

    @property
    def this(self) -> Value:
        """The object that the program sees: the owner where there is one."""
        return self.owner or self

    @property
    def _items(self) -> list[Any]:
        """The items, some of them unread."""
        if self.unlooked is not None:
            self._stored = [*self.unlooked.look(), *self.appended]
            self.unlooked = None
        return self._stored

    @property
    def items(self) -> list[Value]:
        """All items, read."""
        if self._unread:
            self._items[:] = [item.read() if type(item) is Unread else item for item in self._items]
            self._unread = False
        return self._items

    def item(self, index: int) -> Value:
        """One item, read; IndexError as lists raise it."""
        found = self._items[index]
        if isinstance(found, Unread):
            found = self._items[index] = found.read()
        return found  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._items)

    def python_type(self) -> type:
        return self.cls

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.items)

    def as_constant(self) -> Any:
        return rebuild(self.cls, [item.as_constant() for item in self.items])

    def as_graph_arg(self, tx: Frame) -> Any:
        parts = [item.as_graph_arg(tx) for item in self.items]
        return parts if self.family is list else tuple(parts)

    def truth(self, tx: Frame) -> bool:
        if self.unlooked is None:
            return len(self) > 0
        if not self.appended:
            tx.guard("truth", self.source, bool(self.unlooked.obj))
        return bool(self.unlooked.obj or self.appended)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        index = 0
        while index < len(self):
            yield self.item(index)
            index += 1

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in self.methods:
            return BuiltinMethodValue(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.methods.run(self, tx, name, args, kwargs)

    def like(self, items: list[Value]) -> SequenceValue:
        """A new sequence of the plain type of this family."""
        raise NotImplementedError


def rebuild(cls: type, items: list[Any]) -> Any:
    """The Python sequence of type `cls` with these items."""
    if cls is list or cls is tuple:
        return cls(items)
    if is_named_tuple(cls):
        return tuple.__new__(cls, items)
    return cls(items)


def is_named_tuple(cls: type) -> bool:
    """Whether `cls` was made by `collections.namedtuple` (or derives from such a class)."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


def is_struct_sequence(cls: type) -> bool:
    """Whether `cls` is a result tuple written in C, such as `torch.return_types.max`."""
    return issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def normalise(tx: Frame, seq: SequenceValue, key: Value) -> int:
    """An index value as a position inside `seq`, or the traced IndexError."""
    index = position_of(tx, key, seq.family.__name__)
    if index < 0:
        index += len(seq)
    if not 0 <= index < len(seq):
        tx.raise_python(IndexError, f"{seq.family.__name__} index out of range")
    return index


@SEQUENCE("__len__")
def _len(self: SequenceValue, tx: Frame) -> Value:
    return tx.constant(len(self))


@SEQUENCE("__getitem__")
def _getitem(self: SequenceValue, tx: Frame, key: Value) -> Value:
    if key.python_type() is slice:
        taken = slice_of(tx, key)
        if self.cls is tuple and range(len(self))[taken] == range(len(self)):
            return self  # a tuple's whole slice, and what follows in this way, is the tuple
        return self.like(self.items[taken])
    if self.unlooked is not None and not self.appended and self.family in (list, tuple):
        single = self.unlooked.item(position_of(tx, key, self.family.__name__))
        if single is not None:
            return single
    return self.item(normalise(tx, self, key))


@SEQUENCE("__iter__")
def _iter(self: SequenceValue, tx: Frame) -> Value:
    return iterators.SequenceIterator(self)


@SEQUENCE("__contains__")
def _contains(self: SequenceValue, tx: Frame, wanted: Value) -> Value:
    return tx.constant(any(operators.equal(tx, item, wanted) for item in self.items))


@SEQUENCE("__add__")
def _add(self: SequenceValue, tx: Frame, other: Value) -> Value:
    if not isinstance(other, SequenceValue) or other.family is not self.family:
        return tx.constant(NotImplemented)
    if self.cls is tuple and other.cls is tuple and not (len(self) and len(other)):
        return self if len(self) else other
    return self.like([*self.items, *other.items])


@SEQUENCE("__radd__")
def _radd(self: SequenceValue, tx: Frame, other: Value) -> Value:
    if not isinstance(other, SequenceValue) or other.family is not self.family:
        return tx.constant(NotImplemented)
    return _add(other, tx, self)


@SEQUENCE("__mul__", "__rmul__")
def _mul(self: SequenceValue, tx: Frame, times: Value) -> Value:
    if not is_scalar(times) and not hasattr(times, "specialize"):
        return tx.constant(NotImplemented)
    items = repeated(tx, self.items, times)
    return self if self.cls is tuple and len(items) == len(self) else self.like(items)


def _comparison(name: str, model: Callable[..., bool]) -> None:
    def compare(self: SequenceValue, tx: Frame, other: Value) -> Value:
        if not isinstance(other, SequenceValue) or other.family is not self.family:
            return tx.constant(NotImplemented)
        if len(self) != len(other) and model is containers.sequence_eq:
            return tx.constant(False)
        return tx.call(tx.wrap(model, None), [self, other], {})

    SEQUENCE(name)(compare)


_comparison("__eq__", containers.sequence_eq)
_comparison("__lt__", containers.sequence_lt)
_comparison("__le__", containers.sequence_le)
_comparison("__gt__", containers.sequence_gt)
_comparison("__ge__", containers.sequence_ge)


@SEQUENCE("__ne__")
def _ne(self: SequenceValue, tx: Frame, other: Value) -> Value:
    if not isinstance(other, SequenceValue) or other.family is not self.family:
        return tx.constant(NotImplemented)
    return tx.constant(not operators.compare(tx, "==", self, other).truth(tx))


@SEQUENCE("index")
def _index(self: SequenceValue, tx: Frame, *args: Value) -> Value:
    return tx.call(tx.wrap(containers.index, None), [self, *args], {})


@SEQUENCE("count")
def _count(self: SequenceValue, tx: Frame, wanted: Value) -> Value:
    return tx.call(tx.wrap(reductions.count_of, None), [self, wanted], {})


LIST = MethodTable(SEQUENCE)


class ListValue(SequenceValue):
    """A list."""

    methods = LIST
    family: type = list

    def __init__(self, items: list[Any] | Unlooked, source: Source | None = None) -> None:
        super().__init__(items, source, list)

    def like(self, items: list[Value]) -> ListValue:
        return ListValue(list(items))

    def key(self, tx: Frame) -> Any:
        return tx.raise_python(TypeError, "unhashable type: 'list'")

    def changed(self, tx: Frame) -> None:
        """Say that the list was changed in place; a new one is simply built as it is at the end."""
        if self.source is not None:
            tx.effects.mutated(self.this)

    def replay(self, cg: Writer) -> None:
        """Emit `list.__setitem__(obj, slice(None), [...])`, which no subclass intercepts, or an `extend`."""
        if self.unlooked is not None:
            self._emit_extend(cg, self.appended)
            return
        cg.load_object(list.__setitem__)
        cg.load(self.this)
        cg.load_object(slice(None))
        for item in self.items:
            cg.load(item)
        cg.build("LIST", len(self.items))
        cg.call(3)
        cg.pop()

    def fill_owner(self, cg: Writer, owner: Value) -> None:
        """Emit `list.extend(owner, [...])`."""
        self._emit_extend(cg, self.items)

    def _emit_extend(self, cg: Writer, items: list[Value]) -> None:
        cg.load_object(list.extend)
        cg.load(self.this)
        for item in items:
            cg.load(item)
        cg.build("LIST", len(items))
        cg.call(2)
        cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        for item in self.items:
            cg.load(item)
        cg.build("LIST", len(self.items))


class TupleValue(SequenceValue):
    """A tuple, a named tuple, `torch.Size` or a result tuple of torch: an immutable sequence without other state."""

    family = tuple

    def __init__(self, items: list[Any] | Unlooked, source: Source | None = None, cls: type = tuple) -> None:
        super().__init__(items, source, cls)

    def like(self, items: list[Value]) -> TupleValue:
        return TupleValue(list(items), cls=torch.Size if self.cls is torch.Size else tuple)

    def key(self, tx: Frame) -> Any:
        marks = [item.key(tx) for item in self.items]
        return tuple(self.as_constant()) if self.is_constant() else tuple(marks)

    def pin(self, tx: Frame) -> None:
        for item in self.items:
            item.pin(tx)

    def get_attr(self, tx: Frame, name: str) -> Value:
        index = field_index(self.cls, name)
        if index is not None:
            return self.item(index)
        if self.cls is torch.Size and name == "numel":
            return BuiltinMethodValue(self, name)
        if self.cls not in (tuple, torch.Size) and name not in self.methods:
            return attributes.class_attribute(tx, self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name not in self.methods or not _is_inherited(self.cls, name):
            if self.cls is torch.Size and name == "numel":
                return _numel(self, tx)
            if self.cls not in (tuple, torch.Size):
                return tx.call(self.get_attr(tx, name), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        if self.cls is not tuple:
            named = is_named_tuple(self.cls)
            cg.load_object(tuple.__new__ if named else self.cls)
            if named:
                cg.load_object(self.cls)
        for item in self.items:
            cg.load(item)
        cg.build("TUPLE", len(self.items))
        if self.cls is not tuple:
            cg.call(2 if is_named_tuple(self.cls) else 1)


def _is_inherited(cls: type, name: str) -> bool:
    return getattr(cls, name, None) is getattr(tuple, name, None) or cls is torch.Size or is_struct_sequence(cls)


def _numel(self: TupleValue, tx: Frame) -> Value:
    total = tx.constant(1)
    for item in self.items:
        total = operators.binary(tx, "*", total, item)
    return total


def field_index(cls: type, name: str) -> int | None:
    """The position of the named field of a tuple class."""
    if is_named_tuple(cls):
        fields = cls._fields  # type: ignore[attr-defined]
        return fields.index(name) if name in fields and not _overridden(cls, name) else None
    if is_struct_sequence(cls):
        return _struct_fields(cls).get(name)
    return None


def _overridden(cls: type, name: str) -> bool:
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return type(found).__name__ != "_tuplegetter"


def _struct_fields(cls: type) -> dict[str, int]:
    probe = cls(range(cls.n_sequence_fields))  # type: ignore[attr-defined, call-arg]
    names = [name for name in vars(cls) if type(vars(cls)[name]).__name__ in ("member_descriptor", "getset_descriptor")]
    return {name: getattr(probe, name) for name in names}


def guard_sequence(tx: Frame, obj: Any, source: Source | None) -> list[Any] | Unlooked:
    """Guard the type; length and items wait until they are looked at."""
    tx.guard("type_is", source, type(obj))
    return guard_items(tx, obj, source)


def guard_items(tx: Frame, obj: Any, source: Source | None) -> list[Any] | Unlooked:
    """The items of a real sequence."""
    if source is None:
        return [tx.wrap(item, None) for item in obj]
    return Unlooked(tx, obj, source)


@wraps(list)
def wrap_list(tx: Frame, obj: list[Any], source: Source | None) -> Value:
    """A list of the program."""
    source = origin_of(obj, source)
    return ListValue(guard_sequence(tx, obj, source), source)


@wraps(tuple, torch.Size)
def wrap_tuple(tx: Frame, obj: tuple[Any, ...], source: Source | None) -> Value:
    """A tuple of the program."""
    return TupleValue(guard_sequence(tx, obj, source), source, type(obj))


@wraps_if(
    lambda obj: is_struct_sequence(type(obj)) or (is_named_tuple(type(obj)) and not hasattr(obj, "__dict__")), order=20
)
def wrap_named_tuple(tx: Frame, obj: tuple[Any, ...], source: Source | None) -> Value:
    """A named tuple or a result tuple."""
    return TupleValue(guard_sequence(tx, obj, source), source, type(obj))


@builds_literal(list)
def _list_literal(tx: Frame, obj: list[Any]) -> Value:
    return ListValue([literal(tx, item) for item in obj])


@builds_literal(tuple, torch.Size)
def _tuple_literal(tx: Frame, obj: tuple[Any, ...]) -> Value:
    return TupleValue([literal(tx, item) for item in obj], cls=type(obj))
