"""Things of torch that programs do around tensor operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from table import construct
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode

X = torch.arange(6.0).reshape(2, 3)


# -- overriding --------------------------------------------------------------------------------------------------------
class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.add:
            return func(*args, **(kwargs or {})) * 2
        return func(*args, **(kwargs or {}))


@construct(X)
def torch_function_mode(x):
    with Doubling():
        y = torch.add(x, 1)
    return y, torch.add(x, 1)


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@construct(X)
def mode_that_counts(x):
    with Counting() as mode:
        y = torch.sin(x) + 1
        y = y.mul(2)
        y.shape  # noqa: B018
    return y, mode.names


@construct(X)
def nested_modes(x):
    with Doubling(), Doubling():
        return torch.add(x, x)


@construct(X)
def disabled_torch_function(x):
    with Doubling(), torch._C.DisableTorchFunction():
        return torch.add(x, 1)


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.sin:
            return super().__torch_function__(torch.cos, types, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs or {})


@construct(X)
def subclass_made_inside(x):
    t = x.as_subclass(Tagged)
    y = t * 2 + 1
    return type(y).__name__, isinstance(y, torch.Tensor), y.sum().as_subclass(torch.Tensor)


@construct(X)
def subclass_that_changes_a_function(x):
    t = x.as_subclass(Loud)
    return torch.sin(t).as_subclass(torch.Tensor), type(t + 1).__name__


class Unit:
    """Not a tensor; overrides functions of torch."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.value if isinstance(a, Unit) else a for a in args]
        return Unit(func(*plain, **(kwargs or {})))


@construct(X)
def object_that_overrides(x):
    return torch.add(Unit(x), 1).value, torch.mul(x, Unit(x)).value, torch.cat([x, x])


# -- parameters and modules --------------------------------------------------------------------------------------------
@construct(X)
def parameter_made_inside(x):
    p = nn.Parameter(torch.ones(3))
    return x * p, p.requires_grad, isinstance(p, nn.Parameter), type(p).__name__


@construct(X)
def parameter_without_gradients(x):
    return nn.Parameter(x * 2, requires_grad=False)


@construct(X)
def module_made_inside(x):
    layer = nn.Linear(3, 2)
    return layer(x), layer.weight.shape


@construct(X)
def buffer_made_inside(x):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(3))

        def forward(self, v):
            self.b += 1
            return v * self.b

    return Holder()(x)


def recurrent(cls, **options):
    torch.manual_seed(1)
    return cls(3, 4, **options)


@construct(recurrent(nn.LSTM, num_layers=2, batch_first=True), X[None])
def lstm(module, x):
    out, (h, c) = module(x)
    return out, h, c


@construct(recurrent(nn.GRU, bidirectional=True), X[None])
def gru(module, x):
    return module(x)


@construct(recurrent(nn.RNN, nonlinearity="relu"), X[None])
def rnn(module, x):
    return module(x, torch.ones(1, 2, 4))


@construct(recurrent(nn.LSTMCell), recurrent(nn.GRUCell), X)
def cells(lstm_cell, gru_cell, x):
    h, c = lstm_cell(x)
    return h, c, gru_cell(x, h)


@construct(recurrent(nn.LSTM, proj_size=2), X[None])
def lstm_with_projection(module, x):
    return module(x)[0]


@construct(recurrent(nn.GRU, batch_first=True), torch.ones(2, 4, 3), breaks="data-dependent")
def packed_sequence(module, x):
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=True)
    out, h = module(packed)
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0], h


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


def parametrized():
    torch.manual_seed(1)
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


@construct(X)
def parametrized_module(x, _layer=parametrized()):  # noqa: B008
    return _layer(x)


WEIGHT_NORM = parametrizations.weight_norm(nn.Linear(3, 2))
SPECTRAL = parametrizations.spectral_norm(nn.Linear(3, 2)).eval()


@construct(X)
def weight_norm(x):
    return WEIGHT_NORM(x)


@construct(X)
def spectral_norm(x):
    return SPECTRAL(x)


def hooked():
    layer = nn.Linear(3, 3)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.register_forward_hook(lambda module, args, out: out * 2)
    return layer


HOOKED = hooked()


@construct(X)
def forward_hooks(x):
    return HOOKED(x)


