"""`torch.func` and `torch.vmap` under capture."""

from __future__ import annotations

import pytest
import torch
import triptych_dynamo
from harness import check
from torch import nn

X = torch.arange(6.0).reshape(2, 3)
LIN = nn.Linear(3, 3)
func = torch.func


def vmap(x):
    return torch.vmap(lambda v: v * 2 + v.sum())(x), torch.vmap(torch.dot)(x, x)


def vmap_dimensions(x):
    return torch.vmap(lambda a, b: a + b, in_dims=(0, None), out_dims=1)(x, x[0]), torch.vmap(torch.sin, in_dims=-1)(x)


def vmap_nested(x):
    return torch.vmap(torch.vmap(lambda a: a.sin() if a.ndim == 0 else a))(x)


def vmap_with_structure(x):
    return torch.vmap(lambda d: {"s": d["a"] + d["b"], "t": (d["a"],)})({"a": x, "b": x + 1})


def vmap_chunked(x):
    return torch.vmap(lambda v: v**2, chunk_size=1)(x)


def grad(x):
    return func.grad(lambda v: (v**2).sum())(x), func.grad_and_value(lambda v: (v**3).sum())(x)


def grad_of_grad(x):
    return func.grad(lambda v: func.grad(lambda u: (u**3).sum())(v).sum())(x)


def grad_with_aux(x):
    return func.grad(lambda v, w: ((v * w).sum(), v + 1), argnums=(0, 1), has_aux=True)(x, x + 1)


def vjp(x):
    out, pull = func.vjp(lambda v: v.sin(), x)
    return out, pull(torch.ones(2, 3))


def jvp(x):
    return func.jvp(lambda v: v.sin(), (x,), (torch.ones(2, 3),))


def jacobians(x):
    return (
        func.jacrev(lambda v: v**2)(x[0]),
        func.jacfwd(lambda v: v**2)(x[0]),
        func.hessian(lambda v: (v**3).sum())(x[0]),
    )


def per_sample_gradients(x):
    return torch.vmap(func.grad(lambda v: (v**2).sum()))(x)


def transform_of_module(x):
    return func.grad(lambda v: LIN(v).sum())(x), torch.vmap(LIN)(x)


def functional_call(x, module, weights):
    return func.functional_call(module, weights, (x,)), module(x)


CONSTRUCTS = [
    vmap,
    vmap_dimensions,
    vmap_nested,
    vmap_with_structure,
    vmap_chunked,
    grad,
    grad_of_grad,
    grad_with_aux,
    vjp,
    jvp,
    jacobians,
    per_sample_gradients,
    transform_of_module,
]


@pytest.mark.parametrize("fn", CONSTRUCTS, ids=lambda fn: fn.__name__)
def test_construct(fn):
    check(fn, X)


def test_functional_call():
    check(functional_call, X, nn.Linear(3, 3), {"weight": torch.ones(3, 3), "bias": torch.zeros(3)})


def test_level_is_left_after_an_error():
    def fails(x):
        return torch.vmap(lambda v: v @ torch.ones(7))(x)

    with pytest.raises(RuntimeError, match="size|dimension|shape"):
        triptych_dynamo.optimize("eager")(fails)(X)
    assert torch._C._functorch.maybe_current_level() is None
