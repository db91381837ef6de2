"""Dictionaries: `dict`, `OrderedDict`, `defaultdict`, and the storage of their subclasses.

Entries are found by the stand-in of their key (`Value.key`). Of a sourced dictionary the program's looks are guarded
one by one: a key that is there, a key that is not, the whole list of keys in order once the program iterates. Changes
are recorded key by key and replayed in place.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import AttrSource, DictKeySource, ItemSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import MethodTable, Unread, builds_literal, literal, needs_fields, origin_of
from triptych_dynamo.values.containers.hashing import SameHashes, asks_program, check_key, hold, key_of, mark_of_real
from triptych_dynamo.values.containers.sets import SetValue as SetValue
from triptych_dynamo.values.containers.tensor_keys import (
    RealKey,
    TheseKeys,
    UnreadOfTensor,
    found_by_identity,
    is_tensor_key,
)
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

DICT = MethodTable()


class Entry:
    """A key with its value; either may be unread."""

    __slots__ = ("_key", "_value")

    def __init__(self, key: Value | Unread, value: Value | Unread) -> None:
        self._key, self._value = key, value

    @property
    def key(self) -> Value:
        """The key, read."""
        if isinstance(self._key, Unread):
            self._key = self._key.read()
        return self._key

    def found_by(self, key: Value) -> None:
        """The program asked with this very object: it need not be read from among the keys."""
        if isinstance(self._key, Unread):
            self._key = key

    @property
    def value(self) -> Value:
        """The value, read."""
        if isinstance(self._value, Unread):
            self._value = self._value.read()
        return self._value


class DictValue(Value):
    """A dictionary of exact type `cls`, or the storage of `owner`, an instance of a subclass."""

    methods = DICT

    def __init__(
        self, pairs: Iterable[tuple[Value, Value]] = (), source: Source | None = None, cls: type = dict
    ) -> None:
        super().__init__(source)
        self.cls = cls
        self.tx: Frame | None = None  # of the wrapping, for guards where no frame is at hand
        self.owner: Value | None = None
        self.default_factory: Value | None = None
        self.entries: dict[Any, Entry] = {}
        self.original: dict[Any, Any] | None = None  # stand-ins that the sourced dictionary has at the start
        self.keys_guarded = False
        self.hashes_guarded = False  # of keys with a `__hash__` of their own
        self.pending: dict[Any, tuple[Value, bool]] = {}  # stand-in -> (key, delete it first)
        self.rewrite = False
        for key, value in pairs:
            self.entries[standin(key)] = Entry(key, value)

    # -- facts ---------------------------------------------------------------------------------------------------------
    @property
    def this(self) -> Value:
        """The object that the program sees: the owner where there is one."""
        return self.owner or self

    def python_type(self) -> type:
        return self.cls

    def is_constant(self) -> bool:
        if self.default_factory is not None:
            return False
        return all(entry.key.is_constant() and entry.value.is_constant() for entry in self.all_entries(None))

    def as_constant(self) -> Any:
        pairs = [(entry.key.as_constant(), entry.value.as_constant()) for entry in self.all_entries(None)]
        return defaultdict(None, pairs) if self.cls is defaultdict else self.cls(pairs)

    def as_graph_arg(self, tx: Frame) -> Any:
        return {e.key.as_constant(): e.value.as_graph_arg(tx) for e in self.all_entries(tx)}

    def truth(self, tx: Frame) -> bool:
        if self.original is not None and not self.keys_guarded and not self.pending and not self.rewrite:
            tx.guard("truth", self.source, bool(self.original))
            return bool(self.original)
        return bool(self.all_entries(tx))

    def key(self, tx: Frame) -> Any:
        return tx.raise_python(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def guard_keys(self, tx: Frame | None) -> None:
        """The program depends on which keys there are and in which order."""
        if self.original is None or self.keys_guarded or self.source is None:
            return
        self.keys_guarded = True
        frame = tx or self.tx
        assert frame is not None
        keys = tuple(self.original.values())
        if not keys:
            frame.guard("length", self.source, 0)
        elif any(isinstance(mark, RealKey) for mark in self.original):
            fact = PythonFact(TheseKeys.of(keys), f"{self.source} has these {len(keys)} keys in this order")
            frame.guard("python", self.source, fact)
        elif issubclass(self.cls, OrderedDict):  # its order is not that of the dictionary that it is
            fact = PythonFact(KeysInOrder(keys), f"list({self.source}) == {list(keys)!r}")
            frame.guard("python", self.source, fact)
        else:
            frame.guard("dict_keys", self.source, keys)

    def all_entries(self, tx: Frame | None) -> list[Entry]:
        """Every entry in order."""
        self.guard_keys(tx)
        return list(self.entries.values())

    def find(self, tx: Frame, key: Value) -> Entry | None:
        """The entry of a key, guarded: there, or not there."""
        return self._entry(tx, key, key_of(tx, key))

    def _entry(self, tx: Frame, key: Value, mark: Any) -> Entry | None:
        if self.original is not None:
            key.pin(tx)
            self._guard_hashes(tx, mark)
        entry = self.entries.get(mark)
        if self.original is not None and is_tensor_key(mark):
            return self._entry_of_tensor(tx, key, mark)
        if self.original is not None and not self.keys_guarded:
            if mark in self.original:
                tx.guard("dict_has", self.source, self.original[mark])
            elif key.is_constant():
                tx.guard("dict_lacks", self.source, key.as_constant())
            else:  # what the key will be in another run is not known: none of these
                self.guard_keys(tx)
        return entry

    def _guard_hashes(self, tx: Frame, mark: Any) -> None:
        """A key that is asked by its own methods is looked for among keys of which that is so as well."""
        assert self.original is not None
        if self.hashes_guarded or not asks_program(mark):
            return
        self.hashes_guarded = True
        fact = SameHashes.of(self.original)
        if fact.numbers:
            tx.guard("python", self.source, PythonFact(fact, f"hashes of the keys of {self.source}"))

    def _entry_of_tensor(self, tx: Frame, key: Value, mark: Any) -> Entry | None:
        """Guarded by where the program has the tensor; the dictionary cannot have one that was made just now."""
        entry = self.entries.get(mark)
        if isinstance(mark, RealKey):
            assert self.original is not None
            tx.guard("dict_has_at" if mark in self.original else "dict_lacks_at", self.source, key.source)
        if entry is not None:
            entry.found_by(key)
        return entry

    def peek(self, tx: Frame, name: str) -> Entry | None:
        """As `find` for a read that follows at once: reading the value guards that the key is there."""
        entry = self.entries.get(name)
        if entry is None and self.original is not None and not self.keys_guarded and name not in self.original:
            tx.guard("dict_lacks", self.source, name)
        return entry

    # -- changes -------------------------------------------------------------------------------------------------------
    def put(self, tx: Frame, key: Value, value: Value) -> None:
        """`self[key] = value`."""
        mark = key_of(tx, key)
        entry = self._entry(tx, key, mark) if self.source is not None else self.entries.get(mark)
        if entry is not None:
            key, mark = entry.key, self._own_mark(entry, mark)
        hold(mark)
        self.entries[mark] = Entry(key, value)
        self.pending[mark] = (key, self.pending[mark][1] if mark in self.pending else False)
        self.changed(tx)

    def remove(self, tx: Frame, key: Value) -> Value | None:
        """Take a key out and give its value; None when it is not there."""
        mark = key_of(tx, key)
        entry = self._entry(tx, key, mark)
        if entry is None:
            return None
        value = entry.value
        mark = self._own_mark(entry, mark)
        del self.entries[mark]
        self.pending.pop(mark, None)
        self.pending[mark] = (entry.key, True)
        self.changed(tx)
        return value

    def _own_mark(self, entry: Entry, mark: Any) -> Any:
        """The stand-in under which an entry is held: the program's `__eq__` is asked once, not at each use."""
        if not needs_fields((mark,)):
            return mark
        return next(own for own, held in self.entries.items() if held is entry)

    def reorder(self, tx: Frame, entries: dict[Any, Entry]) -> None:
        """Replace all entries; the replay clears the dictionary and fills it again."""
        for entry in self.all_entries(tx):
            _ = entry.value
        self.entries = entries
        self.rewrite = True
        self.changed(tx)

    def changed(self, tx: Frame) -> None:
        """Say that the dictionary was changed in place; a new one is simply built as it is at the end."""
        if self.source is not None:
            tx.effects.mutated(self.this)

    def replay(self, cg: Writer) -> None:
        """Emit deletions and stores in their order."""
        if self.source is None:
            for entry in self.entries.values():
                self._emit_method(cg, "__setitem__", [entry.key, entry.value])
            return
        if self.rewrite:
            self._emit_method(cg, "clear", [])
        for mark, (key, delete) in self.pending.items() if not self.rewrite else ():
            if delete and self.original is not None and mark in self.original:
                self._emit_method(cg, "__delitem__", [key])
            if mark in self.entries:
                self._emit_method(cg, "__setitem__", [key, self.entries[mark].value])
        if self.rewrite:
            for entry in self.entries.values():
                self._emit_method(cg, "__setitem__", [entry.key, entry.value])

    def _emit_method(self, cg: Writer, name: str, args: list[Value]) -> None:
        cg.load_object(getattr(self.cls, name))
        for value in (self.this, *args):
            cg.load(value)
        cg.call(1 + len(args))
        cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        """A plain dict is built in place; other classes are made empty and filled, in order."""
        if self.cls is not dict:
            cg.load_object(self.cls)
        if self.cls is defaultdict:
            cg.load(self.default_factory or ConstantValue(None))
        entries = list(self.entries.values())
        if self.owner is None and needs_fields(self.entries):
            for entry in entries:  # built now, so that what goes into them goes in before they become keys
                cg.load(entry.key)
                cg.pop()
            cg.later(self)
            entries = []
        for entry in entries:
            cg.load(entry.key)
            cg.load(entry.value)
        cg.build("MAP", len(entries))
        if self.cls is not dict:
            cg.call(2 if self.cls is defaultdict else 1)

    # -- data model ----------------------------------------------------------------------------------------------------
    def iterate(self, tx: Frame) -> Iterator[Value]:
        return iter([entry.key for entry in self.all_entries(tx)])

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in self.methods and hasattr(self.cls, name):
            return BuiltinMethodValue(self, name)
        if name == "default_factory" and self.cls is defaultdict:
            return self.default_factory or tx.constant(None)
        return super().get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if name != "default_factory" or self.cls is not defaultdict or self.source is not None:
            return super().set_attr(tx, name, value)
        self.default_factory = value
        return None

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not hasattr(self.cls, name):
            return tx.raise_python(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return self.methods.run(self, tx, name, args, kwargs)


@dataclass(frozen=True)
class KeysInOrder:
    """A check: the keys of an `OrderedDict`, in its order."""

    keys: tuple[Any, ...]

    def __call__(self, mapping: OrderedDict[Any, Any]) -> bool:
        return tuple(OrderedDict.keys(mapping)) == self.keys


def standin(key: Value) -> Any:
    """`Value.key` where no frame is at hand (keys that were already used as such)."""
    return key.as_constant() if key.is_constant() else key.key(None)  # type: ignore[arg-type]


def fill(tx: Frame, value: DictValue, obj: dict[Any, Any], source: Source | None) -> DictValue:
    """Enter the items of a real dictionary, unread."""
    value.tx = tx
    value.original = {} if source is not None else None
    items = OrderedDict.items(obj) if isinstance(obj, OrderedDict) else dict.items(obj)
    is_held = partial(dict.__contains__, obj)
    for index, (key, item) in enumerate(items):
        if found_by_identity(key):
            _fill_tensor(tx, value, index, key, item)
            continue
        check_key(tx, key, is_held)
        mark = mark_of_real(key)
        if source is None:
            value.entries[mark] = Entry(literal(tx, key), tx.wrap(item, None))
            continue
        value.original[mark] = key  # type: ignore[index]
        atom = type(key) in ConstantValue.ATOMS
        key_value = ConstantValue(key) if atom else Unread(tx, key, DictKeySource(source, index))
        value.entries[mark] = Entry(key_value, Unread(tx, item, ItemSource(source, key)))
    return value


def _fill_tensor(tx: Frame, value: DictValue, index: int, key: Any, item: Any) -> None:
    """Enter an item whose key is a tensor: it is read by the tensor, wherever the program has that from."""
    mark = RealKey(id(key))
    if value.original is None or value.source is None:
        value.entries[mark] = Entry(tx.wrap(key, None), tx.wrap(item, None))
        return
    value.original[mark] = key
    entry = Entry(Unread(tx, key, DictKeySource(value.source, index)), tx.constant(None))
    entry._value = UnreadOfTensor(tx, item, value.source, entry)
    value.entries[mark] = entry


@wraps(dict, OrderedDict, defaultdict)
def wrap_dict(tx: Frame, obj: dict[Any, Any], source: Source | None) -> Value:
    """A dictionary of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, type(obj))
    value = fill(tx, DictValue((), source, type(obj)), obj, source)
    if isinstance(obj, defaultdict):
        origin = AttrSource(source, "default_factory") if source is not None else None
        value.default_factory = tx.wrap(obj.default_factory, origin)
    return value


@builds_literal(dict)
def _dict_literal(tx: Frame, obj: dict[Any, Any]) -> Value:
    return DictValue([(literal(tx, key), literal(tx, item)) for key, item in obj.items()])
