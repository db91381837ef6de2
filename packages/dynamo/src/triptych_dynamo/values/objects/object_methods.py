"""The methods that every object has from `object`, as rows over `ObjectValue`."""

from __future__ import annotations

import copyreg
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.attributes import attribute_name, defines
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import MethodTable, none

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

OBJECT = MethodTable()


@OBJECT("__getattribute__")
def _getattribute(self: Any, tx: Frame, name: Value) -> Value:
    return self.generic_attr(tx, attribute_name(tx, name), fallback=False)  # type: ignore[no-any-return]


@OBJECT("__setattr__")
def _setattr(self: Any, tx: Frame, name: Value, value: Value) -> Value:
    self.generic_set(tx, attribute_name(tx, name), value)
    return none(tx)


@OBJECT("__delattr__")
def _delattr(self: Any, tx: Frame, name: Value) -> Value:
    self.generic_delete(tx, attribute_name(tx, name))
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
    if not has_own(self.cls, "__repr__"):
        return tx.unsupported("call", f"the text of a {self.cls.__name__} contains its address")
    return self.call_method(tx, "__repr__", [], {})  # type: ignore[no-any-return]


@OBJECT("__reduce_ex__", "__reduce__")
def _reduce(self: Any, tx: Frame, protocol: Value | None = None) -> Value:
    """What `copy` asks for: the class, and the state as `object.__reduce_ex__` gives it for plain instances."""
    own = defines(self.cls, "__reduce__")
    if protocol is not None and isinstance(own, FunctionType):  # `__reduce_ex__` asks the class for it
        return tx.call(tx.wrap(own, None), [self], {})
    getstate = defines(self.cls, "__getstate__")
    custom = has_own(self.cls, "__getstate__") and not isinstance(getstate, FunctionType)
    custom = custom or has_own(self.cls, "__getnewargs_ex__") or has_own(self.cls, "__getnewargs__")
    if custom or self.storage is not None or self.slots or self.fields is None:
        return tx.unsupported("call", f"copying an instance of {self.cls.__qualname__}")
    if isinstance(getstate, FunctionType):
        state = tx.call(tx.wrap(getstate, None), [self], {})
    else:
        state = self.fields.call_method(tx, "copy", [], {}) if self.fields.truth(tx) else none(tx)
    parts = [tx.wrap(copyreg.__newobj__, None), tx.trace.make_tuple([tx.wrap(self.cls, None)]), state]  # type: ignore[attr-defined]
    return tx.trace.make_tuple(parts)


def has_own(cls: type, name: str) -> bool:
    """Whether a class below `object` defines the method."""
    return any(name in vars(base) for base in cls.__mro__ if base is not object)


@OBJECT("__format__")
def _format(self: Any, tx: Frame, spec: Value) -> Value:
    return self.call_method(tx, "__str__", [], {})  # type: ignore[no-any-return]
