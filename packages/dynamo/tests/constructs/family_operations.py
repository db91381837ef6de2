"""Functions and modes of torch under capture."""

from __future__ import annotations

import contextlib
import math
import operator
import warnings

import torch
import torch.nn.functional as F
from table import construct
from torch import nn

X = torch.arange(6.0).reshape(2, 3)
W = torch.ones(3, 3, requires_grad=True)
LIN = nn.Linear(3, 3)


@construct(X)
def creation(x):
    return (
        torch.zeros(2),
        torch.ones_like(x),
        torch.arange(3),
        torch.full((2,), 1.5),
        torch.tensor([1, 2.0]),
        torch.empty(0),
        torch.eye(2),
        x.new_zeros(2),
        x.new_tensor([1.0]),
        torch.as_tensor(3),
        torch.linspace(0, 1, 3),
        torch.zeros(2, dtype=torch.int64),
    )


@construct(X)
def random(x):
    return torch.rand(2), torch.randn_like(x), torch.randint(0, 5, (2,)), F.dropout(x, 0.5), torch.randperm(4)


@construct(X)
def shapes(x):
    b, c = x.shape
    return (
        x.reshape(c, b),
        x.view(-1),
        x.permute(1, 0),
        x.transpose(0, 1),
        x.unsqueeze(0).squeeze(0),
        x.expand(4, 2, 3),
        x.flatten(),
        x.T,
        x.size(1),
        x.dim(),
        x.numel(),
        x.stride(),
    )


@construct(X)
def indexing(x):
    return (
        x[0],
        x[:, 1],
        x[..., None],
        x[torch.tensor([0, 1])],
        x[x > 2].shape if False else x.gather(1, torch.zeros(2, 1, dtype=torch.long)),
        x[-1, -1],
        x[:, ::2],
        x[[0, 1], [1, 2]],
        x[None, :, [True, False, True]] if False else x.take(torch.tensor([1])),
    )


@construct(X)
def writes(x):
    y = x.clone()
    y[0] = 5
    y[:, 1] += 2
    y.add_(1)
    y.mul_(2).sub_(1)
    y[1, :2] = torch.zeros(2)
    z = y.view(-1)
    z[0] = 100
    return y, z


@construct(X)
def write_to_argument(x):
    x.add_(1)
    x[0, 0] = 7
    return x * 2


@construct(X)
def combination(x):
    return (
        torch.cat([x, x], dim=1),
        torch.stack((x, x)),
        torch.split(x, 1),
        x.chunk(3, dim=1),
        torch.einsum("ij,kj->ik", x, x),
        torch.where(x > 2, x, 0.0),
        torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij"),
        torch.broadcast_tensors(x, torch.ones(3)),
    )


@construct(X)
def functional(x):
    return (
        F.relu(x),
        F.softmax(x, -1),
        F.layer_norm(x, (3,)),
        F.linear(x, W),
        F.cross_entropy(x, torch.tensor([0, 2])),
        F.mse_loss(x, x + 1),
        F.gelu(x),
        F.pad(x, (1, 1)),
        F.interpolate(x[None, None], scale_factor=2),
        F.max_pool1d(x, 2),
        F.scaled_dot_product_attention(x[None], x[None], x[None]),
        F.normalize(x),
        F.one_hot(torch.tensor([0, 1]), 3),
        F.silu(x),
        F.log_softmax(x, 0),
    )


@construct(X)
def linear_algebra(x):
    return (
        torch.linalg.norm(x),
        torch.matmul(x, x.T),
        torch.linalg.inv(torch.eye(2)),
        torch.fft.fft(x),
        torch.special.expit(x),
    )


@construct(X)
def reductions(x):
    return (
        x.sum(),
        x.mean(0),
        x.max(),
        x.max(1),
        x.argmax(),
        torch.var_mean(x),
        x.std(),
        x.prod(),
        x.any(),
        x.all(),
        x.norm(),
        x.cumsum(0),
        torch.logsumexp(x, 1),
        x.amax(),
        torch.allclose if False else 0,
    )


