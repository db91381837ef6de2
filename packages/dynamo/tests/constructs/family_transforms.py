"""`torch.func` and `torch.vmap` under capture."""

from __future__ import annotations

import torch
from table import construct
from torch import nn

X = torch.arange(6.0).reshape(2, 3)
LIN = nn.Linear(3, 3)
func = torch.func


@construct(X)
def vmap(x):
    return torch.vmap(lambda v: v * 2 + v.sum())(x), torch.vmap(torch.dot)(x, x)


@construct(X)
def vmap_dimensions(x):
    return torch.vmap(lambda a, b: a + b, in_dims=(0, None), out_dims=1)(x, x[0]), torch.vmap(torch.sin, in_dims=-1)(x)


@construct(X)
def vmap_nested(x):
    return torch.vmap(torch.vmap(lambda a: a.sin() if a.ndim == 0 else a))(x)


@construct(X)
def vmap_with_structure(x):
    return torch.vmap(lambda d: {"s": d["a"] + d["b"], "t": (d["a"],)})({"a": x, "b": x + 1})


@construct(X)
def vmap_chunked(x):
    return torch.vmap(lambda v: v**2, chunk_size=1)(x)


@construct(X)
def grad(x):
    return func.grad(lambda v: (v**2).sum())(x), func.grad_and_value(lambda v: (v**3).sum())(x)


@construct(X)
def grad_of_grad(x):
    return func.grad(lambda v: func.grad(lambda u: (u**3).sum())(v).sum())(x)


@construct(X)
def grad_with_aux(x):
    return func.grad(lambda v, w: ((v * w).sum(), v + 1), argnums=(0, 1), has_aux=True)(x, x + 1)


@construct(X)
def vjp(x):
    out, pull = func.vjp(lambda v: v.sin(), x)
    return out, pull(torch.ones(2, 3))


@construct(X)
def jvp(x):
    return func.jvp(lambda v: v.sin(), (x,), (torch.ones(2, 3),))


@construct(X)
def jacobians(x):
    return (
        func.jacrev(lambda v: v**2)(x[0]),
        func.jacfwd(lambda v: v**2)(x[0]),
        func.hessian(lambda v: (v**3).sum())(x[0]),
    )


@construct(X)
def per_sample_gradients(x):
    return torch.vmap(func.grad(lambda v: (v**2).sum()))(x)


@construct(X)
def transform_of_module(x):
    return func.grad(lambda v: LIN(v).sum())(x), torch.vmap(LIN)(x)


@construct(X, nn.Linear(3, 3), {"weight": torch.ones(3, 3), "bias": torch.zeros(3)})
def functional_call(x, module, weights):
    return func.functional_call(module, weights, (x,)), module(x)


@construct(X)
def linearize(x):
    out, along = func.linearize(lambda y, d: (y.sin() * 2, {"s": (y * d["k"]).sum()}), x, {"k": x + 1})
    _, plain = func.linearize(torch.sin, x)
    texts = []
    for tangents in ((torch.ones(3),), (x, x), (x.double(),)):
        try:
            plain(*tangents)
        except RuntimeError as error:
            texts.append(str(error))
    return out, along(torch.ones_like(x), {"k": x}), along(x, {"k": x}), texts


@construct(X, [], breaks="higher-order")
def linearize_with_side_effects(x, seen):
    def counted(y):
        seen.append(1)
        return y.sin()

    out, along = func.linearize(counted, x)
    return out, along(x), seen


@construct(X)
def functionalize(x):
    def changes(y):
        z = y.clone()
        z.add_(1)
        y.mul_(2)
        return z.view(-1)

    first, second = func.functionalize(changes)(x), func.functionalize(changes, remove="mutations_and_views")(x)
    return first, second, x, torch.vmap(func.functionalize(lambda y: y.clone().add_(1)))(x)
