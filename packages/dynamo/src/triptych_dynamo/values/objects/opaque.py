"""`OpaqueValue`: objects that programs may hold and pass on, but that no graph holds: sparse and nested tensors,
subclasses.

Anything done with one is a graph break, and then happens as plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class OpaqueValue(Value):
    """A real object that the tracer does not look into; `what` names it in messages."""

    def __init__(self, obj: Any, what: str, source: Source | None) -> None:
        super().__init__(source)
        self.obj = obj
        self.what = what

    def python_type(self) -> type:
        return type(self.obj)

    def as_graph_arg(self, tx: Frame) -> Any:
        return tx.unsupported("subclass", self.what)

    def truth(self, tx: Frame) -> bool:
        return tx.unsupported("truth", f"truth of {self.what}")

    def key(self, tx: Frame) -> Any:
        return id(self.obj)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__class__":
            return tx.constant(type(self.obj))
        return tx.unsupported("subclass", f"attribute {name!r} of {self.what}")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.unsupported("subclass", f"{name} of {self.what}")

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        tx.unsupported("subclass", f"setting {name!r} of {self.what}")

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


def describe(obj: torch.Tensor) -> str | None:
    """Why a tensor cannot be an input of a graph, or None when it can."""
    if type(obj) not in PLAIN_CLASSES:
        return f"a {type(obj).__qualname__}, a tensor subclass"
    if obj.is_nested:
        return "a nested tensor"
    if obj.layout is not torch.strided:
        return f"a tensor of layout {obj.layout}"
    if obj.is_quantized:
        return "a quantized tensor"
    if torch._C._functorch.is_functorch_wrapped_tensor(obj):
        return "a tensor of a function transform that runs around the compiled region"
    return None


def has_kind(obj: Any, kind: str | None) -> bool:
    """Whether `describe` says `kind` of the object."""
    return isinstance(obj, torch.Tensor) and describe(obj) == kind


def wrap_opaque_tensor(tx: Frame, obj: torch.Tensor, source: Source | None) -> Value:
    """A tensor that no graph holds."""
    what = describe(obj)
    tx.guard("type_is", source, type(obj))
    if source is not None and type(obj) in PLAIN_CLASSES:
        tx.guard("python", source, PythonFact(lambda found: has_kind(found, what), f"{source} is {what}"))
    return OpaqueValue(obj, what or "a tensor", source)


wraps_if(lambda obj: isinstance(obj, torch.Tensor), order=20)(wrap_opaque_tensor)
