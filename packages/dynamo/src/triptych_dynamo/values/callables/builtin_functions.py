"""Functions written in C as values, and the table of what the tracer does in their place.

In: a call. Out, by the first rule that applies: the handler registered for this very function; the Python model of
`triptych_dynamo.polyfills`, inlined; the function itself, when it is pure and its arguments are constants; the method
of the object that a bound C method belongs to; else a graph break.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodWrapperType, ModuleType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import MODELS
from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.pure import call_pure as call_pure
from triptych_dynamo.values.callables.pure import calls_argument, is_pure
from triptych_dynamo.values.callables.pure import constant_or_special as constant_or_special
from triptych_dynamo.values.callables.pure import name_of as name_of
from triptych_dynamo.values.objects import instances
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps, wraps_object

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

HANDLERS: dict[Any, Callable[..., Value]] = {}


def builtin(*functions: Any) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register what a call of these functions does: `f(tx, *args, **kwargs)`. Python functions are not inlined then."""

    def register(handler: Callable[..., Value]) -> Callable[..., Value]:
        for function in functions:
            HANDLERS[function] = handler
            if isinstance(function, FunctionType):
                wraps_object(function)(wrap_substituted)
        return handler

    return register


def handler_of(function: Any) -> Callable[..., Value] | None:
    """The registered handler of a function."""
    try:
        return HANDLERS.get(function)
    except TypeError:
        return None


def model_of(function: Any) -> Callable[..., Any] | None:
    """The Python model of a C function."""
    try:
        return MODELS.get(function)
    except TypeError:
        return None


class FunctionObjectValue(RealObjectValue):
    """A function object that is the same in every run; families say what a call of it does."""

    def key(self, tx: Frame) -> Any:
        return self.obj

    def get_attr(self, tx: Frame, name: str) -> Value:
        if not hasattr(self.obj, name):
            return tx.raise_python(AttributeError, f"'{type(self.obj).__name__}' object has no attribute '{name}'")
        return tx.wrap(getattr(self.obj, name), None)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


class BuiltinFunctionValue(FunctionObjectValue):
    """A function (or callable class) that the tracer answers for itself."""

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__self__" and isinstance(self.obj, (BuiltinFunctionType, MethodWrapperType)):
            owner = self.obj.__self__
            return tx.wrap(owner, AttrSource(self.source, name) if self.source is not None else None)
        return super().get_attr(tx, name)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        handler = handler_of(self.obj)
        if handler is not None:
            return run_handler(tx, handler, self.obj, args, kwargs)
        model = model_of(self.obj)
        if model is not None:
            return tx.call(tx.wrap(model, None), args, kwargs)
        if calls_argument(self.obj, [*args, *kwargs.values()]):
            return self._call_model_of_method(tx, args, kwargs)
        if is_pure(self.obj):
            return call_pure(tx, self.obj, args, kwargs)
        owner = getattr(self.obj, "__self__", None)
        if self.obj.__name__ == "__new__" and isinstance(owner, type):
            return instances.builtin_new(tx, args[0].as_constant(), args[1:], kwargs)
        if owner is not None and not isinstance(owner, ModuleType):
            value = self.get_attr(tx, "__self__")
            return attributes.call_builtin_method(tx, value, type(owner), self.obj.__name__, args, kwargs)
        return tx.unsupported("call", f"{name_of(self.obj)}, a function written in C")

    def _call_model_of_method(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        owner = getattr(self.obj, "__self__", None)
        model = model_of(getattr(type(owner), self.obj.__name__, None))
        if model is None:
            return tx.unsupported("call", f"{name_of(self.obj)} with a function")
        return tx.call(tx.wrap(model, None), [self.get_attr(tx, "__self__"), *args], kwargs)

    def __repr__(self) -> str:
        return f"Builtin({name_of(self.obj)})"


def run_handler(
    tx: Frame, handler: Callable[..., Value], function: Any, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call a handler; arguments that do not fit are the traced TypeError."""
    try:
        return handler(tx, *args, **kwargs)
    except TypeError:
        try:
            inspect.signature(handler).bind(tx, *args, **kwargs)
        except TypeError:
            return tx.raise_python(TypeError, f"{name_of(function)}() was called with wrong arguments")
        raise


def wrap_substituted(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A Python function that has a handler."""
    tx.guard("is", source, obj)
    return BuiltinFunctionValue(obj, source)


for _function in MODELS:
    if isinstance(_function, FunctionType):
        wraps_object(_function)(wrap_substituted)


# Of methods that are told their class; a subclass of `BuiltinFunctionType`.
_METHOD_WITH_CLASS = type(re.compile("").finditer)


@wraps(BuiltinFunctionType, MethodWrapperType, _METHOD_WITH_CLASS)
def wrap_builtin_function(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A C function of the program. A method of a C object is followed to its owner."""
    owner = getattr(obj, "__self__", None)
    if source is not None and owner is not None and not isinstance(owner, (ModuleType, type)):
        tx.guard("type_is", source, type(obj))
        tx.guard("equals", AttrSource(source, "__name__"), obj.__name__)
        return BuiltinFunctionValue(obj, source)
    tx.guard("is", source, obj)
    return BuiltinFunctionValue(obj, source)
