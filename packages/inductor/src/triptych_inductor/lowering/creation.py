"""Tensors made from nothing: constants, ranges, uninitialised memory."""

from __future__ import annotations

from typing import Any

import sympy
import torch

from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.index import Index
from triptych_inductor.ir.tensors import Indices, LazyTensor, compute_dtype, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.lowering.common import constant
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


def filled(ctx: Context, value: Any) -> LazyTensor:
    """A constant tensor of the node's expected size and dtype."""
    dtype = compute_dtype(ctx.dtype)
    return LazyTensor(
        ctx.builder,
        as_extents(ctx.expected.shape),
        ctx.dtype,
        ctx.device,
        lambda i: ops.cast(constant(value, ctx_dtype(ctx, value, dtype)), dtype),
        weight=0,
    )


def ctx_dtype(ctx: Context, value: Any, dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a fill value is exact before it is cast: float64 for floats stored into integers."""
    if isinstance(value, float) and not dtype.is_floating_point:
        return torch.float64
    return dtype


@register_lowering(aten.full, aten.full_like, aten.new_full)
def full(ctx: Context, *args: Any, **kwargs: Any) -> LazyTensor:
    value = kwargs.get("fill_value", args[-1])
    if ctx.node.target is aten.new_full.default:
        value = args[2]
    elif len(args) > 1:
        value = args[1]
    return filled(ctx, value)


@register_lowering(aten.zeros, aten.zeros_like, aten.new_zeros, aten._efficientzerotensor)
def zeros(ctx: Context, *_: Any, **__: Any) -> LazyTensor:
    return filled(ctx, 0)


@register_lowering(aten.ones, aten.ones_like, aten.new_ones)
def ones(ctx: Context, *_: Any, **__: Any) -> LazyTensor:
    return filled(ctx, 1)


@register_lowering(aten.scalar_tensor)
def scalar_tensor(ctx: Context, value: Any, **_: Any) -> LazyTensor:
    return filled(ctx, value)


@register_lowering(aten.fill.Scalar)
def fill_scalar(ctx: Context, x: LazyTensor, value: Any) -> LazyTensor:
    return filled(ctx, value)


@register_lowering(aten.fill.Tensor)
def fill_tensor(ctx: Context, x: LazyTensor, value: LazyTensor) -> LazyTensor:
    dtype = compute_dtype(x.dtype)
    return LazyTensor(
        x.builder, x.size, x.dtype, x.device, lambda i: ops.cast(value.at(()), dtype), parents=(value,), weight=0
    )


@register_lowering(
    aten.empty.memory_format,
    aten.empty_like,
    aten.new_empty,
    aten.empty_strided,
    aten.new_empty_strided,
    aten.empty_permuted,
)
def empty(ctx: Context, *_: Any, **__: Any) -> LazyTensor:
    """Uninitialised memory: an allocation without a kernel."""
    value = ctx.expected
    buffer = new_buffer(ctx.builder, as_extents(value.shape), as_extents(value.stride()), value.dtype, value.device)
    return ctx.builder.of_buffer(buffer)


@register_lowering(aten.arange)
def arange(ctx: Context, *args: Any, **_: Any) -> Any:
    start, step = 0, 1
    if len(args) >= 2:
        start = args[0]
    if len(args) >= 3:
        step = args[2]
    numbers = (start, step)
    integral = all(isinstance(n, int) or (isinstance(n, sympy.Expr) and n.is_integer) for n in numbers)
    dtype = compute_dtype(ctx.dtype)

    def by_index(i: Indices) -> Value:
        return ops.cast(ops.index_expr(i[0] * step + Index.of(start), torch.int64), dtype)

    def by_value(i: Indices) -> Value:
        # As ATen: in double for floating results.
        place = ops.cast(ops.index_expr(i[0], torch.int64), torch.float64)
        value = ops.add(constant(start, torch.float64), ops.mul(place, constant(step, torch.float64)))
        return ops.cast(value, dtype)

    recipe = by_index if integral else by_value
    return LazyTensor(ctx.builder, as_extents(ctx.expected.shape), ctx.dtype, ctx.device, recipe, weight=2)


@register_lowering(torch.ops.prims.iota)
def iota(ctx: Context, length: Any, *, start: Any, step: Any, **_: Any) -> LazyTensor:
    dtype = compute_dtype(ctx.dtype)
    return LazyTensor(
        ctx.builder,
        as_extents(ctx.expected.shape),
        ctx.dtype,
        ctx.device,
        lambda i: ops.cast(ops.index_expr(i[0] * step + Index.of(start), torch.int64), dtype),
        weight=2,
    )


def _triangle(ctx: Context, x: LazyTensor, diagonal: int, lower: bool) -> LazyTensor:
    dtype = compute_dtype(x.dtype)

    def recipe(i: Indices) -> Value:
        offset = ops.index_expr(i[-1] - i[-2], torch.int64)
        keep = (ops.le if lower else ops.ge)(offset, constant(diagonal, torch.int64))
        return ops.where(keep, x.at(i), constant(0, dtype))

    return LazyTensor(x.builder, x.size, x.dtype, x.device, recipe, parents=(x,), weight=3)


@register_lowering(aten.tril)
def tril(ctx: Context, x: LazyTensor, diagonal: int = 0) -> LazyTensor:
    return _triangle(ctx, x, diagonal, True)


@register_lowering(aten.triu)
def triu(ctx: Context, x: LazyTensor, diagonal: int = 0) -> LazyTensor:
    return _triangle(ctx, x, diagonal, False)


@register_lowering(aten.eye)
def eye(ctx: Context, *_: Any, **__: Any) -> LazyTensor:
    dtype = compute_dtype(ctx.dtype)

    def recipe(i: Indices) -> Value:
        row, column = (ops.index_expr(ix, torch.int64) for ix in i)
        return ops.where(ops.eq(row, column), constant(1, dtype), constant(0, dtype))

    return LazyTensor(ctx.builder, as_extents(ctx.expected.shape), ctx.dtype, ctx.device, recipe, weight=3)
