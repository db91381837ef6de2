"""Classes as values: their attributes, their calls (`__new__`, `__init__`), changes of class attributes."""

from __future__ import annotations

from collections.abc import Callable
from types import (
    FunctionType,
    GenericAlias,
    MappingProxyType,
    UnionType,
)
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import MODELS
from triptych_dynamo.sources import AttrSource, PinnedSource, Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.functions import MethodValue
from triptych_dynamo.values.callables.pure import FROZEN_TYPES, call_pure, calls_argument
from triptych_dynamo.values.common import ABSENT, fits, fold, guard_lacks, lookup, none
from triptych_dynamo.values.objects import instances, objects
from triptych_dynamo.values.objects.arity import check_arity
from triptych_dynamo.values.objects.objects import is_c_class
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

Constructor = Callable[..., Value]
CONSTRUCTORS: dict[type, Constructor] = {}
# Class methods written in C: `f(tx, class_value, *args)`.
CLASS_METHODS: dict[tuple[type, str], Callable[..., Value]] = {}
_PURE_CLASS_METHODS = frozenset("fromisoformat fromisocalendar fromordinal strptime combine from_float".split())
_PURE_CLASSES = frozenset({int, float, complex, str, bytes})
_FACTS = frozenset("__name__ __qualname__ __module__ __doc__ __flags__ __abstractmethods__ __basicsize__".split())


def constructs(*classes: type) -> Callable[[Constructor], Constructor]:
    """Register what calling these very classes does: `f(tx, args, kwargs)`."""

    def register(constructor: Constructor) -> Constructor:
        for cls in classes:
            CONSTRUCTORS[cls] = constructor
        return constructor

    return register


