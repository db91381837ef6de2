"""A Python model of the `ctx` that `torch.autograd.Function` hands to `forward` and `backward`."""

from __future__ import annotations

from typing import Any


class FunctionContext:
    """What bodies may do with `ctx`; attributes that they set are plain attributes.

    Args:
        needs_input_grad: one bool for each argument of `apply`.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        pass

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value