@construct(X)
def types(x):
    return (
        x.to(torch.float64),
        x.half().dtype,
        x.long(),
        x.to("cpu"),
        x.type_as(x),
        x.float(),
        x.dtype == torch.float32,
        x.is_floating_point(),
        torch.finfo(x.dtype).min,
        torch.iinfo(torch.int32).max,
        x.device,
        x.device.type,
        torch.get_default_dtype(),
        torch.is_tensor(x),
        torch.result_type(x, 1),
        x.element_size(),
        x.is_contiguous(),
    )


@construct(X)
def operators_namespace(x):
    return (
        torch.ops.aten.add.Tensor(x, x),
        torch.ops.aten.relu(x),
        torch.add(x, 1, alpha=2),
        operator.matmul(x, x.T),
        torch.Tensor.mul(x, 3),
        torch._C._nn.gelu(x),
    )


@construct(X)
def out_arguments(x):
    y = torch.empty(2, 3)
    torch.add(x, 1, out=y)
    return y


@construct(X)
def gradients_off(x):
    with torch.no_grad():
        y = LIN(x)
        a = torch.is_grad_enabled()
        with torch.enable_grad():
            z = LIN(x)
    with torch.set_grad_enabled(False):
        v = LIN(x)
    return y, z, v, a, torch.is_grad_enabled()


@torch.no_grad()
def decorated(x):
    return LIN(x)


@construct(X)
def call_decorated(x):
    return decorated(x), LIN(x)


@construct(X)
def left_off(x):
    torch.set_grad_enabled(False)
    y = LIN(x)
    torch.set_grad_enabled(True)
    return y


@construct(X)
def gradients_off_with_error(x):
    try:
        with torch.no_grad():
            raise ValueError
    except ValueError:
        return LIN(x)


@construct(X)
def inference(x):
    with torch.inference_mode():
        y = x * 2
        a = torch.is_inference_mode_enabled()
    return y.is_inference() if False else a


@construct(X)
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = LIN(x)
        with torch.autocast("cpu", enabled=False):
            z = LIN(x)
        a = torch.is_autocast_enabled("cpu")
    return y, z, a, LIN(x)


AUTOCAST = torch.autocast("cpu", dtype=torch.bfloat16)


@construct(X)
def autocast_object(x):
    with AUTOCAST:
        y = LIN(x)
    return y


@construct(X)
def profiling(x):
    with torch.profiler.record_function("name"), torch.autograd.profiler.record_function("b"), contextlib.nullcontext():
        return x + 1


@construct(X)
def attention_backends(x):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(x[None], x[None], x[None])


@construct(X)
def detached(x):
    y = LIN(x)
    return y.detach(), y.requires_grad, y.detach().requires_grad, LIN.weight.is_leaf, y.is_leaf, y.data


@construct(X)
def requires_gradient(x):
    y = x.clone().requires_grad_()
    return (y * 2).sum(), y.requires_grad


def compiling(x):
    return (
        x + 1 if torch.compiler.is_compiling() else x + 1,
        torch.jit.is_scripting(),
        torch.overrides.has_torch_function((x,)),
    )


@construct(X)
def checks(x):
    torch._check(x.shape[0] == 2, lambda: "message")
    torch._assert(x.shape[1] == 3, "three")
    assert x.ndim == 2
    return x


@construct(X, raises=True)
def failed_check(x):
    torch._check(x.shape[0] == 3, lambda: f"bad {x.shape[0]}")


@construct(X)
def loss_module(x):
    return nn.CrossEntropyLoss()(x, torch.tensor([0, 1])), nn.Sequential(nn.ReLU(), nn.Tanh())(x)


@construct(X)
def numbers_and_tensors(x):
    return (
        x * math.pi,
        x + True,
        3 - x,
        x**0.5,
        x.shape[0] * x,
        max(x.shape),
        x.new_ones(x.shape),
        int(x.shape[0]),
        x / x.shape[-1],
    )


@construct(X)
def pytrees(x):
    tree = {"a": [x, (x + 1, 2)], "b": None}
    leaves, spec = torch.utils._pytree.tree_flatten(tree)
    return torch.utils._pytree.tree_map(lambda v: v * 2 if isinstance(v, torch.Tensor) else v, tree), len(leaves)


@construct(X)
def vmapped(x):
    return torch.vmap(lambda v: v * 2 + v.sum())(x)


def warned(x):
    warnings.warn("careful", stacklevel=2)
    return x + 1


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.k + 0 * x, None


@construct(X)
def custom_function(x):
    return Double.apply(LIN(x), 3)
