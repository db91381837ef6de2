"""Pooling over windows small enough to unroll: maximum (with positions) and average.

Larger windows are left to torch, and so are the backward ops (`externs.py`): measured, torch's are faster. Windows
overlap, so that an inlined input is recomputed: it is stored first unless it is cheap and windows overlap little
(batch norm and ReLU before the pooling of a ResNet: 13.2 ms a pass with the store, 9.7 without).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.index import Index
from triptych_inductor.ir.tensors import Indices, LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering.common import constant
from triptych_inductor.lowering.registry import Context, register_lowering
from triptych_inductor.lowering.shapes import masked_at

aten = torch.ops.aten

# Most elements of a window that is unrolled.
LARGEST_WINDOW = 32
# An inlined input of maximum pooling is computed at most so many times an element, and weighs at most so much.
RECOMPUTED = 3
RECOMPUTED_WEIGHT = 8


def _pair(value: Any, default: Sequence[int] = ()) -> tuple[int, int]:
    """Window parameters: one number or two, or the default for none."""
    if isinstance(value, int):
        return value, value
    given = list(value) or list(default)
    return (given[0], given[-1])


def _users_of_part(ctx: Context, position: int) -> int:
    return sum(len(u.users) for u in ctx.node.users if u.args[1] == position)


def _stored(x: LazyTensor) -> int:
    """Store the input: nothing of it is inlined."""
    x.builder.realise(x)
    return 0


def _inlined_weight(x: LazyTensor, kernel: tuple[int, int], stride: tuple[int, int]) -> int:
    """What an inlined input weighs an element; it is stored where it is dear or windows overlap much."""
    weight = sum(t.weight for t in x.pending())
    often = kernel[0] * kernel[1] > RECOMPUTED * stride[0] * stride[1]
    return _stored(x) if often or weight > RECOMPUTED_WEIGHT else weight


@register_lowering(aten.max_pool2d_with_indices)
def max_pool2d_with_indices(
    ctx: Context,
    x: LazyTensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    k, d, p = _pair(kernel), _pair(dilation), _pair(padding)
    s = _pair(stride, k)
    if k[0] * k[1] > LARGEST_WINDOW or x.dtype not in FLOAT or x.ndim not in (3, 4):
        return NotImplemented
    places = _users_of_part(ctx, 1)
    inlined = _inlined_weight(x, k, s) if not places else _stored(x)
    compute, size = compute_dtype(x.dtype), as_extents(ctx.expected[0].shape)
    low = float("-inf")

    def window(i: Indices) -> list[tuple[Value, Index]]:
        found = []
        for a in range(k[0]):
            for b in range(k[1]):
                row, column = i[-2] * s[0] + (a * d[0] - p[0]), i[-1] * s[1] + (b * d[1] - p[1])
                found.append((masked_at(x, (*i[:-2], row, column), low), row * x.size[-1] + column))
        return found

    def largest(i: Indices) -> Value:
        values = [v for v, _ in window(i)]
        best = values[0]
        for v in values[1:]:
            best = ops.maximum(best, v)
        return best

    def place(i: Indices) -> Value:
        elements = window(i)
        best, where = constant(low, compute), first_place(i)
        for v, index in elements:
            better = ops.logical_or(ops.gt(v, best), ops.isnan(v))
            best = ops.where(better, v, best)
            where = ops.where(better, ops.index_expr(index, torch.int64), where)
        return where

    def first_place(i: Indices) -> Value:
        """The first element inside the tensor: the place of a window of nothing but -inf."""
        axes = []
        for n in range(2):
            start = ops.index_expr(i[n - 2] * s[n] - p[n], torch.int64)
            step = ops.constant(d[n], torch.int64)
            zero = ops.constant(0, torch.int64)
            behind = ops.remainder(start, step) if d[n] != 1 else zero
            axes.append(start if p[n] == 0 else ops.where(ops.lt(start, zero), behind, start))
        return ops.add(ops.mul(axes[0], ops.index_expr(Index.of(x.size[-1]), torch.int64)), axes[1])

    weight = (2 + inlined) * k[0] * k[1]
    values = LazyTensor(x.builder, size, x.dtype, x.device, largest, parents=(x,), weight=weight)
    if not places:
        return values, None
    return values, LazyTensor(x.builder, size, torch.int64, x.device, place, parents=(x,), weight=2 * weight)


@register_lowering(aten.avg_pool2d)
def avg_pool2d(
    ctx: Context,
    x: LazyTensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Any:
    k, p = _pair(kernel), _pair(padding)
    s = _pair(stride, k)
    if k[0] * k[1] > LARGEST_WINDOW or x.dtype not in FLOAT or ceil_mode:
        return NotImplemented
    padded = p != (0, 0)
    if padded and not count_include_pad and divisor_override is None:
        return NotImplemented
    x.builder.realise(x)
    compute, size = compute_dtype(x.dtype), as_extents(ctx.expected.shape)
    count = divisor_override or k[0] * k[1]

    def recipe(i: Indices) -> Value:
        total: Value | None = None
        for a in range(k[0]):
            for b in range(k[1]):
                at = (*i[:-2], i[-2] * s[0] + (a - p[0]), i[-1] * s[1] + (b - p[1]))
                value = masked_at(x, at, 0.0)
                total = value if total is None else ops.add(total, value)
        return ops.truediv(total, constant(count, compute))

    return LazyTensor(x.builder, size, x.dtype, x.device, recipe, parents=(x,), weight=k[0] * k[1] + 4)
