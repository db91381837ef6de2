"""`set` and `frozenset`: members found by the stand-in of their value.

A set of constants iterates in the order of a real set (see `set_order`); other members come in the order in which they
were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import MethodTable, builds_literal, literal, needs_fields, none, origin_of
from triptych_dynamo.values.containers import iterators, set_order
from triptych_dynamo.values.containers.hashing import check_key, hold, mark_of_real, member_of
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

SET = MethodTable()
Members = dict[Any, Value]
_MUTATORS = frozenset(
    "add discard remove pop clear update difference_update intersection_update symmetric_difference_update "
    "__iand__ __ior__ __isub__ __ixor__".split()
)


class SetValue(Value):
    """A set or, with `cls=frozenset`, a frozenset."""

    def __init__(self, items: Iterable[Value] = (), source: Source | None = None, cls: type = set) -> None:
        super().__init__(source)
        self.cls = cls
        self.owner: Value | None = None
        self.members: dict[Any, Value] = {}
        self.table: Any = None  # see `set_order`
        self.steps: list[tuple[str, Value]] | None = []  # of a set of the program; None: too many
        self.found: tuple[Any, ...] | None = None  # the members of a set of the program, in its order
        self.made_here = source is None  # or changed here: the real order is not known
        for item in items:
            self.members.setdefault(item.as_constant(), item)

    @classmethod
    def of(cls, tx: Frame, items: Iterable[Value], kind: type = set) -> SetValue:
        """A new set of any values."""
        result = SetValue((), cls=kind)
        for item in items:
            result.members.setdefault(hold(member_of(tx, item)), item)
        return result

    @property
    def this(self) -> Value:
        """The object that the program sees: the owner where there is one."""
        return self.owner or self

    def python_type(self) -> type:
        return self.cls

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.members.values())

    def as_constant(self) -> Any:
        return self.cls(item.as_constant() for item in set_order.rebuilt(self))

    def truth(self, tx: Frame) -> bool:
        return bool(self.members)

    def key(self, tx: Frame) -> Any:
        if self.cls is set:
            return tx.raise_python(TypeError, "unhashable type: 'set'")
        return frozenset(self.members)

    def mark(self, tx: Frame, item: Value) -> Any:
        """The stand-in of what the set is asked for."""
        if self.source is not None:
            item.pin(tx)
        return member_of(tx, item)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        self.guard_order(tx)
        return iter(self.ordered())

    def ordered(self) -> list[Value]:
        """The members in the order of iteration."""
        table = set_order.table_of(self) if self.made_here else None
        return list(self.members.values()) if table is None else [self.members[mark] for mark in table]

    def guard_order(self, tx: Frame) -> None:
        """Sets of the same members may iterate in different orders: this one's counts."""
        if self.source is not None and self.found is not None and len(self.found) > 1:
            fact = PythonFact(set_order.HasOrder(self.found), f"{self.source} iterates in this order")
            tx.guard("python", self.source, fact)

    def get_attr(self, tx: Frame, name: str) -> Value:
        return BuiltinMethodValue(self, name) if hasattr(self.cls, name) else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in _MUTATORS and self.cls is frozenset:
            return tx.raise_python(AttributeError, f"'frozenset' object has no attribute '{name}'")
        return SET.run(self, tx, name, args, kwargs)

    def replace(self, tx: Frame, members: dict[Any, Value], table: Any = None) -> None:
        """Set the members in place."""
        if self.source is not None:
            self._note_steps(members)
        self.table = set_order.changed(self, members) if table is None else table
        self.members = members
        self.made_here = True
        if self.source is not None:
            tx.effects.mutated(self.this)

    def _note_steps(self, members: dict[Any, Value]) -> None:
        """Keep what is done to the set, which its order depends on, unless that is much more than what is in it."""
        if not members:
            self.steps = [("clear", ConstantValue(None))]
        elif self.steps is not None:
            done = [("discard", item) for mark, item in self.members.items() if mark not in members]
            done += [("add", item) for mark, item in members.items() if mark not in self.members]
            self.steps += done
            if len(self.steps) > 2 * len(members) + 8 or not all(item.is_constant() for _, item in done):
                self.steps = None

    def replay(self, cg: Writer) -> None:
        """Emit what was done, or `obj.clear(); obj.update([...])`."""
        steps = self.steps if self.source is not None else None
        for name, item in steps or ():
            cg.load_object(getattr(set, name))
            cg.load(self.this)
            if name != "clear":
                cg.load(item)
            cg.call(1 if name == "clear" else 2)
            cg.pop()
        if steps is not None:
            return
        cg.load_object(set.clear)
        cg.load(self.this)
        cg.call(1)
        cg.pop()
        self.fill_owner(cg, self.this)

    def fill_owner(self, cg: Writer, owner: Value) -> None:
        """Emit `set.update(owner, [...])`."""
        cg.load_object(set.update)
        cg.load(owner)
        self._load_list(cg)
        cg.call(2)
        cg.pop()

    def _load_list(self, cg: Writer) -> None:
        for item in set_order.rebuilt(self):
            cg.load(item)
        cg.build("LIST", len(self.members))

    def reconstruct(self, cg: Writer) -> None:
        if self.cls is set and needs_fields(self.members):  # its members, and then what goes into them, come first
            self._load_list(cg)
            cg.pop()
            cg.load_object(set)
            cg.call(0)
            cg.later(self)
            return
        cg.load_object(self.cls)
        self._load_list(cg)
        cg.call(1)


