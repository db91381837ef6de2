"""Operators that move elements about, and those that make tensors of nothing. All sizes are plain numbers here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych.partners.onnx.builder import Builder, UnsupportedError, Value

aten = torch.ops.aten
LARGEST_CONSTANT = 1 << 20  # elements of a created tensor that the model may carry


def _reshaped(b: Builder, out: Value, x: Value, *_: Any, **__: Any) -> Value:
    """Any operator that keeps the order of elements."""
    return b.reshape(x, out.shape)


def _view(b: Builder, out: Value, x: Value, shape: Any) -> Value:
    if isinstance(shape, torch.dtype):
        raise UnsupportedError("bits read as another dtype")
    return b.reshape(x, out.shape)


def _permute(b: Builder, out: Value, x: Value, dims: Sequence[int]) -> Value:
    return b.like("Transpose", out, x, perm=[x.dim(d) for d in dims])


def _transpose(b: Builder, out: Value, x: Value, first: int = 0, second: int = 1) -> Value:
    if x.rank < 2:
        return b.like("Identity", out, x)
    order = list(range(x.rank))
    first, second = x.dim(first), x.dim(second)
    order[first], order[second] = second, first
    return b.like("Transpose", out, x, perm=order)


def _expand(b: Builder, out: Value, x: Value, *_: Any, **__: Any) -> Value:
    return b.like("Expand", out, x, b.ints(out.shape))


def _slice(b: Builder, out: Value, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    axis = x.dim(dim)
    first = 0 if start is None else start
    last = x.shape[axis] if end is None else end
    return b.like("Slice", out, x, b.ints([first]), b.ints([last]), b.ints([axis]), b.ints([step]))


def _select(b: Builder, out: Value, x: Value, dim: int, index: int) -> Value:
    axis = x.dim(dim)
    return b.like("Gather", out, x, b.constant(index % x.shape[axis], torch.int64), axis=axis)


def _cat(b: Builder, out: Value, tensors: Sequence[Value], dim: int = 0) -> Value:
    parts = [b.cast(t, out.dtype) for t in tensors if t.shape != (0,)]
    return b.like("Concat", out, *parts, axis=out.dim(dim))


def _split(b: Builder, outs: list[Value], x: Value, _sizes: Any, dim: int = 0) -> list[Value]:
    axis = x.dim(dim)
    names = b.op("Split", x, b.ints([o.shape[axis] for o in outs]), outputs=len(outs), axis=axis)
    names = [names] if len(outs) == 1 else names
    return [Value(name, o.dtype, o.shape) for name, o in zip(names, outs, strict=True)]


def _unbind(b: Builder, outs: list[Value], x: Value, dim: int = 0) -> list[Value]:
    return [_select(b, out, x, dim, k) for k, out in enumerate(outs)]


def _pad(b: Builder, out: Value, x: Value, pad: Sequence[int], value: Any = 0) -> Value:
    before, after = [0] * x.rank, [0] * x.rank
    for k in range(len(pad) // 2):
        before[x.rank - 1 - k], after[x.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return b.like("Pad", out, x, b.ints([*before, *after]), b.constant(value, x.dtype))


def _flip(b: Builder, out: Value, x: Value, dims: Sequence[int]) -> Value:
    axes = [x.dim(d) for d in dims]
    if not axes:
        return b.like("Identity", out, x)
    starts, ends = [-1] * len(axes), [-(2**62)] * len(axes)
    return b.like("Slice", out, x, b.ints(starts), b.ints(ends), b.ints(axes), b.ints([-1] * len(axes)))


def _repeat(b: Builder, out: Value, x: Value, repeats: Sequence[int]) -> Value:
    wide = b.reshape(x, (*[1] * (len(repeats) - x.rank), *x.shape))
    return b.like("Tile", out, wide, b.ints(repeats))


def _triangle(upper: bool) -> Callable[..., Value]:
    return lambda b, out, x, diagonal=0: b.like("Trilu", out, x, b.constant(diagonal, torch.int64), upper=int(upper))


def _created(op: Any) -> Callable[..., Value]:
    """A tensor that depends on no input: made once by torch, carried as a constant."""

    def rule(b: Builder, out: Value, *args: Any, **kwargs: Any) -> Value:
        count = 1
        for n in out.shape:
            count *= n
        if count > LARGEST_CONSTANT:
            raise UnsupportedError(f"a constant of {count} elements")
        known = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory", "layout", "memory_format")}
        return b.constant(op(*args, **known, device="cpu"), out.dtype)

    return rule


def _filled_like(value: Any) -> Callable[..., Value]:
    def rule(b: Builder, out: Value, _x: Value, *args: Any, **__: Any) -> Value:
        filling = args[0] if value is None else value
        return b.like("Expand", out, b.constant(filling, out.dtype), b.ints(out.shape))

    return rule


CREATED = (
    aten.full.default,
    aten.arange.start_step,
    aten.arange.default,
    aten.arange.start,
    aten.scalar_tensor.default,
    aten.zeros.default,
    aten.ones.default,
    aten.eye.default,
    aten.linspace.default,
)

RULES: dict[Any, Any] = {
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
    aten.reshape.default: _view,
    aten.unsqueeze.default: _reshaped,
    aten.squeeze.default: _reshaped,
    aten.squeeze.dim: _reshaped,
    aten.squeeze.dims: _reshaped,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
    aten.expand.default: _expand,
    aten.slice.Tensor: _slice,
    aten.select.int: _select,
    aten.cat.default: _cat,
    aten.split_with_sizes.default: _split,
    aten.split.Tensor: _split,
    aten.unbind.int: _unbind,
    aten.constant_pad_nd.default: _pad,
    aten.flip.default: _flip,
    aten.repeat.default: _repeat,
    aten.tril.default: _triangle(False),
    aten.triu.default: _triangle(True),
    aten.full_like.default: _filled_like(None),
    aten.zeros_like.default: _filled_like(0),
    aten.ones_like.default: _filled_like(1),
    **{op: _created(op) for op in CREATED},
}
