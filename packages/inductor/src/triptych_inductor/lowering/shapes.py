"""View ops of ATen, and the ops that join, pad and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.extents import Extent, as_extents, product, tidy, times
from triptych_inductor.ir.index import ZERO, Index, remainder
from triptych_inductor.ir.nodes import Buffer, Strided
from triptych_inductor.ir.tensors import Indices, LazyTensor, compute_dtype, new_buffer, view
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.lowering.common import constant, like, load, to_dtype
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


@register_lowering(aten.view.default, aten._unsafe_view, aten.reshape, aten._reshape_alias)
def reshape(ctx: Context, x: LazyTensor, size: Sequence[Extent], *_: Any) -> LazyTensor:
    return views.reshape(x, as_extents(ctx.expected.shape))


@register_lowering(aten.flatten.using_ints, aten.unflatten.int)
def reshape_as_expected(ctx: Context, x: LazyTensor, *_: Any) -> LazyTensor:
    return views.reshape(x, as_extents(ctx.expected.shape))


@register_lowering(aten.permute)
def permute(ctx: Context, x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    return views.permute(x, dims)


@register_lowering(aten.t)
def t(ctx: Context, x: LazyTensor) -> LazyTensor:
    return views.permute(x, (1, 0)) if x.ndim == 2 else x


@register_lowering(aten.transpose.int)
def transpose(ctx: Context, x: LazyTensor, a: int, b: int) -> LazyTensor:
    if x.ndim == 0:
        return x
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return views.permute(x, order)


@register_lowering(aten.expand)
def expand(ctx: Context, x: LazyTensor, size: Sequence[Extent], *, implicit: bool = False) -> LazyTensor:
    return views.expand(x, as_extents(ctx.expected.shape))


@register_lowering(aten.unsqueeze)
def unsqueeze(ctx: Context, x: LazyTensor, dim: int) -> LazyTensor:
    return views.unsqueeze(x, dim)


@register_lowering(aten.squeeze)
def squeeze(ctx: Context, x: LazyTensor, dims: Any = None) -> LazyTensor:
    chosen = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    return views.squeeze(x, list(chosen))


def _clamped(value: Any, size: Extent, default: Extent) -> Extent:
    """A slice bound, negative ones counted from the end and all cut to the dimension."""
    if value is None:
        return default
    if type(value) is int and type(size) is int:
        value = value + size if value < 0 else value
        return min(max(value, 0), size)
    if type(value) is int and value < 0:
        return tidy(size + value)
    if type(value) is int and value >= (1 << 62):
        return size
    return value


@register_lowering(aten.slice.Tensor)
def slice_(ctx: Context, x: LazyTensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> LazyTensor:
    dim = dim % x.ndim
    length = as_extents(ctx.expected.shape)[dim]
    return views.strided_slice(x, dim, _clamped(start, x.size[dim], 0), length, step)


@register_lowering(aten.select.int)
def select(ctx: Context, x: LazyTensor, dim: int, index: Extent) -> Any:
    dim = dim % x.ndim
    if type(index) is int:
        return views.select(x, dim, tidy(index + x.size[dim]) if index < 0 else index)
    return views.select(x, dim, index) if index.is_nonnegative else NotImplemented


@register_lowering(aten.narrow.default)
def narrow(ctx: Context, x: LazyTensor, dim: int, start: Extent, length: Extent) -> Any:
    return slice_(ctx, x, dim, start, None)


def _pieces(x: LazyTensor, dim: int, lengths: Sequence[Extent]) -> list[LazyTensor]:
    dim, start, parts = dim % x.ndim, 0, []
    for length in lengths:
        parts.append(views.strided_slice(x, dim, start, length))
        start = tidy(start + length)
    return parts


@register_lowering(
    aten.split.Tensor,
    aten.split.sizes,
    aten.split_with_sizes,
    aten.chunk,
    aten.unsafe_split,
    aten.unsafe_chunk,
    aten.unsafe_split_with_sizes,
    aten.split_with_sizes_copy,
    aten.tensor_split.sections,
)
def split(ctx: Context, x: LazyTensor, _: Any, dim: int = 0) -> list[LazyTensor]:
    return _pieces(x, dim, [as_extents(v.shape)[dim % x.ndim] for v in ctx.expected])


@register_lowering(aten.unbind.int)
def unbind(ctx: Context, x: LazyTensor, dim: int = 0) -> list[LazyTensor]:
    dim = dim % x.ndim
    return [views.select(x, dim, k) for k in range(len(ctx.expected))]


@register_lowering(aten.diagonal)
def diagonal(ctx: Context, x: LazyTensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> LazyTensor:
    return views.diagonal(x, offset, dim1 % x.ndim, dim2 % x.ndim, as_extents(ctx.expected.shape)[-1])


@register_lowering(aten.unfold)
def unfold(ctx: Context, x: LazyTensor, dim: int, length: int, step: int) -> Any:
    if x.ndim == 0:
        return NotImplemented
    dim = dim % x.ndim
    return views.unfold(x, dim, length, step, as_extents(ctx.expected.shape)[dim])


@register_lowering(aten.as_strided)
def as_strided(
    ctx: Context, x: LazyTensor, size: Sequence[Extent], stride: Sequence[Extent], storage_offset: Any = None
) -> LazyTensor:
    window = x.builder.realise(x) if x.stride is None else x.builder.realise_with(x, x.stride)
    offset = window.offset if storage_offset is None else tidy(storage_offset - window.buffer.offset)
    strided = Strided(window.buffer, as_extents(size), as_extents(stride), offset)
    return LazyTensor(x.builder, strided.size, x.dtype, x.device, strided=strided, weight=0)


@register_lowering(aten.flip)
def flip(ctx: Context, x: LazyTensor, dims: Sequence[int]) -> LazyTensor:
    return views.flip(x, dims)


@register_lowering(
    aten.alias,
    aten.detach,
    aten.lift_fresh,
    aten.lift,
    aten.view_as,
    aten.contiguous,
    aten.real,
    aten._conj,
    aten.resolve_conj,
    aten.resolve_neg,
    aten._neg_view.default,
)
def identity(ctx: Context, x: LazyTensor, *_: Any, **__: Any) -> Any:
    if ctx.node.target is aten._neg_view.default:
        return NotImplemented
    return x


@register_lowering(aten.clone, aten.lift_fresh_copy, aten.alias_copy, aten.detach_copy)
def clone(ctx: Context, x: LazyTensor, *, memory_format: Any = None) -> LazyTensor:
    return like(x, lambda i: x.at(i), x.dtype, weight=0)


@register_lowering(aten._to_copy, aten.to)
def to_copy(ctx: Context, x: LazyTensor, *_: Any, **kwargs: Any) -> Any:
    if x.device != ctx.device:
        return NotImplemented
    return to_dtype(x, ctx.dtype) if x.dtype is not ctx.dtype else like(x, lambda i: x.at(i), x.dtype, weight=0)


@register_lowering(torch.ops.prims.convert_element_type)
def convert_element_type(ctx: Context, x: LazyTensor, dtype: torch.dtype) -> LazyTensor:
    return to_dtype(x, dtype)


@register_lowering(aten.view.dtype)
def view_dtype(ctx: Context, x: LazyTensor, dtype: torch.dtype) -> Any:
    if dtype.itemsize != x.dtype.itemsize or torch.bool in (dtype, x.dtype):
        return NotImplemented
    source, final = x.dtype, compute_dtype(dtype)
    return like(x, lambda i: ops.cast(ops.bitcast(ops.cast(x.at(i), source), dtype), final), dtype)


# -- joining
# ------------------------------------------------------------------------------------------------------------


@register_lowering(aten.cat)
def cat(ctx: Context, tensors: Sequence[LazyTensor], dim: int = 0) -> LazyTensor:
    """Each part is stored into its slice of one buffer, so that its producer can be fused with the store."""
    size = as_extents(ctx.expected.shape)
    dim = dim % len(size)
    parts = [t for t in tensors if not (t.ndim == 1 and t.size[0] == 0 and len(size) != 1)]
    if len(parts) == 1:
        return clone(ctx, to_dtype(parts[0], ctx.dtype))
    return join(ctx, parts, dim, size)


def join(ctx: Context, parts: Sequence[LazyTensor], dim: int, size: Sequence[Extent]) -> LazyTensor:
    """Concatenation by stores into windows of a new buffer."""
    builder = ctx.builder
    for part in parts:  # a shared recipe would be evaluated here and by its other users
        builder.consider(part, 1)
    from_buffer = _target(ctx, size)
    whole = Strided(from_buffer, from_buffer.size, from_buffer.stride)
    start: Extent = 0
    for part in parts:
        extent = part.size[dim]
        window = Strided(from_buffer, part.size, whole.stride, times(start, whole.stride[dim]))
        builder.store(to_dtype(part, ctx.dtype), window, part=True)
        start = tidy(start + extent)
    return builder.of_buffer(from_buffer)


def _target(ctx: Context, size: Sequence[Extent]) -> Buffer:
    return new_buffer(ctx.builder, size, as_extents(ctx.expected.stride()), ctx.dtype, ctx.device)


@register_lowering(aten.stack)
def stack(ctx: Context, tensors: Sequence[LazyTensor], dim: int = 0) -> LazyTensor:
    size = as_extents(ctx.expected.shape)
    dim = dim % len(size)
    return join(ctx, [views.unsqueeze(t, dim) for t in tensors], dim, size)


def inside(index: Index, size: Extent) -> Value | None:
    """A bool value telling whether 0 <= index < size; None where that is known."""
    checks = []
    if not index.nonnegative:
        checks.append(ops.ge(ops.index_expr(index, torch.int64), ops.constant(0, torch.int64)))
    if not index.below(size):
        bound = ops.index_expr(Index.of(size), torch.int64)
        checks.append(ops.lt(ops.index_expr(index, torch.int64), bound))
    if not checks:
        return None
    return checks[0] if len(checks) == 1 else ops.logical_and(checks[0], checks[1])


def masked_at(x: LazyTensor, indices: Indices, other: Any) -> Value:
    """The element at `indices` where they are inside the tensor, else the number `other`."""
    mask: Value | None = None
    for index, size in zip(indices, x.size, strict=True):
        check = inside(index, size)
        if check is not None:
            mask = check if mask is None else ops.logical_and(mask, check)
    return x.at(indices) if mask is None else ops.masked(mask, lambda: x.at(indices), other)


@register_lowering(aten.constant_pad_nd)
def constant_pad_nd(ctx: Context, x: LazyTensor, pad: Sequence[Extent], value: Any = 0) -> Any:
    size = as_extents(ctx.expected.shape)
    before = [0] * x.ndim
    for k in range(len(pad) // 2):
        before[x.ndim - 1 - k] = pad[2 * k]
    if isinstance(value, sympy.Expr):
        return NotImplemented
    number = float(value) if x.dtype.is_floating_point else int(value) if x.dtype is not torch.bool else bool(value)

    def recipe(i: Indices) -> Value:
        return masked_at(x, tuple([ix - b for ix, b in zip(i, before, strict=True)]), number)

    return LazyTensor(x.builder, size, x.dtype, x.device, recipe, parents=(x,), weight=2)


@register_lowering(aten.repeat)
def repeat(ctx: Context, x: LazyTensor, repeats: Sequence[Extent]) -> LazyTensor:
    size = as_extents(ctx.expected.shape)
    lead = len(size) - x.ndim

    def translate(i: Indices) -> list[Index]:
        return [
            ZERO if e == 1 else i[lead + d] if i[lead + d].below(e) else remainder(i[lead + d], e)
            for d, e in enumerate(x.size)
        ]

    return view(x, size, translate, lambda w: None)


@register_lowering(aten.roll)
def roll(ctx: Context, x: LazyTensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not dims or any(type(x.size[d]) is not int for d in dims) or product(x.size) == 0:
        return NotImplemented
    moved: dict[int, int] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        moved[dim % x.ndim] = moved.get(dim % x.ndim, 0) + shift

    def translate(i: Indices) -> list[Index]:
        return [remainder(ix + (-moved[d] % x.size[d]), x.size[d]) if d in moved else ix for d, ix in enumerate(i)]

    return view(x, x.size, translate, lambda w: None)


# -- writing into a part
# --------------------------------------------------------------------------------------------------


@register_lowering(aten.slice_scatter)
def slice_scatter(
    ctx: Context, x: LazyTensor, source: LazyTensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    dim = dim % x.ndim
    first, length = _clamped(start, x.size[dim], 0), source.size[dim]
    if type(first) is not int or type(length) is not int or type(x.size[dim]) is not int:
        return NotImplemented
    if step != 1 or length == 0:
        return NotImplemented
    last, compute = first + length - 1, compute_dtype(x.dtype)

    def recipe(i: Indices) -> Value:
        position = ops.index_expr(i[dim], torch.int64)
        above = ops.ge(position, ops.constant(first, torch.int64))
        mask = ops.logical_and(above, ops.le(position, ops.constant(last, torch.int64)))
        new = ops.masked(mask, lambda: load(source, (*i[:dim], i[dim] - first, *i[dim + 1 :]), compute), 0)
        return ops.where(mask, new, x.at(i))

    return like(x, recipe, x.dtype, x, source, weight=3)


@register_lowering(aten.select_scatter)
def select_scatter(ctx: Context, x: LazyTensor, source: LazyTensor, dim: int, index: Extent) -> Any:
    dim = dim % x.ndim
    if type(index) is not int or type(x.size[dim]) is not int:
        return NotImplemented
    chosen, compute = index % x.size[dim], compute_dtype(x.dtype)

    def recipe(i: Indices) -> Value:
        position = ops.index_expr(i[dim], torch.int64)
        new = load(source, (*i[:dim], *i[dim + 1 :]), compute)
        return ops.where(ops.eq(position, ops.constant(chosen, torch.int64)), new, x.at(i))

    return like(x, recipe, x.dtype, x, source, weight=2)


@register_lowering(aten.slice_backward)
def slice_backward(
    ctx: Context, grad: LazyTensor, sizes: Sequence[Extent], dim: int, start: Extent, end: Extent, step: int
) -> Any:
    dim = dim % len(sizes)
    if step != 1:
        return NotImplemented
    first = _clamped(start, sizes[dim], 0)

    def recipe(i: Indices) -> Value:
        return masked_at(grad, (*i[:dim], i[dim] - first, *i[dim + 1 :]), 0)

    return LazyTensor(grad.builder, as_extents(sizes), grad.dtype, grad.device, recipe, parents=(grad,), weight=2)


@register_lowering(aten.select_backward)
def select_backward(ctx: Context, grad: LazyTensor, sizes: Sequence[Extent], dim: int, index: Extent) -> Any:
    dim = dim % len(sizes)
    if type(index) is not int:
        return NotImplemented
    chosen = index if index >= 0 else tidy(index + sizes[dim])
    zero = 0.0 if grad.dtype.is_floating_point else 0

    def recipe(i: Indices) -> Value:
        hit = ops.eq(ops.index_expr(i[dim], torch.int64), constant(chosen, torch.int64))
        return ops.where(hit, grad.at((*i[:dim], *i[dim + 1 :])), constant(zero, compute_dtype(grad.dtype)))

    return LazyTensor(grad.builder, as_extents(sizes), grad.dtype, grad.device, recipe, parents=(grad,), weight=2)
