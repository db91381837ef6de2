"""Functions of tensors that graphs and the code behind them call at run time: leaves made by a program, spent gradients."""

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


def as_class(data: torch.Tensor, cls: type) -> torch.Tensor:
    """A parameter without gradients, of a graph's result."""
    return cls(data, requires_grad=False)  # type: ignore[call-arg]


class _Spent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(_SPENT)


def with_spent_history(data: torch.Tensor) -> torch.Tensor:
    """A result whose gradients the program took itself: it requires grad, and a second backward raises as in eager."""
    with torch.enable_grad():
        history = torch.empty(0, requires_grad=True)
        return _Spent.apply(data, history)  # type: ignore[no-any-return, no-untyped-call]
