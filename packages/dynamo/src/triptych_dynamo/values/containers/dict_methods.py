"""The methods of dictionaries, and their views `keys()`, `values()`, `items()`."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import containers
from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import is_constant_equal, none, supports
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.hashing import key_of
from triptych_dynamo.values.containers.mappings import DICT, DictValue, Entry, fill
from triptych_dynamo.values.containers.sequences import TupleValue
from triptych_dynamo.values.containers.sets import SetValue
from triptych_dynamo.values.containers.tensor_keys import found_by_identity
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_VIEW_TYPES = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}
_ORDERED_VIEW_TYPES = {
    "keys": type(OrderedDict().keys()),
    "values": type(OrderedDict().values()),
    "items": type(OrderedDict().items()),
}


@DICT("__len__")
def _len(self: DictValue, tx: Frame) -> Value:
    return tx.constant(len(self.all_entries(tx)))


@DICT("__contains__")
def _contains(self: DictValue, tx: Frame, key: Value) -> Value:
    return tx.constant(self.find(tx, key) is not None)


@DICT("__getitem__")
def _getitem(self: DictValue, tx: Frame, key: Value) -> Value:
    entry = self.find(tx, key)
    if entry is not None:
        return entry.value
    if self.owner is not None and hasattr(self.owner.python_type(), "__missing__"):
        return self.owner.call_method(tx, "__missing__", [key], {})
    if self.cls is defaultdict:
        return _missing(self, tx, key)
    return tx.raise_python(KeyError, key)


@DICT("__missing__")
def _missing(self: DictValue, tx: Frame, key: Value) -> Value:
    if self.default_factory is None or is_constant_equal(self.default_factory, None):
        return tx.raise_python(KeyError, key)
    value = tx.call(self.default_factory, [], {})
    self.put(tx, key, value)
    return value


@DICT("__setitem__")
def _setitem(self: DictValue, tx: Frame, key: Value, value: Value) -> Value:
    self.put(tx, key, value)
    return none(tx)


@DICT("__delitem__")
def _delitem(self: DictValue, tx: Frame, key: Value) -> Value:
    if self.remove(tx, key) is None:
        return tx.raise_python(KeyError, key)
    return none(tx)


@DICT("get")
def _get(self: DictValue, tx: Frame, key: Value, default: Value | None = None) -> Value:
    entry = self.find(tx, key)
    if entry is not None:
        return entry.value
    return none(tx) if default is None else default


@DICT("setdefault")
def _setdefault(self: DictValue, tx: Frame, key: Value, default: Value | None = None) -> Value:
    entry = self.find(tx, key)
    if entry is not None:
        return entry.value
    value = none(tx) if default is None else default
    self.put(tx, key, value)
    return value


@DICT("pop")
def _pop(self: DictValue, tx: Frame, key: Value, default: Value | None = None) -> Value:
    value = self.remove(tx, key)
    if value is not None:
        return value
    return tx.raise_python(KeyError, key) if default is None else default


@DICT("popitem")
def _popitem(self: DictValue, tx: Frame, last: Value | None = None) -> Value:
    if last is not None and not issubclass(self.cls, OrderedDict):
        return tx.raise_python(TypeError, "dict.popitem() takes no arguments (1 given)")
    entries = self.all_entries(tx)
    if not entries:
        return tx.raise_python(KeyError, "popitem(): dictionary is empty")
    entry = entries[-1 if last is None or last.truth(tx) else 0]
    value = self.remove(tx, entry.key)
    assert value is not None
    return TupleValue([entry.key, value])


@DICT("clear")
def _clear(self: DictValue, tx: Frame) -> Value:
    self.pending.clear()
    self.reorder(tx, {})
    return none(tx)


@DICT("__reduce_ex__", "__reduce__")
def _reduce(self: DictValue, tx: Frame, protocol: Value | None = None) -> Value:
    """What `copy` asks for: the class, its arguments and the items."""
    if self.owner is not None or self.cls not in (OrderedDict, defaultdict):
        return tx.unsupported("call", f"__reduce_ex__ of a {self.cls.__name__}")
    factory = self.default_factory
    given = [] if factory is None or is_constant_equal(factory, None) else [factory]
    items = iterators.get_iter(tx, self.call_method(tx, "items", [], {}))
    parts = [tx.wrap(self.cls, None), tx.trace.make_tuple(given), none(tx), none(tx), items]
    return tx.trace.make_tuple(parts)


@DICT("copy", "__copy__")
def _copy(self: DictValue, tx: Frame) -> Value:
    result = DictValue((), cls=self.cls)
    result.default_factory = self.default_factory
    self.guard_keys(tx)
    for mark, entry in self.entries.items():
        result.entries[mark] = Entry(entry.key, entry.value)
    return result


@DICT("move_to_end")
def _move_to_end(self: DictValue, tx: Frame, key: Value, last: Value | None = None) -> Value:
    if self.find(tx, key) is None:
        return tx.raise_python(KeyError, key)
    mark = key_of(tx, key)
    entries = dict(self.entries)
    moved = entries.pop(mark)
    at_end = last is None or last.truth(tx)
    self.reorder(tx, {**entries, mark: moved} if at_end else {mark: moved, **entries})
    return none(tx)


def store(self: Value, tx: Frame, key: Value, value: Value) -> None:
    """One item of an update: into the storage itself, as C's `dict.update` does."""
    if isinstance(self, DictValue):
        self.put(tx, key, value)
    else:
        operators.set_item(tx, self, key, value)


