"""Activation functions and their backward forms, as formulas in the op's compute dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.lowering import formula as f
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.formula import Term, formula
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten

SQRT_HALF = math.sqrt(0.5)
GELU_SCALE = math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715


def _apply(ctx: Context, fn: Callable[..., Term], *tensors: LazyTensor, weight: int = 4) -> LazyTensor:
    compute = compute_dtype(ctx.dtype)
    return pointwise(formula(fn), *tensors, dtype=ctx.dtype, compute=compute, weight=weight)


@register_lowering(aten.gelu)
def gelu(ctx: Context, x: LazyTensor, approximate: str = "none") -> LazyTensor:
    def by_erf(v: Term) -> Term:
        return v * 0.5 * (f.erf(v * SQRT_HALF) + 1)

    def by_tanh(v: Term) -> Term:
        inner = GELU_SCALE * (v + GELU_CUBIC * (v * v * v))
        return v * 0.5 * (f.tanh(inner) + 1)

    return _apply(ctx, by_tanh if approximate == "tanh" else by_erf, x, weight=20)


@register_lowering(aten.gelu_backward)
def gelu_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, approximate: str = "none") -> LazyTensor:
    def by_erf(g: Term, v: Term) -> Term:
        cdf = 0.5 * (f.erf(v * SQRT_HALF) + 1)
        pdf = f.exp(v * v * -0.5) * (1 / math.sqrt(2 * math.pi))
        return g * (cdf + v * pdf)

    def by_tanh(g: Term, v: Term) -> Term:
        square = v * v
        t = f.tanh(GELU_SCALE * (v + GELU_CUBIC * (square * v)))
        left = 0.5 * (t + 1)
        slope = GELU_SCALE * (3 * GELU_CUBIC * square + 1)
        return g * (left + 0.5 * v * (1 - t * t) * slope)

    return _apply(ctx, by_tanh if approximate == "tanh" else by_erf, grad, x, weight=36)


@register_lowering(aten.silu)
def silu(ctx: Context, x: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda v: v / (f.exp(-v) + 1), x, weight=14)


@register_lowering(aten.silu_backward)
def silu_backward(ctx: Context, grad: LazyTensor, x: LazyTensor) -> LazyTensor:
    def fn(g: Term, v: Term) -> Term:
        s = 1 / (f.exp(-v) + 1)
        return g * s * (v * (1 - s) + 1)

    return _apply(ctx, fn, grad, x, weight=18)


@register_lowering(aten.sigmoid_backward)
def sigmoid_backward(ctx: Context, grad: LazyTensor, y: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda g, s: g * ((1 - s) * s), grad, y)


@register_lowering(aten.tanh_backward)
def tanh_backward(ctx: Context, grad: LazyTensor, y: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda g, t: g * (1 - t * t), grad, y)


@register_lowering(aten.threshold)
def threshold(ctx: Context, x: LazyTensor, bound: Any, value: Any) -> LazyTensor:
    return _apply(ctx, lambda v: f.where(v <= bound, value, v), x, weight=2)


@register_lowering(aten.threshold_backward)
def threshold_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, bound: Any) -> LazyTensor:
    return _apply(ctx, lambda g, v: f.where(v <= bound, 0, g), grad, x, weight=2)


@register_lowering(aten.hardtanh)
def hardtanh(ctx: Context, x: LazyTensor, low: Any = -1, high: Any = 1) -> LazyTensor:
    return _apply(ctx, lambda v: f.minimum(f.maximum(v, low), high), x, weight=2)


@register_lowering(aten.hardtanh_backward)
def hardtanh_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, low: Any, high: Any) -> LazyTensor:
    return _apply(ctx, lambda g, v: f.where((v <= low) | (v >= high), 0, g), grad, x)


@register_lowering(aten.hardsigmoid)
def hardsigmoid(ctx: Context, x: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda v: f.minimum(f.maximum(v + 3, 0), 6) / 6, x, weight=6)


@register_lowering(aten.hardsigmoid_backward)
def hardsigmoid_backward(ctx: Context, grad: LazyTensor, x: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda g, v: f.where((v > -3) & (v < 3), g * (1.0 / 6.0), 0), grad, x)


@register_lowering(aten.hardswish)
def hardswish(ctx: Context, x: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda v: v * f.minimum(f.maximum(v + 3, 0), 6) / 6, x, weight=7)


@register_lowering(aten.hardswish_backward)
def hardswish_backward(ctx: Context, grad: LazyTensor, x: LazyTensor) -> LazyTensor:
    def fn(g: Term, v: Term) -> Term:
        return f.where(v <= -3, 0, f.where(v < 3, g * (v / 3 + 0.5), g))

    return _apply(ctx, fn, grad, x, weight=7)


@register_lowering(aten.leaky_relu)
def leaky_relu(ctx: Context, x: LazyTensor, slope: Any = 0.01) -> LazyTensor:
    return _apply(ctx, lambda v: f.where(v > 0, v, v * slope), x, weight=3)


@register_lowering(aten.leaky_relu_backward)
def leaky_relu_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, slope: Any, is_result: bool) -> LazyTensor:
    return _apply(ctx, lambda g, v: f.where(v > 0, g, g * slope), grad, x, weight=3)


@register_lowering(aten.elu)
def elu(ctx: Context, x: LazyTensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> LazyTensor:
    def fn(v: Term) -> Term:
        return f.where(v < 0, f.expm1(v * input_scale) * (alpha * scale), v * scale)

    return _apply(ctx, fn, x, weight=15)


@register_lowering(aten.elu_backward)
def elu_backward(
    ctx: Context, grad: LazyTensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: LazyTensor
) -> LazyTensor:
    negative = alpha * scale

    def fn(g: Term, v: Term) -> Term:
        if is_result:
            inner = g * input_scale * (v + negative)
        else:
            inner = g * (input_scale * negative) * f.exp(v * input_scale)
        return f.where(v <= 0, inner, g * scale)

    return _apply(ctx, fn, grad, x, weight=16)


@register_lowering(aten.softplus)
def softplus(ctx: Context, x: LazyTensor, beta: Any = 1, bound: Any = 20) -> LazyTensor:
    return _apply(ctx, lambda v: f.where(v * beta > bound, v, f.log1p(f.exp(v * beta)) / beta), x, weight=28)


@register_lowering(aten.softplus_backward)
def softplus_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, beta: Any, bound: Any) -> LazyTensor:
    def fn(g: Term, v: Term) -> Term:
        z = f.exp(v * beta)
        return f.where(v * beta > bound, g, g * z / (z + 1))

    return _apply(ctx, fn, grad, x, weight=18)


@register_lowering(aten.mish)
def mish(ctx: Context, x: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda v: v * f.tanh(f.log1p(f.exp(v))), x, weight=42)


@register_lowering(aten.mish_backward)
def mish_backward(ctx: Context, grad: LazyTensor, x: LazyTensor) -> LazyTensor:
    def fn(g: Term, v: Term) -> Term:
        s = f.sigmoid(v)
        t = f.tanh(f.log1p(f.exp(v)))
        return g * (t + v * s * (1 - t * t))

    return _apply(ctx, fn, grad, x, weight=56)


@register_lowering(aten._prelu_kernel)
def prelu(ctx: Context, x: LazyTensor, weight: LazyTensor) -> LazyTensor:
    return _apply(ctx, lambda v, w: f.where(v > 0, v, v * w), x, weight, weight=3)


@register_lowering(aten._prelu_kernel_backward)
def prelu_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, weight: LazyTensor) -> tuple[LazyTensor, LazyTensor]:
    dtype = grad.dtype
    compute = compute_dtype(dtype)
    to_input = formula(lambda g, v, w: f.where(v > 0, g, g * w))
    to_weight = formula(lambda g, v: f.where(v > 0, 0, g * v))
    return (
        pointwise(to_input, grad, x, weight, dtype=dtype, compute=compute, weight=3),
        pointwise(to_weight, grad, x, dtype=dtype, compute=compute, weight=3),
    )


@register_lowering(aten.softshrink)
def softshrink(ctx: Context, x: LazyTensor, lambd: Any = 0.5) -> LazyTensor:
    def fn(v: Term) -> Term:
        return f.where(f.isnan(v), v, f.where(v > lambd, v - lambd, f.where(v < -lambd, v + lambd, 0)))

    return _apply(ctx, fn, x)


@register_lowering(aten.hardshrink)
def hardshrink(ctx: Context, x: LazyTensor, lambd: Any = 0.5) -> LazyTensor:
    return _apply(ctx, lambda v: f.where((v >= -lambd) & (v <= lambd), 0, v), x)


@register_lowering(aten.softshrink_backward, aten.hardshrink_backward)
def shrink_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, lambd: Any) -> LazyTensor:
    return _apply(ctx, lambda g, v: f.where((v >= -lambd) & (v <= lambd), 0, g), grad, x)


@register_lowering(aten.log_sigmoid_forward)
def log_sigmoid_forward(ctx: Context, x: LazyTensor) -> Any:
    def fn(v: Term) -> Term:
        return f.minimum(v, 0) - f.log1p(f.exp(-f.absolute(v)))

    def scratch(v: Term) -> Term:
        return f.exp(-f.absolute(v))

    output, buffer = ctx.expected
    if tuple(buffer.shape) != tuple(output.shape):
        return NotImplemented
    compute = compute_dtype(output.dtype)
    return (
        pointwise(formula(fn), x, dtype=output.dtype, compute=compute, weight=28),
        pointwise(formula(scratch), x, dtype=buffer.dtype, compute=compute, weight=14),
    )


@register_lowering(aten.log_sigmoid_backward)
def log_sigmoid_backward(ctx: Context, grad: LazyTensor, x: LazyTensor, buffer: LazyTensor) -> LazyTensor:
    def fn(g: Term, v: Term) -> Term:
        negative = v < 0
        side = f.where(negative, v * 0 + 1, 0)
        sign = f.where(negative, v * 0 + 1, -1)
        z = f.exp(-f.absolute(v))
        return g * (side - sign * (z / (z + 1)))

    return _apply(ctx, fn, grad, x, weight=20)


@register_lowering(aten.logit)
def logit(ctx: Context, x: LazyTensor, eps: Any = None) -> LazyTensor:
    def fn(v: Term) -> Term:
        if eps is not None:
            v = f.where(v < eps, eps, f.where(v > 1 - eps, 1 - eps, v))
        return f.log(v / (1 - v))

    return _apply(ctx, fn, x, weight=18)
