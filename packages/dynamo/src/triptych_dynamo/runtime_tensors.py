"""Functions of tensors that graphs and the code behind them call: leaves that a program made, spent gradients."""

from __future__ import annotations

from typing import Any

import torch

_SPENT = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def new_leaf(data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A leaf of differentiation that shows the memory of `data`: what `nn.Parameter(data)` is to a graph."""
    return data.detach().requires_grad_(requires_grad)


def returned_leaf(data: torch.Tensor, cls: type) -> torch.Tensor:
    """The leaf (a tensor or a parameter) that a program made, of a graph's detached result."""
    return data.requires_grad_() if cls is torch.Tensor else cls(data)  # type: ignore[no-any-return]


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The memory and history of a tensor of a subclass as a plain tensor; nothing of the subclass runs."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def as_class(data: torch.Tensor, cls: type) -> torch.Tensor:
    """A parameter without gradients, or a tensor of a subclass, of a graph's result."""
    if issubclass(cls, torch.nn.Parameter):
        return cls(data, requires_grad=False)
    return data.as_subclass(cls)


class _Spent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(_SPENT)


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None


def with_own_history(data: torch.Tensor) -> torch.Tensor:
    """A result that depends on leaves which nothing outside of the region can reach: gradients end there."""
    with torch.enable_grad():
        history = torch.empty(0, requires_grad=True)
        return _Own.apply(data, history)  # type: ignore[no-any-return, no-untyped-call]


def with_spent_history(data: torch.Tensor) -> torch.Tensor:
    """A result whose gradients the program took itself: it requires grad, and a second backward raises as in eager."""
    with torch.enable_grad():
        history = torch.empty(0, requires_grad=True)
        return _Spent.apply(data, history)  # type: ignore[no-any-return, no-untyped-call]


class HookedTensor:
    """Registers `hook(grad, *outside)` on a tensor of a graph, in the place of the program's own hook.

    Whoever differentiates the graph meets a real hook, so that order, writes in place and kept gradients are torch's.
    """

    def __init__(self, hook: Any) -> None:
        self.hook = hook
        self.__name__ = self.__qualname__ = "hooked_tensor"
        self.__module__ = __name__

    def __call__(self, data: torch.Tensor, *outside: Any) -> None:
        """Nothing where no gradient is recorded."""
        if data.requires_grad:
            data.register_hook(lambda grad: self.hook(grad, *outside))


def hook_registered(name: str, tensor: torch.Tensor, hook: Any) -> Any:
    """The handle of a hook that a program registered on a tensor from outside of the region."""
    return getattr(tensor, name)(hook)