def members_of(tx: Frame, value: Value) -> dict[Any, Value]:
    """The members of any iterable, by stand-in."""
    if isinstance(value, SetValue):
        return dict(value.members)
    found: dict[Any, Value] = {}
    for item in iterators.iterate(tx, value):
        found.setdefault(hold(member_of(tx, item)), item)
    return found


def make_set(tx: Frame, cls: type, iterable: Value | None) -> SetValue:
    """`set(iterable)` or `frozenset(iterable)`."""
    result = SetValue((), cls=cls)
    if iterable is not None:
        result.members = members_of(tx, iterable)
        table = _table(tx, iterable, result.members)
        result.table = None if table is None else set(table)
    return result


def _derived(self: SetValue, members: dict[Any, Value], table: Any = None) -> SetValue:
    result = SetValue((), cls=self.cls)
    result.members = members
    result.table = None if table is None else set(table)
    return result


def _union(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**b, **a} if not a else {**a, **{mark: item for mark, item in b.items() if mark not in a}}


def _intersection(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {mark: item for mark, item in a.items() if mark in b}


def _difference(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {mark: item for mark, item in a.items() if mark not in b}


def _symmetric(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**_difference(a, b), **_difference(b, a)}


_ALGEBRA = {
    "union": ("or", "update", _union),
    "intersection": ("and", "intersection_update", _intersection),
    "difference": ("sub", "difference_update", _difference),
    "symmetric_difference": ("xor", "symmetric_difference_update", _symmetric),
}


def _table(tx: Frame, value: Value, members: Members) -> Any:
    """The other operand of a real method."""
    if isinstance(value, SetValue):
        value.guard_order(tx)
        return set_order.table_of(value)
    return list(members) if set_order.are_constant(members) else None


def _algebra(name: str) -> None:
    stem, update_name, combine = _ALGEBRA[name]

    def all_of(self: SetValue, tx: Frame, others: tuple[Value, ...]) -> tuple[Members, Any]:
        members, tables = dict(self.members), []
        for other in others:
            found = members_of(tx, other)
            tables.append(_table(tx, other, found))
            members = combine(members, found)
        return members, set_order.combined(name, self, None, tables)

    def method(self: SetValue, tx: Frame, *others: Value) -> Value:
        return _derived(self, *all_of(self, tx, others))

    def update(self: SetValue, tx: Frame, *others: Value) -> Value:
        for other in others:
            self.replace(tx, combine(dict(self.members), members_of(tx, other)))
        return none(tx)

    def operator(self: SetValue, tx: Frame, other: Value) -> Value:
        return _derived(self, *all_of(self, tx, (other,))) if is_set_like(other) else tx.constant(NotImplemented)

    def inplace(self: SetValue, tx: Frame, other: Value) -> Value:
        if not is_set_like(other):
            return tx.constant(NotImplemented)
        self.replace(tx, combine(dict(self.members), members_of(tx, other)))
        return self

    def reflected(self: SetValue, tx: Frame, other: Value) -> Value:
        if not is_set_like(other):
            return tx.constant(NotImplemented)
        found = members_of(tx, other)
        known = other if isinstance(other, SetValue) else None
        table = set_order.combined(name, known, found, [_table(tx, self, self.members)])
        return _derived(self, combine(found, dict(self.members)), table)

    SET(name)(method)
    SET(update_name)(update)
    SET(f"__{stem}__")(operator)
    SET(f"__i{stem}__")(inplace)
    SET(f"__r{stem}__")(reflected)


for _name in _ALGEBRA:
    _algebra(_name)


def is_set_like(value: Value) -> bool:
    """Whether set operators take `value` as the other operand."""
    return issubclass(value.python_type(), (set, frozenset, type({}.keys()), type({}.items())))


@SET("__len__")
def _len(self: SetValue, tx: Frame) -> Value:
    return tx.constant(len(self.members))


@SET("__contains__")
def _contains(self: SetValue, tx: Frame, item: Value) -> Value:
    return tx.constant(self.mark(tx, item) in self.members)


@SET("__iter__")
def _iter(self: SetValue, tx: Frame) -> Value:
    size = len(self.members)

    def check(tx: Frame) -> None:
        if len(self.members) != size:
            tx.raise_python(RuntimeError, "Set changed size during iteration")

    return iterators.SnapshotIterator(list(self.iterate(tx)), type(iter(set())), check)


@SET("add")
def _add(self: SetValue, tx: Frame, item: Value) -> Value:
    mark = self.mark(tx, item)
    if mark not in self.members:
        self.replace(tx, {**self.members, hold(mark): item})
    return none(tx)


@SET("discard")
def _discard(self: SetValue, tx: Frame, item: Value) -> Value:
    _take(self, tx, item)
    return none(tx)


def _take(self: SetValue, tx: Frame, item: Value) -> bool:
    """Take a member out; whether it was there."""
    left = dict(self.members)
    if left.pop(self.mark(tx, item), None) is None:
        return False
    self.replace(tx, left)
    return True


@SET("remove")
def _remove(self: SetValue, tx: Frame, item: Value) -> Value:
    return none(tx) if _take(self, tx, item) else tx.raise_python(KeyError, item)


@SET("pop")
def _pop(self: SetValue, tx: Frame) -> Value:
    if not self.members:
        return tx.raise_python(KeyError, "pop from an empty set")
    self.guard_order(tx)
    table = set_order.table_of(self)
    item = next(iter(self.members.values())) if table is None else self.members[table.pop()]
    self.replace(tx, {mark: member for mark, member in self.members.items() if member is not item}, table)
    return item


@SET("__init__")
def _init(self: SetValue, tx: Frame, iterable: Value | None = None) -> Value:
    """`obj.__init__(...)` once more; that of a frozen set does nothing."""
    if self.cls is not set:
        return none(tx)
    _clear(self, tx)
    return none(tx) if iterable is None else self.call_method(tx, "update", [iterable], {})


@SET("clear")
def _clear(self: SetValue, tx: Frame) -> Value:
    self.replace(tx, {})
    return none(tx)


@SET("copy", "__copy__")
def _copy(self: SetValue, tx: Frame) -> Value:
    return self if self.cls is frozenset else _derived(self, dict(self.members), _table(tx, self, self.members))


@SET("isdisjoint")
def _isdisjoint(self: SetValue, tx: Frame, other: Value) -> Value:
    return tx.constant(not _intersection(self.members, members_of(tx, other)))


def _relation(names: tuple[str, ...], test: Any) -> None:
    def method(self: SetValue, tx: Frame, other: Value) -> Value:
        if not is_set_like(other):
            if names[0].startswith("__"):
                return tx.constant(NotImplemented)
            return tx.constant(test(set(self.members), set(members_of(tx, other))))
        return tx.constant(test(set(self.members), set(members_of(tx, other))))

    SET(*names)(method)


_relation(("__eq__",), lambda a, b: a == b)
_relation(("__ne__",), lambda a, b: a != b)
_relation(("__le__",), lambda a, b: a <= b)
_relation(("__lt__",), lambda a, b: a < b)
_relation(("__ge__",), lambda a, b: a >= b)
_relation(("__gt__",), lambda a, b: a > b)
_relation(("issubset",), lambda a, b: a <= b)
_relation(("issuperset",), lambda a, b: a >= b)


@wraps(set, frozenset)
def wrap_set(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A set of the program: its members are guarded as a whole."""
    source = origin_of(obj, source) if type(obj) is set else source
    tx.guard("type_is", source, type(obj))
    value = wrap_members(tx, obj, source)
    value.found, value.table = tuple(obj), set_order.copied(obj)
    return value


def wrap_members(tx: Frame, obj: Any, source: Source | None) -> SetValue:
    """The members of a set or of an instance of a subclass, guarded as a whole."""
    kind: Any = set if isinstance(obj, set) else frozenset
    value = SetValue((), source, kind)
    for item in kind.__iter__(obj):
        check_key(tx, item, partial(kind.__contains__, obj))
        value.members[mark_of_real(item)] = tx.constant(item)
    tx.guard("set_is", source, frozenset(kind.__iter__(obj)))
    return value


@builds_literal(set, frozenset)
def _set_literal(tx: Frame, obj: Any) -> Value:
    return SetValue.of(tx, [literal(tx, item) for item in obj], type(obj))


@SET("__reduce_ex__", "__reduce__")
def _reduce(self: SetValue, tx: Frame, protocol: Value | None = None) -> Value:
    """What `copy` asks for: the class and the members."""
    members = tx.trace.make_sequence(list, list(self.iterate(tx)))
    return tx.trace.make_tuple([tx.wrap(self.cls, None), tx.trace.make_tuple([members]), none(tx)])
