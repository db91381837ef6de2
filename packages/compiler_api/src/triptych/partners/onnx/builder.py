"""`Builder`: an ONNX graph under construction. Rules call it with values and constants and get values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper

OPSET = 20
IR_VERSION = 10  # of the file format; what the oldest runtime supported here reads
ONNX_TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.int16: TensorProto.INT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}


class UnsupportedError(NotImplementedError):
    """An operator, or a form of it, that has no rule."""


@dataclass(frozen=True)
class Value:
    """A tensor in the graph: its name, dtype and sizes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def dim(self, dim: int) -> int:
        """A dimension counted from the front."""
        return dim % max(self.rank, 1)


class Builder:
    """Grows one graph. `constants` are shared by value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._constants: dict[Any, Value] = {}
        self._count = 0

    def fresh(self, stem: str) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{stem}_{self._count}"

    def op(self, kind: str, *inputs: Value | None, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node of ONNX operator `kind`; gives the name of its output, or a list of them. None: input absent."""
        names = [self.fresh(kind) for _ in range(outputs)]
        given = ["" if value is None else value.name for value in inputs]
        while given and not given[-1]:  # absent at the end: left out (the runtime's optimiser crashes on empty names)
            given.pop()
        self.nodes.append(helper.make_node(kind, given, names, **attributes))
        return names[0] if outputs == 1 else names

    def make(self, kind: str, dtype: torch.dtype, shape: Sequence[int], *inputs: Value | None, **attrs: Any) -> Value:
        """Adds a node of one output with this dtype and these sizes."""
        return Value(self.op(kind, *inputs, **attrs), dtype, tuple(shape))

    def like(self, kind: str, like: Value, *inputs: Value | None, **attributes: Any) -> Value:
        """Adds a node whose output has the dtype and sizes of `like`."""
        return self.make(kind, like.dtype, like.shape, *inputs, **attributes)

    def constant(self, value: Any, dtype: torch.dtype) -> Value:
        """A constant tensor of a number, list or tensor."""
        tensor = torch.as_tensor(value, dtype=dtype)
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        key = (raw, dtype, tuple(tensor.shape))
        if key not in self._constants:
            name = self.fresh("constant")
            self.initializers.append(helper.make_tensor(name, ONNX_TYPES[dtype], list(tensor.shape), raw, raw=True))
            self._constants[key] = Value(name, dtype, tuple(tensor.shape))
        return self._constants[key]

    def ints(self, numbers: Sequence[int]) -> Value:
        """A constant list of sizes or axes."""
        return self.constant(list(numbers), torch.int64)

    def cast(self, value: Any, dtype: torch.dtype) -> Value:
        """`value` in another dtype; a number becomes a constant of it."""
        if not isinstance(value, Value):
            return self.constant(value, dtype)
        if value.dtype == dtype:
            return value
        return self.make("Cast", dtype, value.shape, value, to=ONNX_TYPES[dtype])

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` with other sizes."""
        return self.make("Reshape", value.dtype, shape, value, self.ints(shape))

    def model(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> onnx.ModelProto:
        """The finished model."""
        described = [
            [helper.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], list(v.shape)) for v in values]
            for values in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "graph", *described, initializer=self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
