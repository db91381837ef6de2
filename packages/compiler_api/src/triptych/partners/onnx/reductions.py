"""Sums, means, extremes and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych.partners.onnx.builder import Builder, UnsupportedError, Value

aten = torch.ops.aten


def _axes(x: Value, dim: Any) -> list[int]:
    """The dimensions reduced over; none given means all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.rank))
    return [x.dim(d) for d in ([dim] if isinstance(dim, int) else dim)]


def _reduce(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, out: Value, x: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
        return _reduced(b, kind, out, b.cast(x, out.dtype), dim, keepdim)

    return rule


def _reduced(b: Builder, kind: str, out: Value, x: Value, dim: Any, keepdim: bool) -> Value:
    if x.rank == 0:
        return b.like("Identity", out, x)
    return b.like(kind, out, x, b.ints(_axes(x, dim)), keepdims=int(keepdim))


def _variance(b: Builder, out: Value, x: Value, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Value:
    return _moments(b, out, x, dim, correction, keepdim)[0]


def _deviation(b: Builder, out: Value, x: Value, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Value:
    return b.like("Sqrt", out, _variance(b, out, x, dim, correction, keepdim))


def _moments(b: Builder, out: Value, x: Value, dim: Any, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """Variance and mean."""
    axes = _axes(x, dim)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    divisor = count - (1 if correction is None else correction)
    if divisor <= 0 or x.rank == 0:
        raise UnsupportedError("a variance of too few elements")
    kept = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    mean = b.make("ReduceMean", x.dtype, kept, x, b.ints(axes), keepdims=1)
    off = b.like("Sub", x, x, mean)
    squares = b.like("Mul", x, off, off)
    total = b.like("ReduceSum", out, squares, b.ints(axes), keepdims=int(keepdim))
    variance = b.like("Mul", out, total, b.constant(1.0 / divisor, x.dtype))
    return variance, mean if keepdim else b.reshape(mean, out.shape)


def _var_mean(
    b: Builder, outs: list[Value], x: Value, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> Any:
    return list(_moments(b, outs[0], x, dim, correction, keepdim))


def _arg(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, out: Value, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if x.rank == 0 or (dim is None and keepdim):
            raise UnsupportedError("a position in a single number")
        flat = b.reshape(x, (-1,)) if dim is None else x
        return b.like(kind, out, flat, axis=0 if dim is None else x.dim(dim), keepdims=int(keepdim))

    return rule


def _cumsum(b: Builder, out: Value, x: Value, dim: int, dtype: Any = None) -> Value:
    if x.rank == 0:
        return b.cast(x, out.dtype)
    return b.like("CumSum", out, b.cast(x, out.dtype), b.constant(x.dim(dim), torch.int64))


def _any_all(kind: str) -> Callable[..., Value]:
    """Truth values as 0 and 1: any is their maximum, all their minimum."""

    def rule(b: Builder, out: Value, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        numbers = b.cast(b.cast(x, torch.bool), torch.int32)
        found = Value("", torch.int32, out.shape)
        return b.cast(_reduced(b, kind, found, numbers, dim, keepdim), torch.bool)

    return rule


def _reduce_extreme(kind: str) -> Callable[..., Value]:
    plain = _reduce(kind)

    def rule(b: Builder, out: Value, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
        return plain(b, out, x, dim, keepdim)

    return rule


RULES: dict[Any, Any] = {
    aten.sum.dim_IntList: _reduce("ReduceSum"),
    aten.sum.default: _reduce("ReduceSum"),
    aten.mean.dim: _reduce("ReduceMean"),
    aten.mean.default: _reduce("ReduceMean"),
    aten.amax.default: _reduce_extreme("ReduceMax"),
    aten.amin.default: _reduce_extreme("ReduceMin"),
    aten.prod.dim_int: _reduce("ReduceProd"),
    aten.prod.default: _reduce("ReduceProd"),
    aten.var.correction: _variance,
    aten.std.correction: _deviation,
    aten.var_mean.correction: _var_mean,
    aten.argmax.default: _arg("ArgMax"),
    aten.argmin.default: _arg("ArgMin"),
    aten.cumsum.default: _cumsum,
    aten.any.default: _any_all("ReduceMax"),
    aten.any.dim: _any_all("ReduceMax"),
    aten.any.dims: _any_all("ReduceMax"),
    aten.all.default: _any_all("ReduceMin"),
    aten.all.dim: _any_all("ReduceMin"),
    aten.all.dims: _any_all("ReduceMin"),
}
