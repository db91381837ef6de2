"""Making instances: `type.__call__`, the C `__new__`s, and the container's part of instances of builtin subclasses."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import constant_of, fold, lookup
from triptych_dynamo.values.containers import dict_methods, iterators, mappings, sequences, sets
from triptych_dynamo.values.objects import objects

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.objects.classes import ClassValue

ATOM_BASES = (int, float, complex, str, bytes)
# Rules for classes whose instances are a family of their own: `f(tx, class_value, args, kwargs) -> Value | None`.
MAKERS: list[tuple[Callable[[type], bool], Callable[..., Value]]] = []


def makes(predicate: Callable[[type], bool]) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register how the C `__new__` of a group of classes is modelled: `f(tx, cls, args, kwargs)`."""

    def register(maker: Callable[..., Value]) -> Callable[..., Value]:
        MAKERS.append((predicate, maker))
        return maker

    return register


def instantiate(tx: Frame, class_value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__call__(cls, *args, **kwargs)`."""
    cls = class_value.cls
    owner, new = lookup(cls, "__new__")
    if isinstance(new, staticmethod):
        new = new.__func__
    if isinstance(new, BuiltinFunctionType):
        value = builtin_new(tx, cls, args, kwargs)
    else:
        source = attributes.class_source(owner, "__new__", new)
        value = tx.call(tx.wrap(new, source), [class_value, *args], kwargs)
    if cls in type.__getattribute__(value.python_type(), "__mro__"):  # a metaclass is not asked
        initialise(tx, value, cls, args, kwargs)
    return value


def initialise(tx: Frame, value: Value, cls: type, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Run `cls.__init__` on a new instance."""
    owner, init = lookup(cls, "__init__")
    if isinstance(init, FunctionType):
        tx.call(tx.wrap(init, attributes.class_source(owner, "__init__", init)), [value, *args], kwargs)
    elif not isinstance(init, attributes.C_METHODS):  # a descriptor of the program: compiled, disabled, partial ...
        tx.call(attributes.bind(tx, value, owner, init, "__init__"), args, kwargs)
    elif owner is object:
        if (args or kwargs) and lookup(cls, "__new__")[0] is object:
            tx.raise_python(TypeError, f"{cls.__name__}() takes no arguments")
    elif isinstance(value, objects.ObjectValue) and isinstance(
        value.storage, (mappings.DictValue, sequences.ListValue, sets.SetValue)
    ):
        fill_storage(tx, value.storage, args, kwargs)


def fill_storage(tx: Frame, storage: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
    """The C `__init__` of a container on a new instance."""
    if isinstance(storage, mappings.DictValue):
        if storage.cls is defaultdict and args:
            storage.default_factory, args = args[0], args[1:]
        storage.call_method(tx, "update", args, kwargs)
    elif isinstance(storage, (sequences.ListValue, sets.SetValue)):
        held, fill = (storage.members, "update") if isinstance(storage, sets.SetValue) else (storage, "extend")
        if storage.source is not None or len(held):  # `obj.__init__` once more
            storage.call_method(tx, "clear", [], {})
        if args:
            storage.call_method(tx, fill, args, kwargs)


def builtin_new(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The C `__new__` that `cls` has or inherits, applied to `cls`."""
    for predicate, maker in MAKERS:
        if predicate(cls):
            return maker(tx, cls, args, kwargs)
    base = objects.builtin_base(cls)
    if base is object:
        abstract = getattr(cls, "__abstractmethods__", None)
        if abstract:
            return fold(tx, object.__new__, [cls])  # raises, with the text of this Python
        return objects.ObjectValue(cls)
    storage = new_storage(tx, base, args, kwargs)
    if storage is None:
        return tx.unsupported("call", f"an instance of {cls.__qualname__}, made by C code")
    if cls is base or (isinstance(storage, sequences.TupleValue) and not objects.has_instance_dict(cls)):
        if isinstance(storage, sequences.TupleValue):
            storage.cls = cls
        return storage
    return objects.ObjectValue(cls, storage=storage)


def new_storage(tx: Frame, base: type, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The container's part of a new instance, as the C `__new__` leaves it."""
    if base in (dict, OrderedDict, defaultdict):
        return mappings.DictValue(cls=base)
    if base is list:
        return sequences.ListValue([])
    if base is tuple:
        return sequences.TupleValue(iterators.items_of(tx, args[0]) if args else [])
    if base is set:
        return sets.SetValue()
    if base is frozenset:
        return sets.make_set(tx, frozenset, args[0] if args else None)
    if base in ATOM_BASES:
        plain = [constant_of(tx, arg, "an argument of an atom") for arg in args]
        return tx.constant(base(*plain, **{k: constant_of(tx, v, k) for k, v in kwargs.items()}))
    return None


def wrap_storage(tx: Frame, obj: Any, source: Source | None) -> Value | None:
    """The container's part of a real instance of a subclass of a builtin container."""
    if isinstance(obj, dict):
        base = next(cls for cls in (OrderedDict, defaultdict, dict) if isinstance(obj, cls))
        mapping = mappings.fill(tx, mappings.DictValue((), source, base), obj, source)
        if isinstance(obj, defaultdict):
            mapping.default_factory = tx.constant(obj.default_factory)
        return mapping
    if isinstance(obj, list):
        items = sequences.guard_items(tx, obj, source)
        return sequences.ListValue(items, source)
    if isinstance(obj, tuple):
        return sequences.TupleValue(sequences.guard_items(tx, obj, source), source)
    if isinstance(obj, (set, frozenset)):
        return sets.wrap_members(tx, obj, source)
    atom = next((base for base in ATOM_BASES if isinstance(obj, base)), None)
    if atom is not None:
        tx.guard("equals", source, obj)
        return ConstantValue(atom(obj))
    return None


@makes(lambda cls: cls is SimpleNamespace)
def _make_namespace(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return objects.ObjectValue(cls)


@makes(lambda cls: issubclass(cls, deque))
def _make_deque(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.unsupported("call", f"an instance of {cls.__qualname__}, a subclass of deque")


def class_namespace(tx: Frame, cls: type) -> Value:
    """`cls.__dict__`: a proxy of the values found there."""
    pairs = []
    for name, raw in vars(cls).items():
        pairs.append((tx.constant(name), tx.wrap(raw, attributes.class_source(cls, name, raw))))
    return dict_methods.MappingProxyValue(mappings.DictValue(pairs))


def mapping_proxy(tx: Frame, mapping: Value) -> Value:
    """`MappingProxyType(mapping)`."""
    return dict_methods.MappingProxyValue(mapping)
