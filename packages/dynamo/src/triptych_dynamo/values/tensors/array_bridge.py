"""Tensors as arrays and back for `wrap_numpy`: in a trace an array is its tensor, history of gradients included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from triptych_dynamo.runtime_arrays import array_as_tensor, tensor_as_array
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin, wrap_substituted
from triptych_dynamo.values.registry import wraps_object
from triptych_dynamo.values.tensors.arrays import ArrayValue
from triptych_dynamo.values.tensors.tensor import TensorValue
from triptych_dynamo.values.tensors.torch_functions import TorchFunctionValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


@builtin(tensor_as_array)
def _as_array(tx: Frame, value: Value) -> Value:
    """An array that is the tensor itself."""
    if not isinstance(value, TensorValue):
        return value
    fake = value.fake
    if fake.device.type != "cpu" or fake.is_conj() or fake.dtype in (torch.bfloat16, torch.float16):
        return tx.unsupported("numpy", f"a {fake.dtype} tensor on {fake.device} as an array")
    return ArrayValue(value)


@builtin(array_as_tensor)
def _as_tensor(tx: Frame, value: Value) -> Value:
    """The tensor of an array; numbers of numpy become tensors."""
    if isinstance(value, ArrayValue):
        return value.tensor
    if value.python_type().__module__ == "numpy":
        return TorchFunctionValue(torch.as_tensor).call(tx, [value], {})
    return value


for _function in (tensor_as_array, array_as_tensor):
    wraps_object(_function)(wrap_substituted)
