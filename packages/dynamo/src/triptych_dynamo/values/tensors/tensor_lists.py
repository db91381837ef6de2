"""Functions over lists of tensors that torch gives numbers which a tensor holds: fake tensors hold none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.polyfills import tensor_lists as models
from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.registry import wraps_object
from triptych_dynamo.values.tensors.tensor import TensorValue
from triptych_dynamo.values.tensors.torch_functions import TorchFunctionValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_MODELS = {
    torch._foreach_addcdiv: models.addcdiv,
    torch._foreach_addcdiv_: models.addcdiv_,
    torch._foreach_addcmul: models.addcmul,
    torch._foreach_addcmul_: models.addcmul_,
}


class ScaledListsValue(TorchFunctionValue):
    """`function(self, tensor1, tensor2, scalars)`: by its model where tensors on the CPU hold the scalars."""

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        scalars = args[3] if len(args) == 4 else kwargs.get("scalars")
        if _are_held(tx, scalars) and _are_floating(args[:3]):
            return tx.call(tx.wrap(_MODELS[self.obj], None), args, kwargs)
        return super().call(tx, args, kwargs)


def _are_held(tx: Frame, scalars: Value | None) -> bool:
    """Whether the scalars are a tensor on the CPU.

    Of a list of tensors torch makes numbers only while it compiles; its optimisers hand such lists over then.
    """
    if isinstance(scalars, TensorValue):
        return scalars.fake.device.type == "cpu"
    items = scalars.items if isinstance(scalars, SequenceValue) else ()
    known = str(tx.scope.namespace.get("__name__")).startswith("torch.optim.")
    return known and bool(items) and all(isinstance(item, TensorValue) and item.fake.dim() == 0 for item in items)


def _are_floating(lists: list[Value]) -> bool:
    """Whether all that is computed with is plain tensors of real numbers, whose dtype no factor changes."""
    items = [item for tensors in lists if isinstance(tensors, SequenceValue) for item in tensors.items]
    return len(lists) == 3 and all(isinstance(item, TensorValue) and item.fake.is_floating_point() for item in items)


@wraps_object(*_MODELS)
def wrap_scaled_lists(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A function of `_MODELS`."""
    tx.guard("is", source, obj)
    return ScaledListsValue(obj, source)
