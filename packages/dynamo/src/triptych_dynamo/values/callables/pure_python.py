"""Pure Python functions as values: run whole on constants, traced into for other arguments."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import TYPE_CHECKING

from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.builtin_functions import BuiltinFunctionValue, constant_or_special
from triptych_dynamo.values.callables.functions import MethodValue, wrap_function
from triptych_dynamo.values.callables.pure import PURE_PYTHON, calls_argument, keeps_buffer
from triptych_dynamo.values.common import fold
from triptych_dynamo.values.objects.classes import StaticObjectValue
from triptych_dynamo.values.registry import wraps_object

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class PurePythonValue(BuiltinFunctionValue):
    """A pure function with a Python body."""

    def __init__(self, function: FunctionType, body: Value, source: Source | None = None) -> None:
        super().__init__(function, source)
        self.body = body

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.obj.__module__ == "inspect":
            args = [described(tx, arg) for arg in args]
        if calls_argument(self.obj, [*args, *kwargs.values()]):
            return tx.call(self.body, args, kwargs)
        try:
            plain = [constant_or_special(tx, arg) for arg in args]
            named = {key: constant_or_special(tx, arg) for key, arg in kwargs.items()}
        except NotConstant:
            return tx.call(self.body, args, kwargs)
        if keeps_buffer(self.obj, args):
            return tx.unsupported("call", f"{self.obj.__name__} of bytes that can change")
        return fold(tx, self.obj, plain, named)


def described(tx: Frame, value: Value) -> Value:
    """A bound method as `inspect` may see it: its function, bound to a stand-in of the owner."""
    if not isinstance(value, MethodValue) or not value.function.is_constant():
        return value
    return StaticObjectValue(MethodType(value.function.as_constant(), object()))


@wraps_object(*PURE_PYTHON)
def wrap_pure_python(tx: Frame, obj: FunctionType, source: Source | None) -> Value:
    """A pure function of the standard library."""
    tx.guard("is", source, obj)
    body = wrap_function(tx, obj, None)
    value = PurePythonValue(obj, body, source)
    tx.trace.remember(obj, value)
    return value