@DICT("update", "__init__")
def _update(self: DictValue, tx: Frame, *args: Value, **kwargs: Value) -> Value:
    if len(args) > 1:
        return tx.raise_python(TypeError, f"update expected at most 1 argument, got {len(args)}")
    # OrderedDict's own update goes through an overridden `__setitem__`, dict's does not.
    target = self.this if self.owner is not None and self.cls is OrderedDict else self
    for other in args:
        _update_from(target, tx, other)
    for name, value in kwargs.items():
        store(target, tx, tx.constant(name), value)
    return none(tx)


def _update_from(target: Value, tx: Frame, other: Value) -> None:
    if isinstance(other, DictValue):
        for entry in other.all_entries(tx):
            store(target, tx, entry.key, entry.value)
        return
    if supports(other, "keys"):
        for key in iterators.items_of(tx, other.call_method(tx, "keys", [], {})):
            store(target, tx, key, operators.get_item(tx, other, key))
        return
    for position, pair in enumerate(iterators.iterate(tx, other)):
        parts = iterators.items_of(tx, pair)
        if len(parts) != 2:
            text = f"dictionary update sequence element #{position} has length {len(parts)}; 2 is required"
            tx.raise_python(ValueError, text)
        store(target, tx, parts[0], parts[1])


@DICT("__or__")
def _or(self: DictValue, tx: Frame, other: Value) -> Value:
    if not issubclass(other.python_type(), dict):
        return tx.constant(NotImplemented)
    result = _copy(self, tx)
    assert isinstance(result, DictValue)
    _update_from(result, tx, other)
    return result


@DICT("__ror__")
def _ror(self: DictValue, tx: Frame, other: Value) -> Value:
    return _or(other, tx, self) if isinstance(other, DictValue) else tx.constant(NotImplemented)


@DICT("__ior__")
def _ior(self: DictValue, tx: Frame, other: Value) -> Value:
    _update_from(self, tx, other)
    return self.this


@DICT("__eq__")
def _eq(self: DictValue, tx: Frame, other: Value) -> Value:
    if not issubclass(other.python_type(), dict):
        return tx.constant(NotImplemented)
    ordered = issubclass(self.cls, OrderedDict) and issubclass(other.python_type(), OrderedDict)
    model = containers.ordered_mapping_eq if ordered else containers.mapping_eq
    return tx.call(tx.wrap(model, None), [self, other], {})


@DICT("__ne__")
def _ne(self: DictValue, tx: Frame, other: Value) -> Value:
    if not issubclass(other.python_type(), dict):
        return tx.constant(NotImplemented)
    return tx.constant(not _eq(self, tx, other).truth(tx))


@DICT("__iter__")
def _iter(self: DictValue, tx: Frame) -> Value:
    return DictViewValue(self, "keys").call_method(tx, "__iter__", [], {})


@DICT("__reversed__")
def _reversed(self: DictValue, tx: Frame) -> Value:
    return DictViewValue(self, "keys").call_method(tx, "__reversed__", [], {})


def _view(name: str) -> None:
    def method(self: DictValue, tx: Frame) -> Value:
        return DictViewValue(self, name)

    DICT(name)(method)


for _name in _VIEW_TYPES:
    _view(_name)

_SET_OPERATORS = ("__and__", "__or__", "__sub__", "__xor__", "isdisjoint")
_COMPARISONS = {
    "__eq__": containers.view_eq,
    "__lt__": containers.view_lt,
    "__le__": containers.view_le,
    "__gt__": containers.view_gt,
    "__ge__": containers.view_ge,
}


