"""Instances of Python classes: those of the program, read lazily at their sources, and those that the trace makes.

The instance dictionary is a dictionary value (`fields`), so attribute reads, absences and stores are guarded and
replayed as those of any dictionary. An instance of a subclass of a builtin container keeps the container's part in
`storage`.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException
from triptych_dynamo.sources import AttrSource, InstanceDictSource, Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import ABSENT, guard_lacks, lookup, origin_of
from triptych_dynamo.values.containers import iterators, mappings
from triptych_dynamo.values.containers.hashing import mark_of_real
from triptych_dynamo.values.objects import instances
from triptych_dynamo.values.objects.object_methods import OBJECT
from triptych_dynamo.values.objects.protocol_keys import ProtocolKey
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_ABSENT_REAL = object()
# Modules of C classes whose attribute lookup is the generic one.
_GENERIC_LOOKUP = frozenset(
    {"builtins", "collections", "functools", "types", "logging", "datetime", "decimal", "torch"}
)


# Containers whose part of a rebuilt object is put in afterwards; the parts of others are arguments of `__new__`.
_FILLED_LATER = (dict, OrderedDict, defaultdict, list, set)
# Methods that look into another container as it is, whatever its class says of iteration.
_OF_TWO = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __radd__".split())


def _text_without_fields() -> str:
    """What this version of Python adds where an object without a dictionary is written to."""
    try:
        object().name = None  # type: ignore[attr-defined]
    except AttributeError as error:
        return str(error).partition("'name'")[2]
    raise AssertionError("a plain object has no fields")


_WITHOUT_FIELDS = _text_without_fields()


class ObjectValue(Value):
    """An instance of `cls`.

    Args:
        cls: its class.
        real: the object itself when the program had it before the trace.
        storage: the container's part, for instances of subclasses of dict, list, tuple, set and atoms.
    """

    def __init__(
        self, cls: type, source: Source | None = None, real: Any = _ABSENT_REAL, storage: Value | None = None
    ) -> None:
        super().__init__(source)
        self.cls = cls
        self.is_key = False  # whether a container of the trace holds it by a hash of the program's own
        self.real = real
        self.storage = storage
        self.fields: mappings.DictValue | None = mappings.DictValue() if has_instance_dict(cls) else None
        self.slots: dict[str, Value | None] = {}
        self.written_slots: dict[str, None] = {}
        self.class_changed = False
        if storage is not None and hasattr(storage, "owner"):
            storage.owner = self

    @property
    def is_new(self) -> bool:
        """Whether the trace made the object."""
        return self.real is _ABSENT_REAL

    def python_type(self) -> type:
        return self.cls

    # -- attributes ----------------------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        custom = attributes.defines(self.cls, "__getattribute__")
        if not isinstance(custom, attributes.C_METHODS):
            getter = attributes.bind(tx, self, self.cls, custom, "__getattribute__")
            found = tx.catches(AttributeError, lambda: tx.call(getter, [tx.constant(name)]))
            return found if found is not None else self.fallback_attr(tx, name)
        if custom.__objclass__.__module__ not in _GENERIC_LOOKUP:
            return tx.unsupported("attribute", f"attribute {name!r} of a {self.cls.__qualname__}, looked up by C code")
        return self.generic_attr(tx, name, fallback=True)

    def generic_attr(self, tx: Frame, name: str, *, fallback: bool) -> Value:
        """`object.__getattribute__(self, name)`, and `__getattr__` after it when `fallback`."""
        owner, raw = lookup(self.cls, name)
        if raw is not ABSENT and attributes.is_data_descriptor(raw):
            return attributes.bind(tx, self, owner, raw, name)
        found = self.field(tx, name)
        if found is not None:
            return found
        if raw is not ABSENT:
            return attributes.bind(tx, self, owner, raw, name)
        guard_lacks(tx, self.cls, name)
        if fallback:
            return self.fallback_attr(tx, name)
        return self.raise_absent(tx, name)

    def field(self, tx: Frame, name: str) -> Value | None:
        """What the instance dictionary holds under `name`; its absence is guarded."""
        if self.fields is None:
            return None
        entry = self.fields.peek(tx, name)
        return entry.value if entry is not None else None

    def fallback_attr(self, tx: Frame, name: str) -> Value:
        """The class's `__getattr__`, or the traced AttributeError."""
        fallback = attributes.defines(self.cls, "__getattr__")
        if fallback is not ABSENT and not isinstance(fallback, attributes.C_METHODS):
            return tx.call(attributes.bind(tx, self, self.cls, fallback, "__getattr__"), [tx.constant(name)])
        guard_lacks(tx, self.cls, "__getattr__")
        return self.raise_absent(tx, name)

    def raise_absent(self, tx: Frame, name: str) -> Value:
        """The AttributeError of a missing attribute."""
        return tx.raise_python(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def read_slot(self, tx: Frame, raw: Any, name: str) -> Value:
        """A member of `__slots__`, or an attribute computed by C."""
        if name == "__dict__" and self.fields is not None:
            return self.fields
        if name == "__class__":
            return tx.wrap(self.cls, None)
        if name == "__doc__":
            return tx.constant(self.cls.__doc__)
        if name == "__weakref__":
            return tx.unsupported("attribute", "__weakref__ of an object")
        if name in self.slots:
            written = self.slots[name]
            return written if written is not None else self.raise_absent(tx, name)
        if self.is_new:
            return self.raise_absent(tx, name)
        if isinstance(raw, GetSetDescriptorType):
            return self._computed_by_c(tx, raw, name)
        try:
            found = raw.__get__(self.real)
        except AttributeError:
            tx.guard("lacks_attr", self.source, name)
            return self.raise_absent(tx, name)
        value = tx.wrap(found, AttrSource(self.source, name) if self.source is not None else None)
        self.slots[name] = value
        return value

    def _computed_by_c(self, tx: Frame, raw: Any, name: str) -> Value:
        try:
            found = raw.__get__(self.real)
        except Exception as error:
            return tx.raise_python(type(error), *error.args)
        return tx.wrap(found, AttrSource(self.source, name) if self.source is not None else None)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        custom = attributes.defines(self.cls, "__setattr__")
        if not isinstance(custom, attributes.C_METHODS):
            tx.call(attributes.bind(tx, self, self.cls, custom, "__setattr__"), [tx.constant(name), value])
        else:
            self.generic_set(tx, name, value)

    def generic_set(self, tx: Frame, name: str, value: Value) -> None:
        """`object.__setattr__(self, name, value)`."""
        owner, raw = lookup(self.cls, name)
        if name == "__class__" and owner is object:
            self._change_class(tx, value)
        elif isinstance(raw, property):
            if raw.fset is None:
                tx.raise_python(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter")
            tx.call(tx.wrap(raw.fset, None), [self, value])
        elif type(raw).__name__ == "member_descriptor":
            self._store_slot(tx, name, value)
        elif raw is not ABSENT and attributes.is_data_descriptor(raw):
            self._store_through(tx, raw, owner, name, value)
        elif self.fields is None:
            self.raise_unwritable(tx, name)
        else:
            self.store_field(tx, name, value)

    def raise_unwritable(self, tx: Frame, name: str) -> Value:
        """The AttributeError of a name that cannot be set or deleted: it is absent, or the class holds it."""
        if self.fields is not None:
            return self.raise_absent(tx, name)
        if attributes.defines(self.cls, name) is ABSENT:
            text = f"'{self.cls.__name__}' object has no attribute '{name}'{_WITHOUT_FIELDS}"
            return tx.raise_python(AttributeError, text)
        return tx.raise_python(AttributeError, f"'{self.cls.__name__}' object attribute '{name}' is read-only")

    def _change_class(self, tx: Frame, value: Value) -> None:
        """`obj.__class__ = cls`, between classes of one layout."""
        cls = value.as_constant() if value.is_constant() else None
        plain = isinstance(cls, type) and self.storage is None and not self.slots
        if not plain or not _same_layout(self.cls, cls) or type(self) is not ObjectValue:
            tx.unsupported("attribute-store", f"changing the class of a {self.cls.__name__}")
        self.cls = cls  # type: ignore[assignment]
        if not self.is_new:
            self.class_changed = True
            tx.effects.mutated(self)

    def _store_through(self, tx: Frame, raw: Any, owner: type, name: str, value: Value) -> None:
        if isinstance(attributes.defines(type(raw), "__set__"), FunctionType):
            descriptor = tx.wrap(raw, attributes.class_source(owner, name, raw))
            attributes.call_descriptor(tx, descriptor, "__set__", [self, value])
        else:
            tx.unsupported("attribute-store", f"setting {name!r} of a {self.cls.__name__}")

    def _store_slot(self, tx: Frame, name: str, value: Value | None) -> None:
        self.check_no_key(tx)
        self.slots[name] = value
        self.written_slots[name] = None
        if not self.is_new:
            tx.effects.mutated(self)

    def store_field(self, tx: Frame, name: str, value: Value) -> None:
        """Put a value in the instance dictionary."""
        if self.fields is None:
            self.raise_absent(tx, name)
        else:
            self.check_no_key(tx)
            self.fields.put(tx, tx.constant(name), value)

    def check_no_key(self, tx: Frame) -> None:
        """An object of the trace is rebuilt with its last fields, and a container of the trace hashes it then."""
        if self.is_key and self.is_new:
            tx.unsupported(
                "attribute-store", f"a field of a new {self.cls.__name__} that a container holds by its hash"
            )

    def del_attr(self, tx: Frame, name: str) -> None:
        custom = attributes.defines(self.cls, "__delattr__")
        if not isinstance(custom, attributes.C_METHODS):
            tx.call(attributes.bind(tx, self, self.cls, custom, "__delattr__"), [tx.constant(name)])
        else:
            self.generic_delete(tx, name)

    def generic_delete(self, tx: Frame, name: str) -> None:
        """`object.__delattr__(self, name)`."""
        raw = attributes.defines(self.cls, name)
        if isinstance(raw, property) and raw.fdel is not None:
            tx.call(tx.wrap(raw.fdel, None), [self])
        elif isinstance(raw, property):
            tx.raise_python(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no deleter")
        elif isinstance(attributes.defines(type(raw), "__delete__"), FunctionType):
            owner, raw = lookup(self.cls, name)
            descriptor = tx.wrap(raw, attributes.class_source(owner, name, raw))
            attributes.call_descriptor(tx, descriptor, "__delete__", [self])
        elif type(raw).__name__ == "member_descriptor":
            if tx.catches(AttributeError, lambda: self.read_slot(tx, raw, name)) is None:
                tx.raise_python(AttributeError, name)
            self._store_slot(tx, name, None)
        elif raw is not ABSENT and attributes.is_data_descriptor(raw):
            self._delete_through(tx, raw, name)
        elif self.fields is None or self.fields.remove(tx, tx.constant(name)) is None:
            self.raise_unwritable(tx, name)

    def _delete_through(self, tx: Frame, raw: Any, name: str) -> None:
        """By a descriptor without a `__delete__` in Python."""
        if isinstance(attributes.defines(type(raw), "__set__"), FunctionType):
            tx.raise_python(AttributeError, "__delete__")
        tx.unsupported("attribute-delete", f"deleting {name!r}, which C keeps in a {self.cls.__name__}")

    # -- calls and methods ---------------------------------------------------------------------------------------------
    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if attributes.defines(self.cls, "__call__") is ABSENT:
            return tx.raise_python(TypeError, f"'{self.cls.__name__}' object is not callable")
        return self.call_method(tx, "__call__", args, kwargs)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not (name.startswith("__") and name.endswith("__")):
            return tx.call(self.get_attr(tx, name), args, kwargs)
        owner, raw = lookup(self.cls, name)
        if raw is ABSENT:
            return tx.raise_python(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        if raw is None:
            return tx.raise_python(TypeError, f"'{self.cls.__name__}' object does not support {name}")
        return tx.call(attributes.bind(tx, self, owner, raw, name), args, kwargs)

    def call_c_method(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A C method of a base class applied to this object: of the container's part, or of `object`."""
        if self.storage is not None and cls is not object:
            if name in _OF_TWO:
                parts = [getattr(arg, "storage", None) for arg in args]
                args = [arg if part is None else part for arg, part in zip(args, parts, strict=True)]
            return self.storage.call_method(tx, name, args, kwargs)
        inherited = attributes.defines(cls, name) is attributes.defines(object, name)
        if name in OBJECT and (inherited or name == "__ne__"):  # which asks `__eq__`
            return OBJECT.run(self, tx, name, args, kwargs)
        return self.call_real(tx, cls, name, args, kwargs)

    def call_real(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A C method of a class that is not modelled."""
        if name == "__get__" and isinstance(self.real, (classmethod, staticmethod, property)):
            return attributes.bind_real_descriptor(tx, self.real, args)
        return tx.unsupported("call", f"{cls.__qualname__}.{name}, written in C")

    def truth(self, tx: Frame) -> bool:
        if attributes.defines(self.cls, "__bool__") is not ABSENT:
            return self.call_method(tx, "__bool__", [], {}).truth(tx)
        if attributes.defines(self.cls, "__len__") is not ABSENT:
            return self.call_method(tx, "__len__", [], {}).truth(tx)
        guard_lacks(tx, self.cls, "__bool__", "__len__")
        return True

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return iterators.iterate(tx, self)

    def next_item(self, tx: Frame) -> Value | None:
        """One step of an iterator of the program: the next value, or None when it is exhausted."""
        try:
            return self.call_method(tx, "__next__", [], {})
        except TracedException as error:
            if issubclass(error.value.python_type(), StopIteration):
                return None
            raise

    def key(self, tx: Frame) -> Any:
        if attributes.defines(self.cls, "__hash__") is None:
            return tx.raise_python(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if attributes.defines(self.cls, "__hash__") is attributes.defines(object, "__hash__"):
            return self if self.is_new else self.real
        if self.storage is not None and not isinstance(attributes.defines(self.cls, "__hash__"), FunctionType):
            return self.storage.key(tx)
        if not self.is_new and not self.changed:
            return ProtocolKey(tx, self) if tx is not None and self._hashes_itself() else mark_of_real(self.real)
        return ProtocolKey(tx, self)

    def pin(self, tx: Frame) -> None:
        """A container of the program finds this very object, or does not: guarded by identity, unless the object's own
        methods were asked.
        """
        if not self._hashes_itself():
            self.guard_identity(tx)

    def _hashes_itself(self) -> bool:
        return isinstance(attributes.defines(self.cls, "__hash__"), FunctionType)

    def guard_identity(self, tx: Frame) -> None:
        """It matters that it is this object."""
        if self.source is None or self.is_new:
            return
        try:
            weakref.ref(self.real)
        except TypeError:
            tx.guard("is", self.source, self.real)
        else:
            tx.guard("is_weak", self.source, self.real)

    @property
    def changed(self) -> bool:
        """Whether the program changed the object's attributes."""
        return bool(self.written_slots) or (
            self.fields is not None and bool(self.fields.pending or self.fields.rewrite)
        )

    def is_constant(self) -> bool:
        return False

    def as_graph_arg(self, tx: Frame) -> Any:
        if self.storage is not None and not hasattr(self.cls, "__torch_function__"):
            return self.storage.as_graph_arg(tx)
        return super().as_graph_arg(tx)

    # -- code after the graph ------------------------------------------------------------------------------------------
    def replay(self, cg: Writer) -> None:
        """Emit the stores of slots, of the container's part, and of the fields of a new object."""
        if self.is_new:
            self._fill_new(cg)
        elif self.storage is not None and self.source is not None and hasattr(self.storage, "replay"):
            self.storage.replay(cg)
        if self.class_changed:
            cg.load_object(self.cls)
            cg.load(self)
            cg.store_attr("__class__")
        for name in self.written_slots:
            value = self.slots[name]
            self._emit_object_method(cg, "__delattr__" if value is None else "__setattr__", name, value)

    def _emit_object_method(self, cg: Writer, method: str, name: str, value: Value | None) -> None:
        cg.load_object(getattr(object, method))
        cg.load(self)
        cg.load_const(name)
        if value is not None:
            cg.load(value)
        cg.call(2 if value is None else 3)
        cg.pop()

    def _fill_new(self, cg: Writer) -> None:
        if isinstance(self.storage, mappings.DictValue):
            if self.storage.default_factory is not None:
                cg.load(self.storage.default_factory)
                cg.load(self)
                cg.store_attr("default_factory")
            for entry in self.storage.entries.values():
                cg.load_object(getattr(self.storage.cls, "__setitem__"))  # noqa: B009
                cg.load(self)
                cg.load(entry.key)
                cg.load(entry.value)
                cg.call(3)
                cg.pop()
        elif self.storage is not None and self.storage.python_type() in _FILLED_LATER:
            self.storage.fill_owner(cg, self)  # type: ignore[attr-defined]
        if self.fields is not None and self.fields.entries:
            cg.load(self)
            cg.load_attr("__dict__")
            cg.load_attr("update")
            self.fields.reconstruct(cg)
            cg.call(1)
            cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        """An empty instance now; its state follows in `replay`, so that objects that refer to each other can be
        rebuilt.
        """
        base = builtin_base(self.cls)
        cg.load_object(base.__new__)
        cg.load_object(self.cls)
        immutable = self.storage is not None and self.storage.python_type() not in _FILLED_LATER
        if immutable:
            assert self.storage is not None
            self.storage.reconstruct(cg)
        cg.call(2 if immutable else 1)
        cg.later(self)

    def __repr__(self) -> str:
        return f"Object({self.cls.__qualname__}, {self.source or 'new'})"


def _same_layout(old: type, new: Any) -> bool:
    """Whether an object of one Python class may become one of the other: no slots, no C parts."""
    classes = [cls for cls in (*old.__mro__, *new.__mro__) if cls is not object]
    return not any(is_c_class(cls) or "__slots__" in vars(cls) for cls in classes)


def has_instance_dict(cls: type) -> bool:
    """Whether instances of `cls` have a `__dict__`."""
    return bool(cls.__dictoffset__)


def builtin_base(cls: type) -> type:
    """The nearest base of `cls` that is written in C: its `__new__` makes the empty object."""
    return next(base for base in cls.__mro__ if is_c_class(base))


def is_c_class(cls: type) -> bool:
    """Whether the class is written in C: a static type, or a heap type with a `__new__` of its own in C."""
    is_heap_type = cls.__flags__ & (1 << 9)
    return not is_heap_type or isinstance(vars(cls).get("__new__"), BuiltinFunctionType)


@wraps_if(lambda obj: True, order=100)
def wrap_object(tx: Frame, obj: Any, source: Source | None) -> Value:
    """Any other object of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, type(obj))
    value = ObjectValue(type(obj), source, obj)
    tx.trace.remember(obj, value)
    attach_real(tx, value, obj, source)
    return value


def attach_real(tx: Frame, value: ObjectValue, obj: Any, source: Source | None) -> None:
    """Give a value the instance dictionary and the container's part of the real object, unread."""
    if value.fields is not None:
        origin = InstanceDictSource(source) if source is not None else None
        value.fields.source = origin
        mappings.fill(tx, value.fields, object.__getattribute__(obj, "__dict__"), origin)
        tx.trace.remember(object.__getattribute__(obj, "__dict__"), value.fields)
    storage = instances.wrap_storage(tx, obj, source)
    if storage is not None:
        value.storage = storage
        storage.owner = value  # type: ignore[attr-defined]
