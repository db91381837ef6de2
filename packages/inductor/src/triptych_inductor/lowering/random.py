"""Random numbers on CPUs follow eager's generator: the draw is torch's own call, the arithmetic around it is
compiled."""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.nodes import Buffer
from triptych_inductor.ir.tensors import LazyTensor, compute_dtype, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.lowering.common import constant, pointwise
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


def bernoulli_mask(ctx: Context, expected: torch.Tensor, probability: float) -> LazyTensor:
    """A bool mask drawn as `torch.empty(..., dtype=bool).bernoulli_(probability)`."""
    builder = ctx.builder
    empty: Buffer = new_buffer(
        builder, as_extents(expected.shape), as_extents(expected.stride()), torch.bool, expected.device
    )
    window = builder.of_buffer(empty)
    empty.aliased = True
    builder.extern(aten.bernoulli_.float, (window, probability), {}, [], ordered=True, mutates=frozenset({empty.name}))
    return window


@register_lowering(aten.native_dropout)
def native_dropout(ctx: Context, x: LazyTensor, p: float, train: Any) -> Any:
    output, mask = ctx.expected
    if x.device.type != "cpu" or not isinstance(p, (int, float)) or train is False:
        return NotImplemented
    acc = compute_dtype(x.dtype)
    if p == 1:
        zero = LazyTensor(ctx.builder, x.size, x.dtype, x.device, lambda i: constant(0, acc), weight=0)
        return zero, LazyTensor(
            ctx.builder, x.size, torch.bool, x.device, lambda i: constant(False, torch.bool), weight=0
        )
    drawn = bernoulli_mask(ctx, mask, 1 - p)
    scale = 1.0 / (1.0 - p)
    result = pointwise(
        lambda v, m: ops.mul(ops.mul(v, m), constant(scale, acc)), x, drawn, dtype=output.dtype, compute=acc, weight=3
    )
    return result, drawn


@register_lowering(aten.native_dropout_backward)
def native_dropout_backward(ctx: Context, grad: LazyTensor, mask: LazyTensor, scale: Any) -> Any:
    acc = compute_dtype(grad.dtype)
    if not acc.is_floating_point:
        return NotImplemented
    return pointwise(
        lambda g, m: ops.mul(ops.mul(g, m), constant(scale, acc)), grad, mask, dtype=ctx.dtype, compute=acc, weight=3
    )
