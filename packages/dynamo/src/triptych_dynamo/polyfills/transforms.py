"""Python models of pieces of `torch.func` that are written around other machinery of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten


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


_FACTS = ("shape", "device", "dtype")


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`torch.func.linearize`, whose linear function is the derivative in the direction of its arguments."""
    output = func(*primals)
    flat, structure = tree_flatten(primals)
    facts = [tuple([getattr(item, name) for name in _FACTS]) for item in flat]

    def jvp_fn(*tangents: Any) -> Any:
        given, found = tree_flatten(tangents)
        if found != structure:
            raise RuntimeError(f"Expected the tangents {found} to have the same argspec as the primals {structure}")
        for index, (tangent, wanted) in enumerate(zip(given, facts, strict=True)):
            for name, value in zip(_FACTS, wanted, strict=True):
                if getattr(tangent, name) != value:
                    raise RuntimeError(
                        f"tangent:{index} with {name} {getattr(tangent, name)} in flattened pytree doesn't match "
                        f"the {name} {value} of the corresponding primal."
                    )
        return torch.func.jvp(func, primals, tangents)[1]

    return output, jvp_fn


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`torch.func.functionalize`: the same numbers, and the same changes of arguments."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}.")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