class DictViewValue(Value):
    """A live view of a dictionary: `kind` is keys, values or items."""

    def __init__(self, mapping: DictValue, kind: str) -> None:
        super().__init__()
        self.mapping, self.kind = mapping, kind

    def python_type(self) -> type:
        types = _ORDERED_VIEW_TYPES if issubclass(self.mapping.cls, OrderedDict) else _VIEW_TYPES
        return types[self.kind]

    def part(self, entry: Entry) -> Value:
        """What the view shows of an entry."""
        if self.kind == "keys":
            return entry.key
        return entry.value if self.kind == "values" else TupleValue([entry.key, entry.value])

    def listed(self, tx: Frame) -> list[Value]:
        """All items of the view."""
        return [self.part(entry) for entry in self.mapping.all_entries(tx)]

    def truth(self, tx: Frame) -> bool:
        return self.mapping.truth(tx)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return iter(self.listed(tx))

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "mapping":
            return MappingProxyValue(self.mapping.this)
        return BuiltinMethodValue(self, name) if supports(self, name) else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in ("__iter__", "__reversed__"):
            return self._iterator(tx, name == "__reversed__")
        if name == "__len__":
            return tx.constant(len(self.mapping.all_entries(tx)))
        if name == "__contains__" and self.kind == "keys":
            return tx.constant(self.mapping.find(tx, args[0]) is not None)
        if name == "__contains__":
            return tx.constant(self._has(tx, args[0]))
        if (name in _COMPARISONS or name == "__ne__") and self.kind != "values":
            return self._compare(tx, name, args[0])
        if name in _SET_OPERATORS and self.kind != "values":
            other = args[0] if isinstance(args[0], SetValue) else SetValue.of(tx, iterators.items_of(tx, args[0]))
            return SetValue.of(tx, self.listed(tx)).call_method(tx, name, [other], {})
        if name in ("__eq__", "__ne__"):
            return tx.constant(NotImplemented)
        return super().call_method(tx, name, args, kwargs)

    def _has(self, tx: Frame, wanted: Value) -> bool:
        """Whether one of the values is equal; of the items, the one with that key."""
        if self.kind == "values":
            return any(operators.equal(tx, item, wanted) for item in self.listed(tx))
        if not isinstance(wanted, TupleValue) or len(wanted) != 2:
            return False
        key, value = wanted.items
        entry = self.mapping.find(tx, key)
        return entry is not None and operators.equal(tx, entry.value, value)

    def _compare(self, tx: Frame, name: str, other: Value) -> Value:
        if not isinstance(other, SetValue) and not (isinstance(other, DictViewValue) and other.kind != "values"):
            return tx.constant(NotImplemented)
        if name == "__ne__":
            return tx.constant(not self._compare(tx, "__eq__", other).truth(tx))
        return tx.call(tx.wrap(_COMPARISONS[name], None), [self, other], {})

    def _iterator(self, tx: Frame, backwards: bool) -> Value:
        entries = self.mapping.all_entries(tx)
        size = len(entries)

        def check(tx: Frame) -> None:
            if len(self.mapping.entries) != size:
                tx.raise_python(RuntimeError, "dictionary changed size during iteration")

        if backwards:
            entries.reverse()
        view = dict.fromkeys([0])
        shown = getattr(view, self.kind)()
        return DictIterator(self, entries, type(reversed(shown) if backwards else iter(shown)), check)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.mapping.this)
        cg.load_attr(self.kind)
        cg.call(0)


class DictIterator(iterators.SnapshotIterator):
    """Over a view; values are read when they are reached, so that a loop that ends early guards no more than it saw."""

    def __init__(self, view: DictViewValue, entries: list[Entry], cls: type, check: Any) -> None:
        super().__init__([], cls, check)
        self.view, self.entries = view, entries

    def left(self) -> int:
        return len(self.entries) - self.index

    def step(self, tx: Frame) -> Value | None:
        if self.check is not None:
            self.check(tx)
        if self.index >= len(self.entries):
            return None
        self.index += 1
        entry = self.entries[self.index - 1]
        return self.view.part(self.view.mapping.entries.get(entry.key.key(tx), entry))

    def reconstruct(self, cg: Writer) -> None:
        self.items = [self.view.part(entry) for entry in self.entries]
        super().reconstruct(cg)


class MappingProxyValue(Value):
    """`MappingProxyType(mapping)`: a read-only view."""

    _READS = frozenset(
        "__len__ __contains__ __getitem__ __iter__ __reversed__ get keys values items copy __or__ __eq__ __ne__".split()
    )

    def __init__(self, mapping: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.mapping = mapping

    def python_type(self) -> type:
        return MappingProxyType

    def truth(self, tx: Frame) -> bool:
        return self.mapping.truth(tx)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return self.mapping.iterate(tx)

    def get_attr(self, tx: Frame, name: str) -> Value:
        return BuiltinMethodValue(self, name) if name in self._READS else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in self._READS:
            return self.mapping.call_method(tx, name, args, kwargs)
        if name in ("__repr__", "__str__"):
            text = tx.call(tx.wrap(repr if name == "__repr__" else str, None), [self.mapping], {}).as_constant()
            return tx.constant(f"mappingproxy({text})" if name == "__repr__" else text)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(MappingProxyType)
        cg.load(self.mapping)
        cg.call(1)


@wraps(MappingProxyType)
def wrap_mapping_proxy(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A mapping proxy of the program: read as a dictionary of its items, which the guards follow through the proxy."""
    tx.guard("type_is", source, MappingProxyType)
    if any(map(found_by_identity, obj)):
        tx.unsupported("dict-key", "a mapping proxy with tensors as keys")
    inner = DictValue((), source)
    return MappingProxyValue(fill(tx, inner, dict(obj), source), source)
