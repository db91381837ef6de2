"""Tensors and numbers that the program reads become inputs of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import dispatch_keys
from triptych_dynamo.guards.facts import TensorFacts
from triptych_dynamo.marks import is_pinned_by_guard
from triptych_dynamo.trace.owned_inputs import OwnedInputs
from triptych_dynamo.trace.shared_bytes import SharedBytes
from triptych_dynamo.values.containers.tensor_keys import RealKey
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value


class Inputs:
    """Lifts tensors of the program to placeholders, one per object."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._real: dict[TensorValue, torch.Tensor] = {}
        self.owned = OwnedInputs(trace)
        self.bytes = SharedBytes()
        self.references: list[Any] = []  # weak ones that the trace made

    def tensor(self, tx: Frame, obj: torch.Tensor, source: Source | None) -> Value:
        """The value of a real tensor read at `source` (None: a constant of the program, kept by the compiled code)."""
        self.bytes.meet(tx, obj)
        fake = self.trace.shapes.fake_input(obj, source)
        if source is None:
            source = self.trace.pin(obj)
        self.guard(obj, fake, source)
        node = self.trace.graph.add_input(source, fake)
        value = TensorValue(node, fake, type(obj), source)
        self.trace.graph.by_fake[id(fake)] = (fake, value)
        self._enter(value, obj)
        return value

    def shared(self, tx: Frame, obj: torch.Tensor, source: Source) -> TensorValue:
        """A tensor that the compiled code makes over memory of the program; what holds the memory is guarded."""
        self.bytes.meet(tx, obj)
        fake = self.trace.shapes.fake_input(obj, None)
        value = TensorValue(self.trace.graph.add_input(source, fake), fake, torch.Tensor, source)
        self.trace.graph.by_fake[id(fake)] = (fake, value)
        self._enter(value, obj)
        return value

    def subclass(self, obj: torch.Tensor, source: Source, plain_source: Source) -> TensorValue:
        """A tensor of a subclass, read at `source`; the graph is given what `plain_source` makes of it."""
        with torch._C.DisableTorchFunctionSubclass():
            is_leaf = obj.is_leaf
            plain = torch.Tensor._make_subclass(torch.Tensor, obj, obj.requires_grad)
        fake = self.trace.shapes.fake_input(plain, None)
        if not is_leaf:
            with torch.enable_grad():
                fake = fake.view_as(fake)
        self.guard(obj, fake, source)
        value = TensorValue(self.trace.graph.add_input(plain_source, fake), fake, type(obj), source)
        self.trace.graph.by_fake[id(fake)] = (fake, value)
        self._enter(value, obj)
        return value

    def guard(self, obj: torch.Tensor, fake: torch.Tensor, source: Source) -> None:
        """The facts of a tensor that the trace relies on."""
        sizes = tuple(size if isinstance(size, int) else None for size in fake.shape)
        strides = tuple(stride if isinstance(stride, int) else None for stride in fake.stride())
        keys = dispatch_keys(obj)  # conj and neg bits, inference tensors
        facts = TensorFacts(type(obj), obj.dtype, obj.device, obj.requires_grad, sizes, strides, keys)
        self.trace.guard("tensor", source, facts)
        if is_pinned_by_guard(obj):
            self.trace.guard("is_weak", source, obj)

    def _enter(self, value: TensorValue, obj: torch.Tensor) -> None:
        self._real[value] = obj
        value.real_key = RealKey(id(obj))

    def real_tensor(self, value: TensorValue) -> torch.Tensor:
        """The real tensor behind an input."""
        return self._real[value]

    def real_tensors(self) -> dict[Source, torch.Tensor]:
        """The real tensors by where they were read."""
        return {value.source: real for value, real in self._real.items() if value.source is not None}

    def release(self) -> None:
        """Let go of the real tensors."""
        self._real.clear()
        self.references.clear()
        self.owned.release()
