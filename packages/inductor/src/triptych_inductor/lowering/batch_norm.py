"""Batch normalisation in its several ATen spellings, forward and backward.

Statistics are taken over all dimensions but the second. The kernels fuse as the scheduler sees fit: one row kernel
for contiguous inputs, statistics and normalisation apart for channels-last ones.
"""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.lowering.common import constant, numel_of, pointwise, reduce, to_dtype
from triptych_inductor.lowering.formula import Term, formula, maximum, rsqrt
from triptych_inductor.lowering.norms import affine
from triptych_inductor.lowering.reductions import is_row, moments
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


def _dims(x: LazyTensor) -> tuple[int, ...]:
    return tuple(d for d in range(x.ndim) if d != 1)


def _channel(x: LazyTensor, parameter: LazyTensor) -> LazyTensor:
    """A per-channel vector shaped to broadcast against `x`."""
    return views.reshape(parameter, tuple([x.size[1] if d == 1 else 1 for d in range(x.ndim)]))


def _flat(x: LazyTensor, statistic: LazyTensor) -> LazyTensor:
    """A kept statistic as a vector over channels."""
    return views.reshape(statistic, (x.size[1],))


def _normalised(
    ctx: Context, x: LazyTensor, center: LazyTensor, rstd: LazyTensor, weight: Any, bias: Any
) -> LazyTensor:
    parts = [None if p is None else _channel(x, p) for p in (weight, bias)]
    return affine(x, center, rstd, parts[0], parts[1], x.dtype)


def _batch_statistics(x: LazyTensor, eps: float) -> tuple[LazyTensor, LazyTensor, LazyTensor, Extent]:
    """(mean, m2, 1 / sqrt(variance + eps), count), each kept to broadcast."""
    dims = _dims(x)
    count = numel_of(x, dims)
    center, m2 = moments(x, dims, keepdim=True, row=is_row(x, dims))
    acc = m2.dtype
    rstd = pointwise(formula(lambda s, n, e: rsqrt(s / n + e)), m2, count, eps, dtype=acc, compute=acc, weight=12)
    x.builder.realise(rstd)
    return center, m2, rstd, count


def _updated(old: LazyTensor, new: LazyTensor, momentum: float) -> LazyTensor:
    compute = compute_dtype(old.dtype)
    blend = formula(lambda o, n: o * (1 - momentum) + n * momentum)
    return pointwise(blend, old, to_dtype(new, compute), dtype=old.dtype, compute=compute, weight=3)


def _running(
    x: LazyTensor,
    mean_: LazyTensor,
    var: LazyTensor,
    center: LazyTensor,
    m2: LazyTensor,
    count: Extent,
    momentum: float,
) -> Any:
    """Running statistics after this batch (the variance is the unbiased one)."""
    acc = m2.dtype
    unbiased = pointwise(
        formula(lambda s, n: s / maximum(n - 1, 1)), _flat(x, m2), count, dtype=acc, compute=acc, weight=5
    )
    return _updated(mean_, _flat(x, center), momentum), _updated(var, unbiased, momentum)


def _training(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, mean_: Any, var: Any, momentum: float, eps: float
) -> tuple[list[LazyTensor], list[LazyTensor]]:
    """([output, saved mean, saved rstd], [new running mean, new running variance])."""
    center, m2, rstd, count = _batch_statistics(x, eps)
    output = _normalised(ctx, x, center, rstd, weight, bias)
    running = [] if mean_ is None else list(_running(x, mean_, var, center, m2, count, momentum))
    return [output, _flat(x, center), _flat(x, rstd)], running


def _inference(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, mean_: LazyTensor, var: LazyTensor, eps: float
) -> list[LazyTensor]:
    """Normalisation with known statistics: one multiplication and addition with per-channel numbers."""
    acc = compute_dtype(x.dtype)

    @formula
    def scaling(v: Term, *scale: Term) -> Term:
        return rsqrt(v + eps) * scale[0] if scale else rsqrt(v + eps)

    @formula
    def shifting(m: Term, a: Term, *shift: Term) -> Term:
        return shift[0] - m * a if shift else -(m * a)

    scale = pointwise(scaling, var, *([weight] if weight is not None else []), dtype=acc, compute=acc, weight=12)
    x.builder.realise(scale)
    shift = pointwise(shifting, mean_, scale, *([bias] if bias is not None else []), dtype=acc, compute=acc, weight=2)
    x.builder.realise(shift)
    output = pointwise(
        formula(lambda v, a, b: v * a + b),
        x,
        _channel(x, scale),
        _channel(x, shift),
        dtype=x.dtype,
        compute=acc,
        weight=2,
    )
    empty = LazyTensor(x.builder, (0,), acc, x.device, lambda i: constant(0, acc), weight=0)
    return [output, empty, empty]


def _is_empty(x: LazyTensor) -> bool:
    return any(e == 0 for e in x.size)


