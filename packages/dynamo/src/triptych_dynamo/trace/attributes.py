"""Attributes that programs put on tensor objects (`t.tag = 1`): read with guards, written as effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.sources import InstanceDictSource, ItemSource

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value
    from triptych_dynamo.values.tensors.tensor import TensorValue


class TensorAttributes:
    """The instance dictionaries of tensors in one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._written: dict[TensorValue, dict[str, Value]] = {}

    def load(self, tx: Frame, tensor: TensorValue, name: str) -> Value:
        """Attribute `name` of the tensor object, or the traced AttributeError."""
        written = self._written.get(tensor, {})
        if name in written:
            return written[name]
        if tensor.source is not None and not name.startswith("__"):
            real = self.trace.inputs.real_tensor(tensor)
            namespace = real.__dict__
            source = InstanceDictSource(tensor.source)
            if name in namespace:
                return tx.wrap(namespace[name], ItemSource(source, name))
            tx.guard("dict_lacks", source, name)
        tx.raise_python(AttributeError, f"'{tensor.cls.__name__}' object has no attribute '{name}'")

    def written(self, tensor: TensorValue, name: str) -> Value | None:
        """What the traced program set attribute `name` to, if it did."""
        return self._written.get(tensor, {}).get(name)

    def store(self, tx: Frame, tensor: TensorValue, name: str, value: Value) -> None:
        """Set an attribute: an effect on the tensor that the program holds afterwards."""
        self._written.setdefault(tensor, {})[name] = value
        tx.effects.mutated(self)

    def replay(self, cg: Writer) -> None:
        """Set the attributes on the real tensors."""
        for tensor, attributes in self._written.items():
            for name, value in attributes.items():
                cg.load(value)
                cg.load(tensor)
                cg.store_attr(name)
