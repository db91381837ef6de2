"""Differentiation inside a program."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from table import construct
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils.checkpoint import checkpoint

X = torch.arange(6.0).reshape(2, 3)
W = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


# -- torch.autograd.grad -----------------------------------------------------------------------------------------------
@construct(X)
def gradient_of_a_local(x):
    w = torch.ones(3, requires_grad=True)
    (found,) = torch.autograd.grad((x * w).sin().sum(), w)
    return found


@construct(W)
def gradient_of_an_argument(w):
    (found,) = torch.autograd.grad((w.sin() * w).sum(), [w])
    return found * 2


@construct(W)
def gradient_of_a_gradient(w):
    (first,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), w)
    return first.detach(), second


@construct(W)
def gradient_penalty(w):
    x = torch.ones_like(w).requires_grad_()
    (found,) = torch.autograd.grad((w * x**2).sum(), x, create_graph=True)
    return ((found.norm(dim=1) - 1) ** 2).mean()


@construct(W)
def gradient_with_seeds_and_unused(w):
    other = torch.ones(2, requires_grad=True)
    found = torch.autograd.grad(w * 2, [w, other], grad_outputs=torch.ones_like(w) * 3, allow_unused=True)
    return found


@construct(net(), X)
def gradient_of_parameters(module, x):
    found = torch.autograd.grad(module(x).square().mean(), list(module.parameters()))
    return found


@construct(W, raises=True)
def gradient_of_unused(w):
    return torch.autograd.grad((w.detach() * torch.ones(3, requires_grad=True)).sum(), w)


# -- backward ----------------------------------------------------------------------------------------------------------
@construct(W)
def backward_to_an_argument(w):
    loss = (w.sin() * w).sum()
    loss.backward()
    return loss.detach()


@construct(W)
def backward_twice_accumulates(w):
    (w * 2).sum().backward()
    (w * w).sum().backward()
    return w.grad.clone()


@construct(net(), X)
def training_step(module, x):
    loss = F.mse_loss(module(x), torch.zeros(2, 2))
    loss.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    return loss.detach()


@construct(net(), X)
def training_step_that_keeps_gradients(module, x):
    module.zero_grad()
    module(x).sum().backward()
    return [parameter.grad for parameter in module.parameters()]


@construct(X)
def backward_of_a_local_leaf(x):
    w = torch.full((3,), 2.0, requires_grad=True)
    (x * w**2).sum().backward()
    return w.grad, w.detach()


@construct(W)
def backward_with_seed_and_inputs(w):
    v = torch.ones(3, requires_grad=True)
    (w * v).backward(torch.ones(2, 3), inputs=[w])
    return v.grad is None


@construct(W)
def backward_of_several(w):
    torch.autograd.backward([(w * 2).sum(), (w * 3).sum()])
    return w.detach()


@construct(W)
def retained_gradient(w):
    middle = w * 2
    middle.retain_grad()
    (middle**2).sum().backward()
    return middle.grad


@construct(W)
def optimizer_inside(w):
    v = w.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([v], lr=0.5)
    (v**2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return v.detach(), v.grad is None


# -- hooks -------------------------------------------------------------------------------------------------------------
@construct(W)
def tensor_hook_inside(w):
    middle = w * 2
    middle.register_hook(lambda g: g * 10)
    return (middle**2).sum()


@construct(W)
def tensor_hook_and_backward_inside(w):
    middle = w * 2
    middle.register_hook(lambda g: g + middle.detach())
    (middle**2).sum().backward(retain_graph=True)
    return middle.detach()


@construct(W)
def tensor_hook_removed(w):
    middle = w * 2
    handle = middle.register_hook(lambda g: g * 100)
    handle.remove()
    return (middle**2).sum()


@construct(W)
def tensor_hook_after_a_use(w):
    middle = w * 2
    square = middle**2
    middle.register_hook(lambda g: g.clamp(max=1.0))
    return square.sum()


@construct(W, [], breaks="higher-order")
def tensor_hook_with_side_effects(w, seen):
    middle = w * 2
    middle.register_hook(lambda g: seen.append(g.sum()))
    return (middle**2).sum()


@construct(W, breaks="backward")
def saved_tensor_hooks(w):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = (w.sin() * w).sum()
    return y


@construct(W)
def saved_tensor_hooks_disabled(w):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        return (w * w).sum()


# -- checkpoint --------------------------------------------------------------------------------------------------------
@construct(W)
def checkpoint_without_reentry(w):
    return checkpoint(lambda v: (v.sin() * v).cos(), w, use_reentrant=False).sum()


@construct(W)
def checkpoint_with_reentry(w):
    return checkpoint(lambda v: (v.sin() * v).cos(), w, use_reentrant=True).sum()


@construct(net(), X)
def checkpoint_of_a_module(module, x):
    return checkpoint(module, x, use_reentrant=False).sum()


# -- autograd.Function -------------------------------------------------------------------------------------------------
FACTOR = 3.0


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k * FACTOR

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.k * FACTOR + x * 0, None


@construct(W)
def autograd_function(w):
    return Scale.apply(w, 2.0).sum()


@construct(X)
def autograd_function_without_gradients(x):
    return Scale.apply(x, 2.0)


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        ctx.set_materialize_grads(False)
        return x * 2, index

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


@construct(W)
def autograd_function_with_two_outputs(w):
    y, index = TwoOutputs.apply(w)
    return y.sum(), index


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@construct(W)
def autograd_function_in_place(w):
    v = w * 1
    return InPlace.apply(v).sum()


class Separate(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, (g * x if ctx.needs_input_grad[1] else None)


@construct(W)
def autograd_function_with_setup_context(w):
    return Separate.apply(w, w.detach() + 1).sum()


@construct(W)
def autograd_function_of_structures(w):
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, items, factor):
            return items * factor

        @staticmethod
        def backward(ctx, g):
            return g * 5, None

    return Local.apply(w, 2).sum()


@construct(W)
def autograd_function_twice_differentiable(w):
    (first,) = torch.autograd.grad(Separate.apply(w, w).sum(), w, create_graph=True)
    return first.sum()


# -- modes -------------------------------------------------------------------------------------------------------------
@construct(W)
def modes_of_gradients(w):
    with torch.no_grad():
        a = w * 2
    with torch.enable_grad():
        b = w * 3
    with torch.set_grad_enabled(False):
        c = w * 4
    return a.requires_grad, b.requires_grad, c.requires_grad, a, b, c


@construct(W)
def decorated_with_no_grad(w):
    @torch.no_grad()
    def inner(v):
        return v * 2

    return inner(w), inner(w).requires_grad


@construct(W)
def detached_and_requires_grad(w):
    v = w.detach().requires_grad_()
    return (v * 2).sum(), v.is_leaf, v.requires_grad


@construct(W)
def leaf_facts(w):
    return w.is_leaf, (w * 2).is_leaf, w.grad is None, w.requires_grad, (w * 2).grad_fn is not None


# -- torch.func --------------------------------------------------------------------------------------------------------
@construct(X)
def transforms(x):
    def fn(v):
        return (v.sin() * v).sum()

    return grad(fn)(x), grad_and_value(fn)(x)[1], vmap(grad(fn))(x), jacrev(torch.sin)(x[0]), jacfwd(torch.sin)(x[0])


@construct(X)
def vector_products(x):
    out, pull = vjp(torch.sin, x)
    primal, tangent = jvp(torch.sin, (x,), (torch.ones_like(x),))
    return out, pull(torch.ones_like(x))[0], primal, tangent


@construct(X)
def second_derivatives(x):
    return hessian(lambda v: (v**3).sum())(x[0]), vmap(hessian(lambda v: (v**3).sum()))(x)


@construct(X)
def linearized(x):
    out, push = linearize(torch.sin, x)
    return out, push(torch.ones_like(x))


@construct(net(), X)
def functional_calls(module, x):
    parameters = {name: value.detach() * 2 for name, value in module.named_parameters()}
    return functional_call(module, parameters, (x,))


@construct(net(), X)
def gradients_per_sample(module, x):
    parameters = {name: value.detach() for name, value in module.named_parameters()}

    def loss(params, sample):
        return functional_call(module, params, (sample[None],)).square().sum()

    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)


@construct(X)
def batched_with_dimensions(x):
    return vmap(torch.dot, in_dims=(1, 1))(x, x), vmap(lambda a, b: a + b, in_dims=(0, None), out_dims=1)(x, x[0])


# -- views whose history autograd does not tell ------------------------------------------------------------------------
class Kept:
    value = None


@construct(X, W[0].detach().requires_grad_())
def a_view_held_while_its_base_is_written(x, w):
    kept, base = Kept(), x.clone()
    with torch.no_grad():
        kept.value = base[1]
    base += w
    return base * 2, kept.value.detach()
