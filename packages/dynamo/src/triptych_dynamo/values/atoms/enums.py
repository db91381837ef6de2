"""Members of enumerations and objects that never change: constants of the trace with methods."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.builtin_functions import call_pure
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.callables.pure import is_c_enumeration, is_frozen
from triptych_dynamo.values.common import ABSENT, fold, lookup
from triptych_dynamo.values.objects.classes import ClassValue, StaticObjectValue, constructs
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class EnumValue(StaticObjectValue):
    """A member of an enumeration."""

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in ("name", "value", "_name_", "_value_"):
            return tx.wrap(getattr(self.obj, name), None)
        owner, raw = lookup(type(self.obj), name)
        if isinstance(raw, FunctionType) and raw.__module__ == enum.__name__:  # copied from class to class
            return BuiltinMethodValue(self, name)
        if isinstance(raw, (FunctionType, classmethod)) or (isinstance(raw, property) and owner is not enum.Enum):
            return attributes.bind(tx, self, owner, raw, name)
        return super().get_attr(tx, name)

    def as_graph_arg(self, tx: Frame) -> Any:
        return int(self.obj) if isinstance(self.obj, int) else self.obj

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        owner, raw = lookup(type(self.obj), name)
        if isinstance(raw, FunctionType) and raw.__module__ != enum.__name__:
            return tx.call(attributes.bind(tx, self, owner, raw, name), args, kwargs)
        if raw is ABSENT:
            return tx.raise_python(AttributeError, f"'{type(self.obj).__name__}' object has no attribute '{name}'")
        try:
            plain = [arg.as_constant() for arg in args]
        except NotConstant:
            return tx.constant(NotImplemented)
        if name == "__iter__":
            return tx.call(tx.wrap(iter, None), [tx.constant(tuple(self.obj))])
        return fold(tx, getattr(self.obj, name), plain)


class EnumClassValue(ClassValue):
    """An enumeration class: calling, indexing and iterating it gives members, all known."""

    @property
    def enumeration(self) -> Any:
        """The class, as what it is."""
        return self.cls

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return call_pure(tx, self.cls, args, kwargs)

    def get_attr(self, tx: Frame, name: str) -> Value:
        member = self.enumeration.__members__.get(name)
        return super().get_attr(tx, name) if member is None else tx.wrap(member, None)

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return (tx.wrap(member, None) for member in self.enumeration)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__getitem__":
            return fold(tx, self.enumeration.__getitem__, [args[0].as_constant()])
        if name == "__len__":
            return tx.constant(len(self.enumeration))
        if name == "__contains__":
            return call_pure(tx, type(self.enumeration).__contains__, [self, *args], {})
        if name == "__iter__":
            return tx.call(tx.wrap(iter, None), [tx.constant(tuple(self.enumeration))])
        return super().call_method(tx, name, args, kwargs)


@constructs(enum.auto)
def _auto(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The namespace of an enumeration puts the number in its place."""
    return StaticObjectValue(enum.auto())


@wraps_if(lambda obj: isinstance(obj, enum.EnumMeta), order=12)
def wrap_enum_class(tx: Frame, obj: type, source: Source | None) -> Value:
    """An enumeration class."""
    tx.guard("is", source, obj)
    return EnumClassValue(obj, source)


@wraps_if(lambda obj: isinstance(obj, enum.Enum), order=13)
def wrap_enum_member(tx: Frame, obj: enum.Enum, source: Source | None) -> Value:
    """A member of an enumeration: guarded by identity."""
    tx.guard("is", source, obj)
    return EnumValue(obj, source)


@wraps_if(is_frozen, order=14)
def wrap_frozen(tx: Frame, obj: Any, source: Source | None) -> Value:
    """An object that never changes; equal ones are interchangeable where the type compares by value."""
    by_value = type(obj).__eq__ is not object.__eq__ and not is_c_enumeration(type(obj))
    tx.guard("equals" if by_value else "is", source, obj)
    return StaticObjectValue(obj, source)