@register_lowering(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    ctx: Context,
    x: LazyTensor,
    weight: Any,
    bias: Any,
    mean_: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if _is_empty(x):
        return NotImplemented
    if not training:
        return _inference(ctx, x, weight, bias, mean_, var, eps)
    results, running = _training(ctx, x, weight, bias, mean_, var, momentum, eps)
    for old, new in zip((mean_, var), running, strict=False):
        window = ctx.builder.realise(old)
        ctx.builder.finish_readers(window.buffer.name, new)
        ctx.builder.store(new, window)
    return results


@register_lowering(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return NotImplemented if _is_empty(x) else _training(ctx, x, weight, bias, None, None, momentum, eps)[0]


@register_lowering(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    ctx: Context,
    x: LazyTensor,
    weight: Any,
    bias: Any,
    mean_: LazyTensor,
    var: LazyTensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if _is_empty(x):
        return NotImplemented
    if not training:
        return [*_inference(ctx, x, weight, bias, mean_, var, eps), mean_, var]
    results, running = _training(ctx, x, weight, bias, mean_, var, momentum, eps)
    return [*results, *running]


@register_lowering(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, mean_: LazyTensor, var: LazyTensor, momentum: float, eps: float
) -> Any:
    return _inference(ctx, x, weight, bias, mean_, var, eps)


def _reserve(ctx: Context, x: LazyTensor, position: int) -> LazyTensor:
    size = tuple(ctx.expected[position].shape)
    return LazyTensor(x.builder, size, torch.uint8, x.device, lambda i: constant(0, torch.uint8), weight=0)


@register_lowering(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    ctx: Context, x: LazyTensor, weight: Any, bias: Any, mean_: LazyTensor, var: LazyTensor, momentum: float, eps: float
) -> Any:
    if _is_empty(x) or x.device.type != "cpu":
        return NotImplemented
    results, running = _training(ctx, x, weight, bias, mean_, var, momentum, eps)
    return [*results, _reserve(ctx, x, 3), *running]


@register_lowering(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    ctx: Context,
    grad: LazyTensor,
    x: LazyTensor,
    weight: Any,
    mean_: Any,
    var: Any,
    saved_mean: Any,
    saved_rstd: Any,
    training: bool,
    eps: float,
    mask: list[bool],
) -> Any:
    if _is_empty(x):
        return NotImplemented
    acc = compute_dtype(x.dtype)
    if training:
        center, rstd = saved_mean, saved_rstd
    else:
        center = to_dtype(mean_, acc)
        rstd = pointwise(formula(lambda v: rsqrt(v + eps)), var, dtype=acc, compute=acc, weight=3)
    return _backward(grad, x, weight, _channel(x, center), _channel(x, rstd), training, mask)


@register_lowering(aten.batch_norm_backward.default)
def batch_norm_backward(
    ctx: Context,
    grad: LazyTensor,
    x: LazyTensor,
    weight: Any,
    mean_: Any,
    var: Any,
    saved_mean: Any,
    saved_rstd: Any,
    update: bool,
    eps: float,
    mask: list[bool],
    reserve: Any,
) -> Any:
    if x.device.type != "cpu":
        return NotImplemented
    return native_batch_norm_backward(ctx, grad, x, weight, mean_, var, saved_mean, saved_rstd, update, eps, mask)


def _backward(
    grad: LazyTensor, x: LazyTensor, weight: Any, center: LazyTensor, rstd: LazyTensor, training: bool, mask: list[bool]
) -> list[LazyTensor | None]:
    acc = compute_dtype(x.dtype)
    dims, builder = _dims(x), x.builder
    builder.reuse(grad, x)
    count = numel_of(x, dims)
    total = reduce("sum", grad, dims, acc, True)
    product = pointwise(formula(lambda g, v, m: g * (v - m)), grad, x, center, dtype=acc, compute=acc, weight=2)
    dot = reduce("sum", product, dims, acc, True)
    scale = rstd if weight is None else pointwise(ops.mul, rstd, _channel(x, weight), dtype=acc, compute=acc)
    results: list[LazyTensor | None] = [None, None, None]
    if mask[0] and training:
        shift = pointwise(formula(lambda t, n: t / n), total, count, dtype=acc, compute=acc, weight=4)
        slope = pointwise(formula(lambda d, r, n: d * r * r / n), dot, rstd, count, dtype=acc, compute=acc, weight=6)
        for small in (shift, slope, scale):
            builder.realise(small)
        fn = formula(lambda g, v, m, a, b, s: (g - a - (v - m) * b) * s)
        results[0] = pointwise(fn, grad, x, center, shift, slope, scale, dtype=x.dtype, compute=acc, weight=5)
    elif mask[0]:
        results[0] = pointwise(ops.mul, grad, scale, dtype=x.dtype, compute=acc)
    kind = acc if weight is None else weight.dtype
    if mask[1]:
        results[1] = _flat(x, pointwise(ops.mul, dot, rstd, dtype=kind, compute=acc))
    if mask[2]:
        results[2] = _flat(x, to_dtype(total, kind))
    return results
