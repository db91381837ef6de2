"""Reading and writing at computed places: embedding, gather, index, scatter and their backward ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.index import Index
from triptych_inductor.ir.nodes import Strided
from triptych_inductor.ir.tensors import Indices, LazyTensor, address, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.lowering.common import broadcast, constant, like, load, to_dtype
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten

INDEX_DTYPES = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


def position(index: LazyTensor, indices: Indices, size: Any, check: tuple[str, int] | None) -> Index:
    """A loaded index into an axis of `size`, checked at run time; `check` as in `ops.indirect`."""
    return ops.indirect(ops.cast(index.at(indices), torch.int64), size, check)


def stored(x: LazyTensor) -> LazyTensor:
    """The tensor in memory: reading it at scattered places must not recompute it."""
    x.builder.realise(x)
    return x


@register_lowering(aten.embedding)
def embedding(ctx: Context, weight: LazyTensor, index: LazyTensor, *_: Any) -> LazyTensor:
    stored(weight)

    def recipe(i: Indices) -> Value:
        place = position(index, i[:-1], weight.size[0], ("table", 0))
        return weight.at((place, i[-1]))

    size = as_extents(ctx.expected.shape)
    return LazyTensor(weight.builder, size, weight.dtype, weight.device, recipe, parents=(weight, index), weight=3)


@register_lowering(aten.gather)
def gather(ctx: Context, x: LazyTensor, dim: int, index: LazyTensor, *, sparse_grad: bool = False) -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return NotImplemented
    dim = dim % x.ndim
    stored(x)

    def recipe(i: Indices) -> Value:
        place = position(index, i, x.size[dim], ("gather", dim))
        return x.at((*i[:dim], place, *i[dim + 1 :]))

    return LazyTensor(x.builder, index.size, x.dtype, x.device, recipe, parents=(x, index), weight=3)


@register_lowering(aten.index_select)
def index_select(ctx: Context, x: LazyTensor, dim: int, index: LazyTensor) -> Any:
    if x.ndim == 0:
        return NotImplemented
    dim = dim % x.ndim
    stored(x)
    size = as_extents(ctx.expected.shape)

    def recipe(i: Indices) -> Value:
        place = position(index, (i[dim],) if index.ndim else (), x.size[dim], ("table", dim))
        return x.at((*i[:dim], place, *i[dim + 1 :]))

    return LazyTensor(x.builder, size, x.dtype, x.device, recipe, parents=(x, index), weight=3)


class Places:
    """The meaning of `x[i0, None, i2, ...]`: which dimensions are indexed, and where the index dimensions stand in
    the result."""

    def __init__(self, x: LazyTensor, indices: Sequence[LazyTensor | None]) -> None:
        self.x = x
        given = [t for t in indices if t is not None]
        self.tensors = list(broadcast(*given))
        self.dims = [d for d, t in enumerate(indices) if t is not None]
        self.index_ndim = self.tensors[0].ndim
        together = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.front = self.dims[0] if together else 0
        rest = [e for d, e in enumerate(x.size) if d not in self.dims]
        self.size = (*rest[: self.front], *self.tensors[0].size, *rest[self.front :])

    def source(self, i: Indices, checked: bool = True) -> Indices:
        """The element of `x` for a point of the result."""
        at = i[self.front : self.front + self.index_ndim]
        rest = iter((*i[: self.front], *i[self.front + self.index_ndim :]))
        places = {
            d: position(t, at, self.x.size[d], ("index", k) if checked else None)  # eager counts indexed dimensions
            for k, (d, t) in enumerate(zip(self.dims, self.tensors, strict=True))
        }
        return tuple([places[d] if d in places else next(rest) for d in range(self.x.ndim)])


@register_lowering(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(ctx: Context, x: LazyTensor, indices: Sequence[LazyTensor | None]) -> Any:
    if any(t is not None and t.dtype not in INDEX_DTYPES for t in indices) or all(t is None for t in indices):
        return NotImplemented
    places = Places(stored(x), indices)
    parents = (x, *places.tensors)
    return LazyTensor(
        x.builder, places.size, x.dtype, x.device, lambda i: x.at(places.source(i)), parents=parents, weight=3
    )


def _fresh_copy(x: LazyTensor, stride: Sequence[Any]) -> Strided:
    """New memory with the tensor's contents, for a scatter to write into."""
    return x.builder.copy(x, stride)


def _expected_strides(ctx: Context, x: LazyTensor) -> tuple[Any, ...]:
    return as_extents(ctx.expected.stride())


@register_lowering(aten.index_put, aten._unsafe_index_put)
def index_put(
    ctx: Context, x: LazyTensor, indices: Sequence[LazyTensor | None], values: LazyTensor, accumulate: bool = False
) -> Any:
    if any(t is not None and t.dtype is torch.bool for t in indices):
        return _masked_put(ctx, x, indices, values, accumulate)
    return NotImplemented  # colliding stores and sums follow torch's sequence: its own kernel


