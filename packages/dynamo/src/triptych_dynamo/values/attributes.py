"""The attribute protocol: lookup of a name in a class and binding of what was found to an object.

In: a value and a name. Out: the bound value. Functions of the program's classes are guarded at the class that defines
them, once for all instances; those of torch and of the standard library are taken as given.
"""

from __future__ import annotations

import collections
import functools
from dataclasses import dataclass
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

from triptych_dynamo._eval_frame import CompiledCallable, Unhooked
from triptych_dynamo.sources import AttrSource, DerivedSource, PinnedSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.functions import MethodValue
from triptych_dynamo.values.common import ABSENT, constant_of, fold, is_trusted_name, lookup, type_name

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_TUPLE_FIELD = type(vars(collections.namedtuple("_", "a"))["a"])  # the descriptor of a named tuple's field
C_METHODS = (MethodDescriptorType, WrapperDescriptorType)


def attribute_name(tx: Frame, name: Value) -> str:
    """The name of an attribute as a Python string; the traced TypeError for anything else."""
    text = name.as_constant() if name.is_constant() else None
    if not isinstance(text, str):
        return tx.raise_python(TypeError, "attribute name must be string, not '" + type_name(name) + "'")
    return str(text)


def defines(cls: type, name: str) -> Any:
    """What `name` is in the class, unbound; ABSENT when it has none."""
    return lookup(cls, name)[1]


def is_data_descriptor(raw: Any) -> bool:
    """Whether `raw` in a class goes before the instance dictionary."""
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")


def is_trusted(cls: type) -> bool:
    """Whether the class's own code is taken as given (torch, the standard library)."""
    return is_trusted_name(getattr(cls, "__module__", None) or "")


def class_source(owner: type, name: str, raw: Any) -> Source | None:
    """Where the attribute of a class is read again; None for code that is taken as given."""
    if isinstance(raw, (FunctionType, staticmethod, classmethod, property, *C_METHODS)) and is_trusted(owner):
        return None
    pinned = PinnedSource(owner, owner.__qualname__)
    if isinstance(defines(type(raw), "__get__"), FunctionType):  # `owner.name` is what that makes of it
        return DerivedSource(pinned, _Unbound(name))
    return (
        AttrSource(AttrSource(pinned, name), "__func__") if isinstance(raw, classmethod) else AttrSource(pinned, name)
    )


@dataclass(frozen=True)
class _Unbound:
    """Reads what an attribute is in a class, past the descriptor protocol."""

    name: str

    def __call__(self, cls: type) -> Any:
        raw = defines(cls, self.name)
        if raw is ABSENT:
            raise AttributeError(self.name)
        return raw

    def __str__(self) -> str:
        return f"unbound attribute {self.name!r}"


