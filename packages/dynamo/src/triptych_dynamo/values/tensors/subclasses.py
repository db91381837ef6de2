"""Tensor subclasses that come in as arguments or are made by their constructors.

A subclass without a `__torch_dispatch__` of its own is a tensor with other methods: the graph's input is the same
memory as a plain tensor, and what the class overrides is inlined. Its sizes are those of this call. Subclasses that
dispatch are objects that the region passes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.runtime_tensors import as_plain
from triptych_dynamo.sources import ComputedSource
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.sequences import TupleValue, is_struct_sequence
from triptych_dynamo.values.objects.instances import makes
from triptych_dynamo.values.objects.opaque import PLAIN_CLASSES, describe
from triptych_dynamo.values.registry import wraps_if
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_DISPATCH = "__torch_dispatch__"


def dispatches(cls: type) -> bool:
    """Whether a subclass takes the operators themselves."""
    return attributes.defines(cls, _DISPATCH) is not attributes.defines(torch.Tensor, _DISPATCH)


def is_traced(obj: Any) -> bool:
    """Whether an object is a tensor of a subclass that the graph holds as a plain one."""
    if not isinstance(obj, torch.Tensor) or type(obj) in PLAIN_CLASSES or dispatches(type(obj)):
        return False
    if isinstance(obj, torch.nn.parameter.UninitializedTensorMixin):
        return False
    return describe(as_plain(obj)) is None


@wraps_if(is_traced, order=18)
def wrap_subclass(tx: Frame, obj: torch.Tensor, source: Source | None) -> Value:
    """A tensor of a subclass: the object is read at `source`, the graph is given its memory."""
    if source is None:
        source = tx.trace.pin(obj)
    return tx.trace.inputs.subclass(obj, source, ComputedSource(as_plain, (source,)))


@builtin(torch.Tensor._make_subclass)
def _make_subclass(tx: Frame, cls: Value, data: Value, require_grad: Value | None = None, *rest: Value) -> Value:
    """`Tensor._make_subclass(cls, data)`: the memory of `data` without its history."""
    kind = cls.as_constant()
    if rest or not isinstance(data, TensorValue) or dispatches(kind):
        return tx.unsupported("subclass", f"making a {kind.__qualname__}")
    made = tx.call_graph("detach", [data])
    if require_grad is not None and require_grad.truth(tx):
        made = tx.call_graph("requires_grad_", [made])
    assert isinstance(made, TensorValue)
    made.cls = kind
    return made


@builtin(torch.Tensor._make_wrapper_subclass)
def _make_wrapper(tx: Frame, cls: Value, *args: Value, **kwargs: Value) -> Value:
    return tx.unsupported("subclass", f"making a {cls.as_constant().__qualname__}, which dispatches")


@makes(is_struct_sequence)
def _make_result_tuple(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A result tuple of torch, such as `torch.return_types.max`, of any items: subclasses convert what is in one."""
    return TupleValue(iterators.items_of(tx, args[0]), cls=cls)
