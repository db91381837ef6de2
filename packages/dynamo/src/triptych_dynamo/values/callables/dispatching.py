"""`functools.singledispatch`: the implementation for a class is looked up while tracing, and guarded."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import PinnedSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.functions import FunctionValue, wrap_function
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_CODE = functools.singledispatch(lambda value: value).__code__  # type: ignore[attr-defined]  # that of all


class DispatchingValue(RealObjectValue):
    """A function made by `singledispatch`."""

    def __init__(self, obj: Any, function: FunctionValue, source: Source | None) -> None:
        super().__init__(obj, source)
        self.function = function

    def chosen(self, tx: Frame, cls: type) -> Value:
        """The implementation for `cls`; a later registration is seen by the guard."""
        found = self.obj.dispatch(cls)
        fact = PythonFact(lambda obj: obj.dispatch(cls) is found, f"{self.obj.__qualname__} for {cls.__qualname__}")
        tx.guard("python", PinnedSource(self.obj, self.obj.__qualname__), fact)
        return tx.wrap(found, None)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not args:
            return tx.raise_python(TypeError, f"{self.obj.__name__} requires at least 1 positional argument")
        return tx.call(self.chosen(tx, args[0].python_type()), args, kwargs)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "dispatch":
            return _Dispatch(self)
        return self.function.get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        self.function.set_attr(tx, name, value)

    def reconstruct(self, cg: Any) -> None:
        cg.load_object(self.obj)


class _Dispatch(Value):
    """`function.dispatch`."""

    def __init__(self, owner: DispatchingValue) -> None:
        super().__init__()
        self.owner = owner

    def python_type(self) -> type:
        return FunctionType

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.chosen(tx, args[0].as_constant())

    def reconstruct(self, cg: Any) -> None:
        cg.load(self.owner)
        cg.load_attr("dispatch")


@wraps_if(lambda obj: type(obj) is FunctionType and obj.__code__ is _CODE, order=80)
def wrap_dispatching(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A dispatching function of the program."""
    tx.guard("is", source, obj)
    function = wrap_function(tx, obj, None)
    assert isinstance(function, FunctionValue)
    value = DispatchingValue(obj, function, source)
    tx.trace.remember(obj, value)
    return value