def class_attribute(tx: Frame, value: Value, name: str) -> Value:
    """`value.name` for an object whose only attributes are those of its class, or the traced AttributeError."""
    cls = value.python_type()
    owner, raw = lookup(cls, name)
    if raw is ABSENT:
        return tx.raise_python(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
    return bind(tx, value, owner, raw, name)


def bind(tx: Frame, value: Value, owner: type, raw: Any, name: str) -> Value:
    """What `value.name` gives when `raw` was found in the dictionary of `owner`, a base of the value's class."""
    cls = value.python_type()  # guarded from there, so that a subclass that gains the name later is seen
    source = class_source(cls if defines(cls, name) is raw and not is_trusted(owner) else owner, name, raw)
    if isinstance(raw, (FunctionType, functools._lru_cache_wrapper, CompiledCallable, Unhooked)):
        return MethodValue(tx.wrap(raw, source), value)
    if isinstance(raw, staticmethod):
        return tx.wrap(raw.__func__, source)
    if isinstance(raw, classmethod):
        return MethodValue(tx.wrap(raw.__func__, source), tx.wrap(value.python_type(), None))
    if isinstance(raw, property):
        return call_property(tx, value, raw, source, name)
    if isinstance(raw, functools.cached_property):
        return cached_property(tx, value, raw)
    if isinstance(raw, C_METHODS):
        _guard_not_overridden(tx, cls, owner, raw, name)
        return MethodValue(tx.wrap(raw, None), value)
    if isinstance(raw, ClassMethodDescriptorType):
        return MethodValue(tx.wrap(raw, None), tx.wrap(value.python_type(), None))
    if type(raw) is _TUPLE_FIELD:
        return tx.call(tx.wrap(tuple.__getitem__, None), [value, tx.constant(raw.__reduce__()[1][0])])
    if isinstance(raw, (MemberDescriptorType, GetSetDescriptorType)):
        return read_c_attribute(tx, value, raw, name)
    found = tx.wrap(raw, source)
    if hasattr(type(raw), "__get__") and not isinstance(raw, type):
        return call_descriptor(tx, found, "__get__", [value, tx.wrap(value.python_type(), None)])
    return found


def _guard_not_overridden(tx: Frame, cls: type, owner: type, raw: Any, name: str) -> None:
    """A class of the program may gain a special method later, in place of the one of C that it has now."""
    if is_trusted(owner) and not is_trusted(cls) and type(cls) is type and defines(cls, name) is raw:
        tx.guard("is", AttrSource(PinnedSource(cls, cls.__qualname__), name), raw)


def call_property(tx: Frame, value: Value, raw: property, source: Source | None, name: str) -> Value:
    """Run the getter of a property."""
    if raw.fget is None:
        return tx.raise_python(
            AttributeError, f"property '{name}' of '{value.python_type().__name__}' object has no getter"
        )
    getter = tx.wrap(raw.fget, AttrSource(source, "fget") if source is not None else None)
    return tx.call(getter, [value], {})


def cached_property(tx: Frame, value: Value, raw: functools.cached_property[Any]) -> Value:
    """Run the function and keep the result in the instance dictionary."""
    result = tx.call(tx.wrap(raw.func, None), [value], {})
    store = getattr(value, "store_field", None)
    if store is None or raw.attrname is None:
        return tx.unsupported("attribute", f"cached property of {value!r}")
    store(tx, raw.attrname, result)
    return result


def call_descriptor(tx: Frame, descriptor: Value, method: str, args: list[Value]) -> Value:
    """`type(descriptor).method(descriptor, *args)`, for descriptors written in Python."""
    function = defines(descriptor.python_type(), method)
    if not isinstance(function, FunctionType):
        return tx.unsupported("attribute", f"descriptor of type {descriptor.python_type().__name__}")
    return tx.call(tx.wrap(function, None), [descriptor, *args], {})


def bind_real_descriptor(tx: Frame, raw: Any, args: list[Value]) -> Value:
    """`raw.__get__(obj, cls)` of a real classmethod, staticmethod or property."""
    if isinstance(raw, staticmethod):
        return tx.wrap(raw.__func__, None)
    if isinstance(raw, classmethod):
        return MethodValue(tx.wrap(raw.__func__, None), args[1] if len(args) > 1 else args[0].get_attr(tx, "__class__"))
    return call_property(tx, args[0], raw, None, "property")


def read_c_attribute(tx: Frame, value: Value, raw: Any, name: str) -> Value:
    """A slot, or an attribute computed by C: each family says how it is read."""
    reader = getattr(value, "read_slot", None)
    if reader is None:
        return tx.unsupported("attribute", f"attribute {name!r} of {value!r}")
    return reader(tx, raw, name)  # type: ignore[no-any-return]


def call_builtin_method(
    tx: Frame, owner: Value, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """`cls.name(owner, *args, **kwargs)` where `cls.name` is written in C and `owner` is an instance of `cls`."""
    handler = getattr(owner, "call_c_method", None)
    if handler is not None:
        return handler(tx, cls, name, args, kwargs)  # type: ignore[no-any-return]
    if isinstance(owner, ConstantValue) and defines(cls, name) is not defines(owner.python_type(), name):
        return _method_of_base(tx, owner, cls, name, args)
    if cls is object and name == "__getattribute__":
        return owner.get_attr(tx, args[0].as_constant())
    if cls is object and name == "__setattr__":
        owner.set_attr(tx, args[0].as_constant(), args[1])
        return tx.constant(None)
    return owner.call_method(tx, name, args, kwargs)


def _method_of_base(tx: Frame, owner: ConstantValue, cls: type, name: str, args: list[Value]) -> Value:
    """A method of a base class on an atom: `int.__repr__(True)`."""
    if cls is object and name in ("__repr__", "__hash__"):
        return tx.unsupported("call", f"object.{name} depends on an address")
    plain = [constant_of(tx, arg, f"an argument of {cls.__name__}.{name}") for arg in args]
    return fold(tx, getattr(cls, name), [owner.value, *plain])
