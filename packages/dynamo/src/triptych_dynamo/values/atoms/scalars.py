"""Numbers that the program reads out of tensors: `item()`, `int(t)`, `float(t)`, `bool(t)`, `tolist()`, `t` as index.

They stay in the graph, as symbolic numbers that only the run knows; a branch on one is a graph break.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import to_integer
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.tensors.tensor import TensorValue

Method = Callable[["TensorValue", "Frame", list[Value], dict[str, Value]], "Value | None"]

MAX_LIST = 64  # numbers that one `tolist()` may give: each is a node of the graph


def item(tensor: TensorValue, tx: Frame) -> Value:
    """`tensor.item()`."""
    count = tensor.fake.numel()
    if isinstance(count, int) and count != 1:
        return tx.raise_python(RuntimeError, f"a Tensor with {count} elements cannot be converted to Scalar")
    if tensor.fake.is_complex():
        return tx.unsupported("data-dependent", "the number in a complex tensor")
    return tx.call_graph("item", [tensor])


def as_integer(tensor: TensorValue, tx: Frame) -> Value:
    """`int(tensor)`."""
    if tensor.fake.dtype is torch.bool:
        tensor = tx.call_graph("to", [tensor, ConstantValue(torch.int64)])  # type: ignore[assignment]
    number = item(tensor, tx)
    return integer_of(tx, number, "int") if number.python_type() is float else number


def integer_of(tx: Frame, number: Value, how: str) -> Value:
    """A float as an integer. `how`: `int`, `floor`, `ceil` or `trunc`.

    One that only the run knows is a new symbol: sizes cannot be expressions of floats.
    """
    if isinstance(number, SymbolicValue):
        return tx.call_graph(to_integer, [number, how])
    try:
        return tx.constant(int(number.as_constant()))
    except (ValueError, OverflowError) as error:
        return tx.raise_python(type(error), *error.args)


def as_float(tensor: TensorValue, tx: Frame) -> Value:
    """`float(tensor)`."""
    if not tensor.fake.is_floating_point() and not tensor.fake.is_complex():
        tensor = tx.call_graph("to", [tensor, ConstantValue(torch.float64)])  # type: ignore[assignment]
    return item(tensor, tx)


def as_index(tensor: TensorValue, tx: Frame) -> Value:
    """`operator.index(tensor)`."""
    if tensor.fake.is_floating_point() or tensor.fake.is_complex():
        return tx.raise_python(TypeError, "only integer tensors of a single element can be converted to an index")
    return as_integer(tensor, tx)


def as_bool(tensor: TensorValue, tx: Frame) -> Value:
    """`bool(tensor)`."""
    if tensor.fake.dtype is not torch.bool:
        tensor = tx.call_graph("ne", [tensor, ConstantValue(0)])  # type: ignore[assignment]
    count = tensor.fake.numel()
    if isinstance(count, int) and count > 1:
        text = "Boolean value of Tensor with more than one value is ambiguous"
        return tx.raise_python(RuntimeError, text)
    if count != 1:
        return tx.unsupported("truth", "truth of an empty tensor")
    return tx.call_graph("item", [tensor])


def tolist(tensor: TensorValue, tx: Frame) -> Value:
    """`tensor.tolist()`: nested lists of numbers."""
    sizes = tuple(size if isinstance(size, int) else tx.trace.shapes.specialize(tx, size) for size in tensor.fake.shape)
    if math.prod(sizes) > MAX_LIST or tensor.fake.is_complex():
        return tx.unsupported("data-dependent", f"tolist() of a tensor of size {sizes}")
    if not sizes:
        return item(tensor, tx)
    if 0 in sizes[1:] or sizes[0] == 0:
        return _nest(tx, torch.empty(sizes).tolist())
    rows = tx.call_graph("unbind", [tensor, 0])
    return tx.trace.make_sequence(list, [tolist(row, tx) for row in rows.iterate(tx)])  # type: ignore[arg-type]


def _nest(tx: Frame, rows: list[Any]) -> Value:
    return tx.trace.make_sequence(list, [_nest(tx, row) for row in rows])


def _method(read: Callable[..., Value]) -> Method:
    def method(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        return None if args or kwargs else read(tensor, tx)

    return method


METHODS: dict[str, Method] = {
    "item": _method(item),
    "tolist": _method(tolist),
    "__int__": _method(as_integer),
    "__float__": _method(as_float),
    "__index__": _method(as_index),
    "__bool__": _method(as_bool),
}