def class_method(cls: type, name: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a class method of a C class."""

    def register(method: Callable[..., Value]) -> Callable[..., Value]:
        CLASS_METHODS[cls, name] = method
        return method

    return register


# What stands for a value in the namespace of a real class: filled by the family that makes classes.
REAL_PARTS: list[Callable[[Frame, str, Value], Any]] = []


class ClassValue(Value):
    """A class. It is a constant of the trace; attributes that the program sets on it are effects."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.stores: dict[str, Value] = {}

    def python_type(self) -> type:
        return type(self.cls)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.cls

    def truth(self, tx: Frame) -> bool:
        if attributes.defines(type(self.cls), "__bool__") is ABSENT and not hasattr(type(self.cls), "__len__"):
            return True
        return bool(self.cls)

    def key(self, tx: Frame) -> Any:
        return self.cls

    # -- attributes ----------------------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in self.stores:
            return self.stores[name]
        if name in _FACTS:
            return attributes_fact(tx, self.cls, name)
        if name in _SPECIAL:
            return _SPECIAL[name](tx, self)
        meta_owner, meta = lookup(type(self.cls), name)
        if meta is not ABSENT and isinstance(meta, property):
            return attributes.call_property(tx, self, meta, None, name)
        owner, raw = lookup(self.cls, name)
        if raw is not ABSENT:
            return self._bound(tx, owner, raw, name)
        if meta is ABSENT:
            return self._absent(tx, name)
        return attributes.bind(tx, self, meta_owner, meta, name)

    def _absent(self, tx: Frame, name: str) -> Value:
        fallback = attributes.defines(type(self.cls), "__getattr__")
        if isinstance(fallback, FunctionType):
            return tx.call(tx.wrap(fallback, None), [self, tx.constant(name)])
        guard_lacks(tx, self.cls, name)
        return tx.raise_python(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")

    def _bound(self, tx: Frame, owner: type, raw: Any, name: str) -> Value:
        read = owner if attributes.is_trusted(owner) else self.cls  # so that a subclass that gains the name is seen
        source = attributes.class_source(read, name, raw)
        if isinstance(raw, staticmethod):
            return tx.wrap(raw.__func__, source)
        if isinstance(raw, classmethod):
            return MethodValue(tx.wrap(raw.__func__, source), self)
        if isinstance(raw, (FunctionType, property, *attributes.C_METHODS)):
            return tx.wrap(raw, source)
        getter = attributes.defines(type(raw), "__get__")
        if isinstance(getter, FunctionType) and not isinstance(raw, type):
            return tx.call(tx.wrap(getter, None), [tx.wrap(raw, source), none(tx), self])
        if getter is not ABSENT and not isinstance(raw, type):
            found = getattr(self.cls, name)
            return tx.wrap(found, None) if callable(found) or found is raw else tx.constant(found)
        return tx.wrap(raw, source)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if attributes.defines(type(self.cls), "__setattr__") is not attributes.defines(type, "__setattr__"):
            return super().set_attr(tx, name, value)
        self.store(tx, name, value)
        return None

    def store(self, tx: Frame, name: str, value: Value) -> None:
        """`type.__setattr__(cls, name, value)`; a class of the trace is made again with the attribute."""
        self.stores[name] = value
        if self.cls in tx.trace.made_classes:
            part = REAL_PARTS[0](tx, name, value)
            try:
                type.__setattr__(self.cls, name, part)
            except Exception as error:  # a name that is no text, bases that do not fit: the class has refused
                tx.unsupported("class-definition", f"{self.cls.__qualname__}.{name} is refused: {error}")
        else:
            tx.effects.mutated(self)

    def replay(self, cg: Writer) -> None:
        """Emit `setattr(cls, name, value)` for what was set."""
        for name, value in self.stores.items():
            cg.load(value)
            cg.load(self)
            cg.store_attr(name)

    # -- calls ---------------------------------------------------------------------------------------------------------
    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        constructor = CONSTRUCTORS.get(self.cls)
        if constructor is not None:
            check_arity(tx, self.cls, args, kwargs)
            return constructor(tx, args, kwargs)
        model = MODELS.get(self.cls)
        if model is not None:
            return tx.call(tx.wrap(model, None), args, kwargs)
        if issubclass(self.cls, FROZEN_TYPES) and is_c_class(self.cls):
            return call_pure(tx, self.cls, args, kwargs)
        meta_call = attributes.defines(type(self.cls), "__call__")
        if isinstance(meta_call, FunctionType):
            return tx.call(tx.wrap(meta_call, None), [self, *args], kwargs)
        if isinstance(meta_call, type):  # no descriptor: called as it is, such as `dict` of a typed dictionary
            return tx.call(tx.wrap(meta_call, None), args, kwargs)
        return self.instantiate(tx, args, kwargs)

    def instantiate(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`type.__call__(cls, *args, **kwargs)`: `__new__`, then `__init__` when an instance came out."""
        return instances.instantiate(tx, self, args, kwargs)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name in ("__eq__", "__ne__", "__hash__"):
            return (
                super().call_method(tx, name, args, kwargs)
                if _compares(self.cls, name)
                else self._compare(tx, name, args)
            )
        if name == "__or__" or name == "__ror__":
            operands = [self.cls, args[0].as_constant()] if name == "__or__" else [args[0].as_constant(), self.cls]
            return tx.constant(operands[0] | operands[1])
        owner, raw = lookup(type(self.cls), name)
        if raw is not ABSENT and name.startswith("__") and raw is not attributes.defines(type, name):
            return tx.call(attributes.bind(tx, self, owner, raw, name), args, kwargs)
        if name == "__class_getitem__":
            return self._subscript(tx, args)
        return super().call_method(tx, name, args, kwargs)

    def _subscript(self, tx: Frame, args: list[Value]) -> Value:
        if not hasattr(self.cls, "__class_getitem__"):
            return tx.raise_python(TypeError, f"type '{self.cls.__name__}' is not subscriptable")
        return tx.constant(self.cls[args[0].as_constant()])  # type: ignore[index]

    def _compare(self, tx: Frame, name: str, args: list[Value]) -> Value:
        if name == "__hash__":
            return tx.unsupported("call", "hash of a class")
        other = args[0].as_constant() if args[0].is_constant() else None
        return tx.constant((other is self.cls) == (name == "__eq__"))

    def call_c_method(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods of `type` and `object` on a class."""
        if name == "__call__":
            return self.instantiate(tx, args, kwargs)
        if name == "__getattribute__":
            return self.get_attr(tx, attributes.attribute_name(tx, args[0]))
        if name in ("__init__", "__init_subclass__"):
            return none(tx)
        if name == "__setattr__":
            self.store(tx, attributes.attribute_name(tx, args[0]), args[1])
            return none(tx)
        if name in ("mro", "__subclasses__", "__instancecheck__", "__subclasscheck__"):
            return tx.constant(getattr(self.cls, name)(*(arg.as_constant() for arg in args)))
        if name in ("__eq__", "__ne__", "__hash__"):
            return self._compare(tx, name, args)
        for base in self.cls.__mro__:
            method = CLASS_METHODS.get((base, name))
            if method is not None and fits(method, tx, self, args, kwargs):
                return method(tx, self, *args, **kwargs)
            if method is not None:
                return fold(tx, getattr(base, name), [()] * len(args), dict.fromkeys(kwargs, ()))  # raises
        if self.cls in _PURE_CLASSES or (name in _PURE_CLASS_METHODS and issubclass(self.cls, FROZEN_TYPES)):
            return call_pure(tx, getattr(self.cls, name), args, kwargs)
        return tx.unsupported("call", f"the class method {self.cls.__qualname__}.{name}, written in C")

    def reconstruct(self, cg: Writer) -> None:
        if self.cls in cg.trace.made_classes:
            cg.trace.made_classes.recipe(self.cls).emit(cg)
            for name, value in self.stores.items():
                cg.copy()
                cg.load(value)
                cg.swap()
                cg.store_attr(name)
        else:
            cg.load_object(self.cls)

    def __repr__(self) -> str:
        return f"Class({self.cls.__qualname__})"


def _compares(cls: type, name: str) -> bool:
    return attributes.defines(type(cls), name) is not attributes.defines(object, name) and type(cls) is not type


def attributes_fact(tx: Frame, cls: type, name: str) -> Value:
    """`cls.__name__` and its like."""
    if not hasattr(cls, name):
        return tx.raise_python(AttributeError, f"type object '{cls.__name__}' has no attribute '{name}'")
    return tx.constant(getattr(cls, name))


def _annotations(tx: Frame, value: ClassValue) -> Value:
    return tx.wrap(
        value.cls.__annotations__, AttrSource(PinnedSource(value.cls, value.cls.__qualname__), "__annotations__")
    )


def _namespace(tx: Frame, value: ClassValue) -> Value:
    if value.stores and value.cls not in tx.trace.made_classes:
        return tx.unsupported("attribute", "the dictionary of a changed class")
    return instances.class_namespace(tx, value.cls)


_SPECIAL: dict[str, Callable[[Any, ClassValue], Value]] = {
    "__class__": lambda tx, value: tx.wrap(type(value.cls), None),
    "__mro__": lambda tx, value: tx.constant(value.cls.__mro__),
    "__bases__": lambda tx, value: tx.constant(value.cls.__bases__),
    "__base__": lambda tx, value: tx.constant(value.cls.__base__),
    "__dict__": _namespace,
    "__annotations__": _annotations,
}


@wraps_if(lambda obj: isinstance(obj, type), order=15)
def wrap_class(tx: Frame, obj: type, source: Source | None) -> Value:
    """A class of the program: guarded by identity where it was read."""
    tx.guard("is", source, obj)
    return ClassValue(obj, source)


class StaticObjectValue(RealObjectValue):
    """An object whose state never matters or never changes: typing aliases, compiled patterns, signatures."""

    def get_attr(self, tx: Frame, name: str) -> Value:
        if not hasattr(self.obj, name):
            return tx.raise_python(AttributeError, f"'{type(self.obj).__name__}' object has no attribute '{name}'")
        found = getattr(self.obj, name)
        return tx.wrap(found, None)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A subscripted generic makes an instance of its origin, which remembers it."""
        origin = getattr(self.obj, "__origin__", None)
        if not isinstance(origin, type):
            return super().call(tx, args, kwargs)
        result = tx.call(tx.wrap(origin, None), args, kwargs)
        if isinstance(result, objects.ObjectValue) and result.fields is not None:
            result.set_attr(tx, "__orig_class__", self)
        return result

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = [*args, *kwargs.values()]
        if not all(arg.is_constant() and not arg.is_buffer for arg in given) or calls_argument(self.obj, given):
            return tx.call(self.get_attr(tx, name), args, kwargs)
        named = {key: arg.as_constant() for key, arg in kwargs.items()}
        return fold(tx, getattr(self.obj, name), [arg.as_constant() for arg in args], named)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


_TYPING_MODULES = frozenset({"typing", "typing_extensions"})


def is_typing_construct(obj: Any) -> bool:
    """Whether `obj` is a type written with brackets or bars, or a special form."""
    return isinstance(obj, (GenericAlias, UnionType)) or type(obj).__module__ in _TYPING_MODULES


@wraps_if(is_typing_construct, order=16)
def wrap_static(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A typing construct."""
    tx.guard("is", source, obj)
    return StaticObjectValue(obj, source)


@constructs(MappingProxyType)
def _mapping_proxy(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return instances.mapping_proxy(tx, args[0])