@construct(X)
def forward_hook_registered_inside(x):
    seen = []
    handle = HOOKED.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    y = HOOKED(x)
    handle.remove()
    return y, seen


class Backward(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))

    def forward(self, x):
        return x * 3


@construct(Backward(), X.clone().requires_grad_(), breaks="backward")
def backward_hooks_of_a_module(module, x):
    return module(x).sum()


@construct(nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()}), nn.ParameterList([nn.Parameter(torch.ones(3))]), X)
def module_containers(modules, parameters, x):
    for name, module in modules.items():
        x = module(x)
        assert name in modules
    return x * parameters[0], len(parameters), list(modules.keys())


@construct(nn.BatchNorm1d(3), X)
def batch_norm_in_training(module, x):
    return module(x), module.num_batches_tracked


@construct(nn.Linear(3, 3), X)
def module_methods(module, x):
    module.eval()
    total = sum(p.numel() for p in module.parameters())
    names = [name for name, _ in module.named_parameters()]
    return module(x).detach(), total, names, module.training, next(module.parameters()).dtype, module.extra_repr()


# -- functions ---------------------------------------------------------------------------------------------------------
@construct(X)
def operations_by_out(x):
    out = torch.empty(2, 3)
    torch.add(x, 1, out=out)
    return out


@construct(X)
def views_and_writes(x):
    y = x.clone()
    y[0].mul_(2)
    y[:, 1] = 7
    y.view(-1)[0] = 5
    y.T[2] += 1
    return y, y._version if False else y.shape


@construct(X)
def tensor_subscripts(x):
    return (
        x[..., None].shape,
        x[[0, 1], [1, 2]],
        x[x > 2].sum() if False else x[torch.tensor([1, 0])],
        x[-1, ::2],
        x[:, None, 1],
    )


@construct(X)
def types_and_devices(x):
    return (
        x.to(torch.float64),
        x.type(torch.int32),
        x.device.type,
        torch.device("cpu", 0).index,
        x.dtype.is_floating_point,
        x.half().dtype,
    )


@construct(X)
def autocast_region(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    return y, y.dtype


@construct(X)
def attention(x):
    q = x.reshape(1, 1, 2, 3)
    return F.scaled_dot_product_attention(q, q, q), F.scaled_dot_product_attention(q, q, q, is_causal=True)


@construct(X)
def sdpa_kernel_context(x):
    q = x.reshape(1, 1, 2, 3)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q)


@construct(X)
def inference_mode_region(x):
    with torch.inference_mode():
        y = x * 2
    return y.clone() if not y.is_inference() else x


@construct(X)
def profiler_ranges(x):
    with torch.profiler.record_function("range"), torch.autograd.profiler.record_function("inner"):
        return x * 2


@construct(X, breaks="library")
def deterministic_algorithms(x):
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    y = x.cumsum(0)
    torch.use_deterministic_algorithms(before)
    return y


@construct(X)
def tensors_from_lists(x):
    return (
        torch.tensor([1.0, 2]),
        torch.tensor([[x.shape[0]]]),
        torch.stack([x.sum(), x.mean()]),
        torch.tensor([x.shape[0], 5]),
    )


@construct(X)
def tensor_from_tensors(x):
    return torch.tensor([x[0, 0], x[0, 1]]) if False else torch.as_tensor([1, 2]), torch.zeros(*x.shape), x.new_zeros(2)


@construct(X)
def checks(x):
    torch._check(x.shape[0] == 2)
    torch._assert(x.shape[1] == 3, "three columns")
    assert x.ndim == 2, "rank"
    return x


@construct(X)
def pytree_tools(x):
    leaves, spec = torch.utils._pytree.tree_flatten({"a": [x, 1], "b": (x,)})
    return torch.utils._pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec), torch.utils._pytree.tree_map(
        lambda v: v + 1, [x]
    )


@construct(X, torch.Size([3, 2]))
def sizes(x, size):
    return x.reshape(size), size.numel(), size[0], torch.Size([1, 2]) + (3,), isinstance(size, tuple)


@construct(X)
def stack_of_functions(x):
    for name in ("relu", "sigmoid", "tanh"):
        x = getattr(torch, name)(getattr(F, "relu")(x))  # noqa: B009
    return getattr(x, "sum")()  # noqa: B009


@construct(X)
def streams_and_devices_context(x):
    with torch.device("cpu"):
        return torch.zeros(3) + x
