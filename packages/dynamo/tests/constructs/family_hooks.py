"""Hooks of tensors, of modules and of their registration."""

from __future__ import annotations

import torch
import torch.nn.modules.module as modules
from table import construct
from torch import nn

W = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()


def hooked(**kinds):
    """A network whose activation carries hooks; they note what they see in the module's `seen`."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net.seen = []
    for kind, hook in kinds.items():
        getattr(net[1], f"register_{kind}")(Noting(net.seen, hook))
    return net


class Noting:
    """A hook that can be copied together with the list that it writes to."""

    def __init__(self, seen, hook):
        self.seen, self.hook = seen, hook

    def __call__(self, *args):
        self.seen.append([a.detach().clone() for item in args[1:] for a in (item if type(item) is tuple else (item,))])
        return self.hook(*args)


# -- of tensors --------------------------------------------------------------------------------------------------------
@construct(W)
def two_hooks_run_in_the_order_of_their_registration(w):
    middle = w * 2
    middle.register_hook(lambda g: g * 2)
    middle.register_hook(lambda g: g + 1)
    return (middle**2).sum()


@construct(W)
def hook_between_writes(w):
    middle = w * 2
    before = middle * 5
    middle.register_hook(lambda g: g * 2)
    middle.mul_(3)
    middle.register_hook(lambda g: g + 1)
    return (middle**2).sum() + before.sum()


@construct(W)
def one_of_two_hooks_removed(w):
    middle = w * 2
    first = middle.register_hook(lambda g: g * 2)
    middle.register_hook(lambda g: g + 1)
    first.remove()
    return (middle**2).sum()


@construct(W)
def hook_that_gives_nothing(w):
    middle = w * 2
    middle.register_hook(lambda g: None)
    return (middle**2).sum()


@construct(W, [])
def hook_on_an_argument(w, seen):
    w.register_hook(lambda g: seen.append(g.sum().item()) or g * 3)
    return (w * 2).sum()


@construct(W, [])
def hook_on_an_argument_is_kept(w, seen):
    handle = w.register_hook(lambda g: seen.append(g.sum().item()))
    (w * 2).sum()
    handle.remove()
    handle = w.register_hook(lambda g: g * 5)
    return (w * 2).sum(), handle is None


@construct(W, [])
def hook_behind_accumulation(w, seen):
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum().item()))
    return (w * 2).sum()


@construct(W, raises=True)
def hook_behind_accumulation_of_a_result(w):
    return (w * 2).register_post_accumulate_grad_hook(lambda leaf: None)


@construct(W, breaks="backward")
def gradient_through_a_hooked_argument(w):
    w.register_hook(lambda g: g * 3)
    (w * w).sum().backward()
    return w.detach() * 2


@construct(W, breaks="call")
def hook_of_several(w):
    a, b, seen = w * 2, w * 3, []
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))
    (a * b).sum().backward()
    return seen


# -- of modules, forward -----------------------------------------------------------------------------------------------
@construct(hooked(forward_hook=lambda module, args, output: output * 2), W)
def module_hook(net, x):
    return net(x).sum()


class Refuses(nn.Module):
    def forward(self, x):
        raise ValueError("never")


@construct(W)
def hook_that_is_always_called(w):
    seen, module = [], Refuses()
    module.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    try:
        module(w)
    except ValueError as error:
        return seen, str(error), w * 2


@construct(W)
def hooks_with_keywords(w):
    class Scale(nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    seen, module = [], Scale()
    module.register_forward_pre_hook(lambda m, args, named: (args, {**named, "factor": 3.0}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, named, out: seen.append(named["factor"]), with_kwargs=True)
    return module(w, factor=2.0).sum(), seen


@construct(hooked(), W)
def hooks_of_all_modules(net, x):
    seen = []
    handles = [
        modules.register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__)),
        modules.register_module_forward_pre_hook(lambda module, args: seen.append(len(args))),
    ]
    y = net(x)
    for handle in handles:
        handle.remove()
    return seen, net(x).sum() + y.sum()


@construct(W)
def hooks_of_registration(w):
    seen = []
    handle = modules.register_module_parameter_registration_hook(lambda module, name, value: seen.append(name))
    layer = nn.Linear(3, 2)
    handle.remove()
    nn.Linear(2, 2)
    return seen, layer.weight.shape, w * 2


# -- of modules, backward ----------------------------------------------------------------------------------------------
@construct(hooked(full_backward_hook=lambda module, grads, outputs: (grads[0] * 3,)), W, breaks="backward")
def backward_hook(net, x):
    return net(x * 2).sin().sum()


@construct(hooked(full_backward_pre_hook=lambda module, outputs: (outputs[0] * 3,)), W, breaks="backward")
def backward_pre_hook(net, x):
    return net(x * 2).sin().sum()


@construct(
    hooked(
        full_backward_pre_hook=lambda module, outputs: (outputs[0] * 3,),
        full_backward_hook=lambda module, grads, outputs: (grads[0] + outputs[0],),
        forward_hook=lambda module, args, output: output.exp(),
    ),
    W,
    breaks="backward",
)
def hooks_of_all_kinds(net, x):
    return net(x * 2).sin().sum()


@construct(hooked(full_backward_hook=lambda module, grads, outputs: None), W)
def backward_hook_without_gradients(net, x):
    with torch.no_grad():
        return net(x)


@construct(hooked(), W, breaks="backward")
def backward_hooks_of_all_modules(net, x):
    seen = []
    handle = modules.register_module_full_backward_hook(lambda module, *grads: seen.append(type(module).__name__))
    net(x * 2).sum().backward()
    handle.remove()
    return seen, net(x).sum()


# -- autograd's nodes --------------------------------------------------------------------------------------------------
@construct(W)
def name_of_a_history(w):
    return (w * 2).grad_fn.name(), (w * w).sum()


@construct(W, breaks="backward")
def edge_of_a_history(w):
    middle = w * 2
    edge = torch.autograd.graph.get_gradient_edge(middle)
    return torch.autograd.grad((middle**2).sum(), edge)


@construct(W.detach())
def bases_of_views(x):
    y = x * 2
    view = y.t()
    return view._base is y, y._base is None, x._base is None, view._is_view(), y._is_view(), x.t()._base is x


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no gradient here")


@construct(W)
def function_whose_backward_raises(w):
    return Failing.apply(w).sum()


class TooFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad


@construct(W)
def function_that_gives_too_few_gradients(w):
    return TooFew.apply(w, w * 2).sum()


@construct(W)
def torch_s_own_functions(w):
    return torch.distributions.Beta(w.abs() + 0.1, w.abs() + 0.2, validate_args=False).rsample()


@construct(W, breaks="backward")
def kept_gradient_beside_a_result(w):
    middle = w * 2
    middle.retain_grad()
    return (middle**2).sum(), middle, middle.retains_grad
