"""Scans of ATen: running sums, products, extremes with their positions, and logarithms of sums of exponentials."""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir.extents import as_extent, contiguous_strides, is_dense
from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.loops.table import SCANS
from triptych_inductor.lowering.common import full, to_dtype
from triptych_inductor.lowering.reductions import accumulate_dtype
from triptych_inductor.lowering.registry import LOWERINGS, Context, find_lowering, register_lowering
from triptych_inductor.passes.scans import scan_from_the_end

aten = torch.ops.aten


def _strides(ctx: Context, x: LazyTensor) -> tuple[Any, ...]:
    """Strides of the results: those of eager's where they are dense."""
    value = ctx.expected[0] if isinstance(ctx.expected, (tuple, list)) else ctx.expected
    wanted = tuple(as_extent(s) for s in value.stride())
    return wanted if is_dense(x.size, wanted) else contiguous_strides(x.size)


def _is_single(x: LazyTensor, dim: int) -> bool:
    return x.ndim == 0 or x.size[dim] == 1


def _running(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: int, *, dtype: Any = None, from_the_end: bool = False) -> Any:
        work = accumulate_dtype(ctx.dtype) if ctx.dtype.is_floating_point else ctx.dtype
        if work not in SCANS[kind][0]:
            return NotImplemented
        source = to_dtype(x, ctx.dtype)
        if _is_single(x, dim):
            return source
        return ctx.builder.scan(kind, source, dim % x.ndim, work, ctx.dtype, _strides(ctx, x), from_the_end)[0]

    return lowering


register_lowering(aten.cumsum)(_running("sum"))
register_lowering(aten.cumprod)(_running("prod"))
register_lowering(aten.logcumsumexp, aten._logcumsumexp)(_running("logaddexp"))


def _from_the_end(ctx: Context, op: Any, x: LazyTensor, dim: int, *, dtype: Any = None) -> Any:
    lowering = find_lowering(op)
    assert lowering is not None
    return lowering(ctx, x, dim, from_the_end=True)


LOWERINGS[scan_from_the_end] = _from_the_end


def _running_extreme(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: int) -> Any:
        if _is_single(x, dim):
            return x, full(x, x.size, 0, torch.int64)
        work = torch.uint8 if x.dtype is torch.bool else compute_dtype(x.dtype)
        if work not in SCANS[kind][0]:
            return NotImplemented
        source = to_dtype(x, torch.uint8) if x.dtype is torch.bool else x
        return ctx.builder.scan(kind, source, dim % x.ndim, work, x.dtype, _strides(ctx, x))

    return lowering


register_lowering(aten.cummax)(_running_extreme("max"))
register_lowering(aten.cummin)(_running_extreme("min"))