def _masked_put(ctx: Context, x: LazyTensor, indices: Sequence[Any], values: LazyTensor, accumulate: bool) -> Any:
    """`x[mask] = number` is a choice, point by point."""
    if len(indices) != 1 or accumulate or values.ndim > 1 or (values.ndim == 1 and values.size[0] != 1):
        return NotImplemented
    mask = indices[0]
    compute = compute_dtype(x.dtype)
    while mask.ndim < x.ndim:
        mask = views.unsqueeze(mask, mask.ndim)
    mask = views.expand(mask, x.size)
    scalar = views.reshape(values, ())

    def recipe(i: Indices) -> Value:
        return ops.where(mask.at(i), ops.cast(scalar.at(()), compute), x.at(i))

    return like(x, recipe, x.dtype, x, mask, scalar)


@register_lowering(aten.scatter.value)
def scatter_value(ctx: Context, x: LazyTensor, dim: int, index: LazyTensor, value: Any) -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return NotImplemented
    builder, dim = ctx.builder, dim % x.ndim
    target = _fresh_copy(x, _expected_strides(ctx, x))

    def body(i: Indices) -> None:
        place = position(index, i, x.size[dim], ("gather", dim))
        ops.store(target.buffer.name, address(target, (*i[:dim], place, *i[dim + 1 :])), constant(value, x.dtype))

    builder.scatter(target, index.size, body, x.device)
    return builder.of_buffer(target.buffer)


@register_lowering(aten.nll_loss_forward)
def nll_loss_forward(
    ctx: Context, x: LazyTensor, target: LazyTensor, weight: Any, reduction: int, ignore_index: int
) -> Any:
    if x.ndim > 2 or x.ndim == 0 or (x.ndim == 2 and x.size[0] == 0):
        return NotImplemented
    output, total = ctx.expected
    acc = compute_dtype(x.dtype)
    classes, builder = x.size[-1], ctx.builder

    def parts(i: Indices) -> tuple[Value, Value]:
        label = ops.cast(target.at(i), torch.int64)
        valid = ops.ne(label, constant(ignore_index, torch.int64))
        safe = ops.where(valid, label, ops.constant(0, torch.int64))
        place = _class_index(safe, classes)
        scale = ops.constant(1.0, acc) if weight is None else load(weight, (place,), acc)
        picked = ops.cast(x.at((*i, place)), acc)
        zero = ops.constant(0.0, acc)
        return ops.where(valid, ops.neg(ops.mul(picked, scale)), zero), ops.where(valid, scale, zero)

    parents = [t for t in (x, target, weight) if t is not None]
    size = target.size
    losses = LazyTensor(builder, size, acc, x.device, lambda i: parts(i)[0], parents=parents, weight=5)
    if reduction == 0:
        zero = LazyTensor(
            builder, (), total.dtype, x.device, lambda i: constant(0, compute_dtype(total.dtype)), weight=0
        )
        return to_dtype(losses, output.dtype), zero
    scales = LazyTensor(builder, size, acc, x.device, lambda i: parts(i)[1], parents=parents, weight=3)
    dims = tuple(range(len(size)))
    loss_sum = builder.reduction("sum", losses, dims, acc)[0]
    scale_sum = builder.reduction("sum", scales, dims, acc)[0]
    if reduction == 1:
        result = LazyTensor(
            builder,
            (),
            output.dtype,
            x.device,
            lambda i: ops.truediv(loss_sum.at(i), scale_sum.at(i)),
            parents=(loss_sum, scale_sum),
            weight=4,
        )
    else:
        result = to_dtype(loss_sum, output.dtype)
    return result, to_dtype(scale_sum, total.dtype)


def _class_index(label: Value, classes: Any) -> Index:
    """A class label as an index."""
    return ops.indirect(label, classes, ("class", 0))


@register_lowering(aten.nll_loss_backward)
def nll_loss_backward(
    ctx: Context,
    grad: LazyTensor,
    x: LazyTensor,
    target: LazyTensor,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total: LazyTensor,
) -> Any:
    if x.ndim > 2 or x.ndim == 0:
        return NotImplemented
    acc = compute_dtype(x.dtype)

    def recipe(i: Indices) -> Value:
        label = ops.cast(target.at(i[:-1]), torch.int64)
        hit = ops.eq(ops.index_expr(i[-1], torch.int64), label)
        valid = ops.ne(label, constant(ignore_index, torch.int64))
        scale = ops.constant(-1.0, acc) if weight is None else ops.neg(load(weight, (i[-1],), acc))
        upstream = ops.cast(grad.at(i[:-1] if grad.ndim else ()), acc)
        if reduction == 1:
            upstream = ops.truediv(upstream, ops.cast(total.at(()), acc))
        return ops.where(ops.logical_and(hit, valid), ops.mul(scale, upstream), ops.constant(0.0, acc))

    parents = [t for t in (grad, target, weight, total) if t is not None]
    return LazyTensor(ctx.builder, x.size, x.dtype, x.device, recipe, parents=parents, weight=6)
