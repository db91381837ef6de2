"""The methods that every object has from `object`, as rows over `ObjectValue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import MethodTable, none

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

OBJECT = MethodTable()


@OBJECT("__getattribute__")
def _getattribute(self: Any, tx: Frame, name: Value) -> Value:
    return self.generic_attr(tx, name.as_constant(), fallback=False)  # type: ignore[no-any-return]


@OBJECT("__setattr__")
def _setattr(self: Any, tx: Frame, name: Value, value: Value) -> Value:
    self.generic_set(tx, name.as_constant(), value)
    return none(tx)


@OBJECT("__delattr__")
def _delattr(self: Any, tx: Frame, name: Value) -> Value:
    self.generic_delete(tx, name.as_constant())
    return none(tx)


@OBJECT("__init__")
def _init(self: Any, tx: Frame, *args: Value, **kwargs: Value) -> Value:
    return none(tx)


@OBJECT("__eq__")
def _eq(self: Any, tx: Frame, other: Value) -> Value:
    return tx.constant(True if self is other else NotImplemented)


@OBJECT("__ne__")
def _ne(self: Any, tx: Frame, other: Value) -> Value:
    """The inverse of `__eq__`, as `object.__ne__` is."""
    result = self.call_method(tx, "__eq__", [other], {})
    if result.is_constant() and result.as_constant() is NotImplemented:
        return result  # type: ignore[no-any-return]
    return tx.constant(not result.truth(tx))


def _unordered(self: Any, tx: Frame, other: Value) -> Value:
    return tx.constant(NotImplemented)


for _name in ("__lt__", "__le__", "__gt__", "__ge__"):
    OBJECT(_name)(_unordered)


@OBJECT("__init_subclass__", "__subclasshook__")
def _nothing(self: Any, tx: Frame, *args: Value, **kwargs: Value) -> Value:
    return none(tx)


@OBJECT("__hash__")
def _hash(self: Any, tx: Frame) -> Value:
    return tx.unsupported("call", "the hash of an object is its address")


@OBJECT("__repr__", "__str__")
def _repr(self: Any, tx: Frame) -> Value:
    own = self.call_method(tx, "__repr__", [], {}) if _has_own_repr(self) else None
    return own if own is not None else tx.unsupported("call", f"the text of a {self.cls.__name__} contains its address")


def _has_own_repr(self: Any) -> bool:
    return any("__repr__" in vars(base) for base in self.cls.__mro__ if base is not object)


@OBJECT("__format__")
def _format(self: Any, tx: Frame, spec: Value) -> Value:
    return self.call_method(tx, "__str__", [], {})  # type: ignore[no-any-return]
