"""`property`, `staticmethod` and `classmethod` objects that the trace makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import is_constant_equal, none
from triptych_dynamo.values.objects.classes import constructs

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class WrappedFunctionValue(Value):
    """`staticmethod(function)` or `classmethod(function)`."""

    def __init__(self, cls: Any, function: Value) -> None:
        super().__init__()
        self.cls, self.function = cls, function

    def python_type(self) -> type:
        return self.cls  # type: ignore[no-any-return]

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in ("__func__", "__wrapped__"):
            return self.function
        return super().get_attr(tx, name) if name == "__class__" else self.function.get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        self.function.set_attr(tx, name, value)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.cls is staticmethod:
            return tx.call(self.function, args, kwargs)
        return tx.raise_python(TypeError, "'classmethod' object is not callable")

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.cls)
        cg.load(self.function)
        cg.call(1)


class PropertyValue(Value):
    """`property(fget, fset, fdel, doc)`."""

    names = ("fget", "fset", "fdel", "doc")
    setters = {"getter": "fget", "setter": "fset", "deleter": "fdel"}

    def __init__(self, parts: dict[str, Value]) -> None:
        super().__init__()
        self.parts = parts

    def python_type(self) -> type:
        return property

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in self.setters:
            return BuiltinMethodValue(self, name)
        if name in self.names:
            return self.parts.get(name) or none(tx)
        if name == "__isabstractmethod__":
            found = self.parts["fget"].get_attr(tx, name) if self.parts["fget"].has_attr(tx, name) else None
            return tx.constant(False) if found is None else found
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in self.setters:
            return PropertyValue({**self.parts, self.setters[name]: args[0]})
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(property)
        for value in self.parts.values():
            cg.load(value)
        cg.call(len(self.parts), tuple(self.parts))


@constructs(staticmethod)
def _static_method(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return WrappedFunctionValue(staticmethod, args[0])


@constructs(classmethod)
def _class_method(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return WrappedFunctionValue(classmethod, args[0])


@constructs(property)
def _property(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    parts = {**dict(zip(PropertyValue.names, args, strict=False)), **kwargs}
    return PropertyValue({name: part for name, part in parts.items() if not is_constant_equal(part, None)})
