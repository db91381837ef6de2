"""Softmax and normalisations with their backward ops, straight to row loops.

Each is written so that the scheduler finds one row kernel: results of reductions are small tensors over the kept
dimensions, values needed by more than one pass are realised (the scheduler keeps them in the kernel).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.lowering import formula as f
from triptych_inductor.lowering.common import numel_of, pointwise, reduce, to_dtype
from triptych_inductor.lowering.formula import formula
from triptych_inductor.lowering.reductions import moments
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


def _row(fn: Any, *tensors: LazyTensor, dtype: torch.dtype, weight: int) -> LazyTensor:
    """A pointwise formula computed in the compute dtype of `dtype`."""
    return pointwise(formula(fn), *tensors, dtype=dtype, compute=compute_dtype(dtype), weight=weight)


@register_lowering(aten._softmax)
def softmax(ctx: Context, x: LazyTensor, dim: int, half_to_float: bool) -> Any:
    if x.ndim == 0 or x.size[dim] == 0:
        return NotImplemented
    dim, acc = dim % x.ndim, compute_dtype(ctx.dtype)
    ctx.builder.reuse(x)
    top = reduce("max", x, (dim,), acc, True)
    powers = _row(lambda v, m: f.exp(v - m), x, top, dtype=acc, weight=13)
    ctx.builder.realise(powers, x.stride if x.strided is None else x.strided.stride)
    total = reduce("sum", powers, (dim,), acc, True)
    return pointwise(ops.truediv, powers, total, dtype=ctx.dtype, compute=acc, weight=4)


@register_lowering(aten._log_softmax)
def log_softmax(ctx: Context, x: LazyTensor, dim: int, half_to_float: bool) -> Any:
    if x.ndim == 0 or x.size[dim] == 0:
        return NotImplemented
    dim, acc = dim % x.ndim, compute_dtype(ctx.dtype)
    ctx.builder.reuse(x)
    top = reduce("max", x, (dim,), acc, True)
    powers = _row(lambda v, m: f.exp(v - m), x, top, dtype=acc, weight=13)
    total = reduce("sum", powers, (dim,), acc, True)
    norm = _row(lambda s: f.log(s), total, dtype=acc, weight=12)
    ctx.builder.realise(norm)
    return pointwise(formula(lambda v, m, s: v - m - s), x, top, norm, dtype=ctx.dtype, compute=acc, weight=2)


@register_lowering(aten._softmax_backward_data)
def softmax_backward(ctx: Context, grad: LazyTensor, y: LazyTensor, dim: int, input_dtype: torch.dtype) -> Any:
    if y.ndim == 0:
        return NotImplemented
    dim, acc = dim % y.ndim, compute_dtype(y.dtype)
    ctx.builder.reuse(grad, y)
    product = _row(lambda g, v: g * v, grad, y, dtype=acc, weight=1)
    total = reduce("sum", product, (dim,), acc, True)
    return pointwise(formula(lambda g, v, s: g * v - v * s), grad, y, total, dtype=ctx.dtype, compute=acc, weight=3)


@register_lowering(aten._log_softmax_backward_data)
def log_softmax_backward(ctx: Context, grad: LazyTensor, y: LazyTensor, dim: int, input_dtype: torch.dtype) -> Any:
    if y.ndim == 0:
        return NotImplemented
    dim, acc = dim % y.ndim, compute_dtype(y.dtype)
    ctx.builder.reuse(grad, y)
    total = reduce("sum", grad, (dim,), acc, True)
    return pointwise(formula(lambda g, v, s: g - f.exp(v) * s), grad, y, total, dtype=ctx.dtype, compute=acc, weight=14)


def _inverse_deviation(m2: LazyTensor, count: Extent, eps: float) -> LazyTensor:
    """1 / sqrt(variance + eps), realised."""
    acc = m2.dtype
    rstd = pointwise(formula(lambda s, n, e: f.rsqrt(s / n + e)), m2, count, eps, dtype=acc, compute=acc, weight=12)
    m2.builder.realise(rstd)
    return rstd


def affine(
    x: LazyTensor, center: LazyTensor, rstd: LazyTensor, weight: Any, bias: Any, dtype: torch.dtype
) -> LazyTensor:
    """`(x - center) * rstd`, scaled and shifted by what is given."""
    acc = compute_dtype(dtype)
    if weight is not None and bias is not None:
        fn = formula(lambda v, m, r, w, b: (v - m) * r * w + b)
        return pointwise(fn, x, center, rstd, weight, bias, dtype=dtype, compute=acc, weight=4)
    if weight is not None:
        return pointwise(
            formula(lambda v, m, r, w: (v - m) * r * w), x, center, rstd, weight, dtype=dtype, compute=acc, weight=3
        )
    if bias is not None:
        return pointwise(
            formula(lambda v, m, r, b: (v - m) * r + b), x, center, rstd, bias, dtype=dtype, compute=acc, weight=3
        )
    return pointwise(formula(lambda v, m, r: (v - m) * r), x, center, rstd, dtype=dtype, compute=acc, weight=2)


@register_lowering(aten.native_layer_norm)
def native_layer_norm(ctx: Context, x: LazyTensor, shape: list[Extent], weight: Any, bias: Any, eps: float) -> Any:
    output, mean_, rstd_ = ctx.expected
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    count = numel_of(x, dims)
    if count == 0:
        return NotImplemented
    center, m2 = moments(x, dims, keepdim=True, row=True)
    rstd = _inverse_deviation(m2, count, eps)
    result = affine(x, center, rstd, weight, bias, output.dtype)
    return result, to_dtype(center, mean_.dtype), to_dtype(rstd, rstd_.dtype)


@register_lowering(aten.native_layer_norm_backward)
def native_layer_norm_backward(
    ctx: Context,
    grad: LazyTensor,
    x: LazyTensor,
    shape: list[Extent],
    mean_: LazyTensor,
    rstd: LazyTensor,
    weight: Any,
    bias: Any,
    mask: list[bool],
) -> Any:
    inner = tuple(range(x.ndim - len(shape), x.ndim))
    outer = tuple(range(x.ndim - len(shape)))
    acc = compute_dtype(x.dtype)
    count = numel_of(x, inner)
    if count == 0 or numel_of(x, outer) == 0:
        return NotImplemented
    ctx.builder.reuse(grad, x)
    results: list[LazyTensor | None] = [None, None, None]
    if mask[0]:
        results[0] = _layer_norm_input_grad(grad, x, mean_, rstd, weight, inner, count, acc)
    if mask[1] and weight is not None:
        product = pointwise(
            formula(lambda g, v, m, r: g * ((v - m) * r)), grad, x, mean_, rstd, dtype=acc, compute=acc, weight=3
        )
        results[1] = to_dtype(reduce("sum", product, outer, acc), weight.dtype)
    if mask[2] and bias is not None:
        results[2] = to_dtype(reduce("sum", grad, outer, acc), bias.dtype)
    return results


def _layer_norm_input_grad(
    grad: LazyTensor,
    x: LazyTensor,
    mean_: LazyTensor,
    rstd: LazyTensor,
    weight: Any,
    dims: tuple[int, ...],
    count: Extent,
    acc: torch.dtype,
) -> LazyTensor:
    scaled = grad if weight is None else pointwise(ops.mul, grad, weight, dtype=acc, compute=acc)
    normed = pointwise(formula(lambda v, m, r: (v - m) * r), x, mean_, rstd, dtype=acc, compute=acc, weight=2)
    product = pointwise(ops.mul, scaled, normed, dtype=acc, compute=acc)
    second = reduce("sum", product, dims, acc, True)  # first: it shares both tensors with what came before
    first = reduce("sum", scaled, dims, acc, True)
    fn = formula(lambda g, n, a, b, r, c: r * (g - (a / c + n * (b / c))))  # one division a row, not an element
    return pointwise(fn, scaled, normed, first, second, rstd, count, dtype=x.dtype, compute=acc, weight=8)


@register_lowering(aten.native_group_norm)
def native_group_norm(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, n: Extent, c: Extent, hxw: Extent, groups: int, eps: float
) -> Any:
    output, mean_, rstd_ = ctx.expected
    if type(c) is not int or n == 0 or hxw == 0:
        return NotImplemented
    folded = views.reshape(x, (n, groups, c // groups, hxw))
    center, m2 = moments(folded, (2, 3), keepdim=True, row=True)
    rstd = _inverse_deviation(m2, numel_of(folded, (2, 3)), eps)
    channel = [None if p is None else views.reshape(p, (1, groups, c // groups, 1)) for p in (weight, bias)]
    result = affine(folded, center, rstd, channel[0], channel[1], output.dtype)
    small = [views.reshape(t, (n, groups)) for t in (center, rstd)]
    return views.reshape(result, x.size), to_dtype(small[0], mean_.dtype), to_dtype(small[1], rstd_.dtype)


@register_lowering(aten._fused_rms_norm)
def fused_rms_norm(ctx: Context, x: LazyTensor, shape: list[Extent], weight: Any, eps: Any) -> Any:
    output, rstd_ = ctx.expected
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    acc = compute_dtype(x.dtype)
    if numel_of(x, dims) == 0:
        return NotImplemented
    epsilon = torch.finfo(acc if x.dtype is not torch.float64 else x.dtype).eps if eps is None else eps
    ctx.builder.reuse(x)
    squares = _row(lambda v: v * v, x, dtype=acc, weight=1)
    rstd = _inverse_deviation(reduce("sum", squares, dims, acc, True), numel_of(x, dims), epsilon)
    if weight is None:
        result = pointwise(ops.mul, x, rstd, dtype=output.dtype, compute=acc)
    else:
        result = pointwise(
            formula(lambda v, r, w: v * r * w), x, rstd, weight, dtype=output.dtype, compute=acc, weight=2
        )
    return result, to_dtype(rstd, rstd_.dtype)


@register_lowering(aten._safe_softmax)
def safe_softmax(ctx: Context, x: LazyTensor, dim: int, dtype: Any = None) -> Any:
    """Softmax whose rows of nothing but -inf give 0."""
    source = x if dtype is None else to_dtype(x, dtype)
    if x.ndim == 0 or x.size[dim] == 0 or not source.dtype.is_floating_point:
        return NotImplemented
    dim, acc = dim % x.ndim, compute_dtype(ctx.dtype)
    ctx.builder.reuse(source)
    top = reduce("max", source, (dim,), acc, True)
    empty = pointwise(formula(lambda m: m == -math.inf), top, dtype=torch.bool, compute=acc)
    shift = pointwise(formula(lambda m: f.where(m == -math.inf, 0, m)), top, dtype=acc, compute=acc, weight=2)
    for small in (empty, shift):
        ctx.builder.realise(small)
    powers = _row(lambda v, m: f.exp(v - m), source, shift, dtype=acc, weight=13)
    ctx.builder.realise(powers, x.stride if x.strided is None else x.strided.stride)
    total = reduce("sum", powers, (dim,), acc, True)
    fn = formula(lambda p, s, e: f.where(e != 0, 0, p / s))
    return pointwise(fn, powers, total, empty, dtype=ctx.dtype, compute=acc, weight=5)
