"""Python models of pieces of `torch.func` that are written around other machinery of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch


def wraps_plainly(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`functools.wraps(function)`."""

    def decorate(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        return functools.update_wrapper(wrapper, function)

    return decorate


def autograd_grad(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor] | None = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """Gradients of what requires any; zeros for inputs that nothing depends on."""
    kept = [index for index, output in enumerate(outputs) if output.requires_grad]
    if not kept:
        return tuple([torch.zeros_like(item) for item in inputs])
    seeds = None if grad_outputs is None else [grad_outputs[index] for index in kept]
    found = torch.autograd.grad(
        [outputs[index] for index in kept],
        list(inputs),
        seeds,
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return tuple([torch.zeros_like(item) if grad is None else grad for grad, item in zip(found, inputs, strict=True)])
