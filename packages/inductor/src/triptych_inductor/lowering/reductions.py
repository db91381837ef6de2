"""Reductions of ATen: sums, products, extrema, means, variances, norms and tests."""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering import formula as f
from triptych_inductor.lowering.common import constant, normalise_dims, numel_of, pointwise, reduce, to_dtype
from triptych_inductor.lowering.formula import Term, formula
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten

# Reductions longer than this compute variance in one pass (Welford); shorter ones in two, over a row that stays in
# the cache.
TWO_PASS_LIMIT = 16384


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype a sum is kept in: float32 for half types, int64 for integers and bools."""
    if dtype in FLOAT:
        return compute_dtype(dtype)
    return torch.int64


def cast_result(x: LazyTensor, dtype: torch.dtype) -> LazyTensor:
    """A reduction's result in the op's dtype."""
    return x if x.dtype is dtype else to_dtype(x, dtype)


@register_lowering(aten.sum)
def sum_(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> LazyTensor:
    source = to_dtype(x, dtype) if dtype is not None else x
    dims = normalise_dims(dim, x.ndim)
    return cast_result(reduce("sum", source, dims, accumulate_dtype(ctx.dtype), keepdim), ctx.dtype)


@register_lowering(aten.prod)
def prod(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> LazyTensor:
    source = to_dtype(x, dtype) if dtype is not None else x
    dims = normalise_dims(dim, x.ndim)
    return cast_result(reduce("prod", source, dims, accumulate_dtype(ctx.dtype), keepdim), ctx.dtype)


@register_lowering(aten.mean)
def mean(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> LazyTensor:
    source = to_dtype(x, dtype) if dtype is not None else x
    return mean_of(source, normalise_dims(dim, x.ndim), keepdim, ctx.dtype)


def mean_of(x: LazyTensor, dims: tuple[int, ...], keepdim: bool, dtype: torch.dtype) -> LazyTensor:
    """Sum over `dims` divided by their number of elements."""
    total = reduce("sum", x, dims, accumulate_dtype(dtype), keepdim)
    count = numel_of(x, dims)
    return pointwise(lambda s, n: ops.truediv(s, n), total, count, dtype=dtype, compute=total.dtype, weight=2)


def _extremum(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False) -> Any:
        dims = normalise_dims(dim, x.ndim)
        if any(x.size[d] == 0 for d in dims):
            return NotImplemented
        return cast_result(reduce(kind, x, dims, compute_dtype(x.dtype), keepdim), x.dtype)

    return lowering


register_lowering(aten.amax)(_extremum("max"))
register_lowering(aten.amin)(_extremum("min"))
register_lowering(aten.max.default)(_extremum("max"))
register_lowering(aten.min.default)(_extremum("min"))


def _position(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False) -> Any:
        dims = normalise_dims(dim, x.ndim)
        if x.ndim == 0 or any(x.size[d] == 0 for d in dims):
            return NotImplemented
        return reduce(kind, x, dims, compute_dtype(x.dtype), keepdim)

    return lowering


register_lowering(aten.argmax)(_position("argmax"))
register_lowering(aten.argmin)(_position("argmin"))


def _with_position(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: int, keepdim: bool = False) -> Any:
        if x.ndim == 0 or x.size[dim] == 0:
            return NotImplemented
        dims = normalise_dims(dim, x.ndim)
        compute = compute_dtype(x.dtype)
        value = cast_result(reduce(kind, x, dims, compute, keepdim), x.dtype)
        return value, reduce("arg" + kind, x, dims, compute, keepdim)

    return lowering


register_lowering(aten.max.dim)(_with_position("max"))
register_lowering(aten.min.dim)(_with_position("min"))


@register_lowering(aten.aminmax)
def aminmax(ctx: Context, x: LazyTensor, *, dim: Any = None, keepdim: bool = False) -> Any:
    dims = normalise_dims(dim, x.ndim)
    if any(x.size[d] == 0 for d in dims):
        return NotImplemented
    compute = compute_dtype(x.dtype)
    return [cast_result(reduce(kind, x, dims, compute, keepdim), x.dtype) for kind in ("min", "max")]


def _test(kind: str) -> Any:
    def lowering(ctx: Context, x: LazyTensor, dim: Any = None, keepdim: bool = False) -> LazyTensor:
        truth = pointwise(lambda v: ops.cast(v, torch.bool), x, dtype=torch.bool)
        return cast_result(reduce(kind, truth, normalise_dims(dim, x.ndim), torch.bool, keepdim), ctx.dtype)

    return lowering


register_lowering(aten.any)(_test("any"))
register_lowering(aten.all)(_test("all"))


def moments(x: LazyTensor, dims: tuple[int, ...], *, keepdim: bool, row: bool) -> tuple[LazyTensor, LazyTensor]:
    """(mean, sum of squared deviations) over `dims` in the accumulation dtype.

    `row`: the reduced elements lie together in memory. Short rows take two passes (the second finds them in the cache),
    long or scattered ones a single Welford pass.
    """
    builder, acc = x.builder, accumulate_dtype(x.dtype)
    builder.reuse(x)
    count = numel_of(x, dims)
    if not row or builder.hint(count) > TWO_PASS_LIMIT:
        mean_, m2, _ = builder.reduction("welford", x, dims, acc, keepdim)
        return mean_, m2
    average = mean_of(to_dtype(x, acc), dims, True, acc)
    builder.realise(average)
    deviation = formula(lambda v, m: (v - m) * (v - m))
    squares = pointwise(deviation, x, views.expand(average, x.size), dtype=acc, compute=acc, weight=2)
    m2 = reduce("sum", squares, dims, acc, keepdim)
    return (average if keepdim else views.squeeze_dims(average, dims)), m2


def is_row(x: LazyTensor, dims: tuple[int, ...]) -> bool:
    """Whether the fastest dimension in memory is among the reduced ones."""
    stride = x.strided.stride if x.strided is not None else x.layout or x.stride
    if stride is None:
        return x.ndim - 1 in dims
    order = [d for d in range(x.ndim) if x.size[d] != 1]
    if not order:
        return True
    return min(order, key=lambda d: (x.builder.hint(stride[d]), -d)) in dims


def _variance(
    ctx: Context, x: LazyTensor, dims: tuple[int, ...], correction: Any, keepdim: bool
) -> tuple[LazyTensor, LazyTensor]:
    center, m2 = moments(x, dims, keepdim=keepdim, row=is_row(x, dims))
    count = numel_of(x, dims)
    fix = 1 if correction is None else correction

    @formula
    def divide(s: Term, n: Term, c: Term) -> Term:
        return s / f.maximum(n - c, 0)

    acc = m2.dtype
    return pointwise(divide, m2, count, fix, dtype=acc, compute=acc, weight=4), center


def _correction(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """(dims, correction, keepdim) of the overloads of var: (unbiased), (dim, unbiased, keepdim), (dim, *, correction,
    keepdim)."""
    if len(args) == 1 and isinstance(args[0], bool):
        return None, int(args[0]), False
    dim = args[0] if args else kwargs.get("dim")
    if len(args) > 1:
        return dim, int(args[1]), args[2] if len(args) > 2 else False
    unbiased = kwargs.get("unbiased")
    correction = kwargs.get("correction", 1) if unbiased is None else int(unbiased)
    return dim, 1 if correction is None else correction, kwargs.get("keepdim", False)


def _var_family(
    ctx: Context, x: LazyTensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[LazyTensor, LazyTensor]:
    dim, correction, keepdim = _correction(args, kwargs)
    return _variance(ctx, x, normalise_dims(dim, x.ndim), correction, keepdim)


@register_lowering(aten.var)
def var(ctx: Context, x: LazyTensor, *args: Any, **kwargs: Any) -> LazyTensor:
    return cast_result(_var_family(ctx, x, args, kwargs)[0], ctx.dtype)


@register_lowering(aten.std)
def std(ctx: Context, x: LazyTensor, *args: Any, **kwargs: Any) -> LazyTensor:
    value = _var_family(ctx, x, args, kwargs)[0]
    return pointwise(ops.sqrt, value, dtype=ctx.dtype, compute=value.dtype, weight=6)


@register_lowering(aten.var_mean)
def var_mean(ctx: Context, x: LazyTensor, *args: Any, **kwargs: Any) -> tuple[LazyTensor, LazyTensor]:
    value, center = _var_family(ctx, x, args, kwargs)
    return cast_result(value, x.dtype), cast_result(center, x.dtype)


@register_lowering(aten.std_mean)
def std_mean(ctx: Context, x: LazyTensor, *args: Any, **kwargs: Any) -> tuple[LazyTensor, LazyTensor]:
    value, center = _var_family(ctx, x, args, kwargs)
    root = pointwise(ops.sqrt, value, dtype=x.dtype, compute=value.dtype, weight=6)
    return root, cast_result(center, x.dtype)


@register_lowering(aten.linalg_vector_norm)
def vector_norm(
    ctx: Context, x: LazyTensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    dims = normalise_dims(dim, x.ndim)
    acc = accumulate_dtype(ctx.dtype)
    size_known = [x.size[d] for d in dims]
    if not isinstance(ord, (int, float)) or any(e == 0 for e in size_known):
        return NotImplemented

    def total(kind: str, fn: Any, weight: int = 2) -> LazyTensor:
        return reduce(kind, pointwise(fn, x, dtype=acc, compute=acc, weight=weight), dims, acc, keepdim)

    if ord == float("inf"):
        return cast_result(total("max", ops.abs), ctx.dtype)
    if ord == float("-inf"):
        return cast_result(total("min", ops.abs), ctx.dtype)
    if ord == 0:
        return cast_result(total("sum", _nonzero_as(acc)), ctx.dtype)
    if ord == 1:
        return cast_result(total("sum", ops.abs), ctx.dtype)
    if ord == 2:
        return pointwise(ops.sqrt, total("sum", lambda v: ops.mul(v, v)), dtype=ctx.dtype, compute=acc, weight=6)
    powers = total("sum", lambda v: ops.pow(ops.abs(v), constant(float(ord), acc)), 41)
    return pointwise(lambda s: ops.pow(s, constant(1.0 / ord, acc)), powers, dtype=ctx.dtype, compute=acc, weight=40)


def _nonzero_as(dtype: torch.dtype) -> Any:
    def fn(v: Value) -> Value:
        return ops.cast(ops.ne(v, constant(0, dtype)), dtype)

    return fn


@register_lowering(aten.logsumexp)
def logsumexp(ctx: Context, x: LazyTensor, dim: Any, keepdim: bool = False) -> Any:
    dims = normalise_dims(dim, x.ndim)
    if x.dtype not in FLOAT or any(x.size[d] == 0 for d in dims):
        return NotImplemented
    acc = compute_dtype(x.dtype)
    top = reduce("max", x, dims, acc, True)
    shift = pointwise(formula(lambda m: f.where(f.isinf(m), 0, m)), top, dtype=acc, compute=acc, weight=2)
    ctx.builder.realise(shift)
    powers = pointwise(
        lambda v, m: ops.exp(ops.sub(v, m)), x, views.expand(shift, x.size), dtype=acc, compute=acc, weight=13
    )
    total = reduce("sum", powers, dims, acc, keepdim)
    back = shift if keepdim else views.squeeze_dims(shift, dims)
    return pointwise(lambda s, m: ops.add(ops.log(s), m), total, back, dtype=ctx.dtype, compute=acc, weight=13)
