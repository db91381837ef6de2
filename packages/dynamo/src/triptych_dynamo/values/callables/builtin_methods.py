"""Methods of builtin types as objects: `items.append` (bound) and `list.append` (the descriptor in the class).

In: a call. Out: the owner's `call_method`.
"""

from __future__ import annotations

from types import (
    BuiltinMethodType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import MODELS
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import type_name
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


class BuiltinMethodValue(Value):
    """A method of a builtin type bound to its owner."""

    def __init__(self, owner: Value, name: str) -> None:
        super().__init__()
        self.owner, self.name = owner, name

    def python_type(self) -> type:
        return MethodWrapperType if self.name.startswith("__") else BuiltinMethodType

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name in ("__name__", "__qualname__"):
            return tx.constant(self.name if name == "__name__" else f"{type_name(self.owner)}.{self.name}")
        return super().get_attr(tx, name)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


class MethodDescriptorValue(RealObjectValue):
    """`list.append`, `object.__init__`, `dict.__setitem__`: a C method of a class, called with its owner first."""

    def get_attr(self, tx: Frame, name: str) -> Value:
        if not hasattr(self.obj, name):
            return tx.raise_python(AttributeError, f"'{type(self.obj).__name__}' object has no attribute '{name}'")
        return tx.constant(getattr(self.obj, name))

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        cls, name = self.obj.__objclass__, self.obj.__name__
        if not args:
            return tx.raise_python(TypeError, f"unbound method {cls.__name__}.{name}() needs an argument")
        owner, rest = args[0], args[1:]
        if not issubclass(owner.python_type(), cls):
            return tx.raise_python(
                TypeError,
                f"descriptor '{name}' for '{cls.__name__}' objects doesn't apply to a '{type_name(owner)}' object",
            )
        model = MODELS.get(self.obj)
        if model is not None:
            return tx.call(tx.wrap(model, None), args, kwargs)
        return attributes.call_builtin_method(tx, owner, cls, name, rest, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


@wraps(MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)
def wrap_method_descriptor(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A C method read from a class."""
    tx.guard("is", source, obj)
    return MethodDescriptorValue(obj, source)
