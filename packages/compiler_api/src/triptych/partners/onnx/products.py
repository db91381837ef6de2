"""Matrix products, convolutions, pooling, normalisation, attention's softmax, and table look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triptych.partners.onnx.builder import Builder, UnsupportedError, Value

aten = torch.ops.aten


def _matmul(b: Builder, out: Value, x: Value, y: Value) -> Value:
    if not out.dtype.is_floating_point:
        raise UnsupportedError("products of integer matrices")
    return b.like("MatMul", out, x, y)


def _addmm(b: Builder, out: Value, bias: Value, x: Value, y: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    product = _scaled(b, _matmul(b, out, x, y), alpha)
    return b.like("Add", out, product, _scaled(b, bias, beta))


def _scaled(b: Builder, x: Value, factor: Any) -> Value:
    return x if factor == 1 else b.like("Mul", x, x, b.constant(factor, x.dtype))


def _convolution(
    b: Builder,
    out: Value,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    spatial = weight.rank - 2
    if x.rank != weight.rank:
        raise UnsupportedError("a convolution without a batch dimension")
    wide = [list(v) * spatial if len(v) == 1 else list(v) for v in (stride, padding, dilation, output_padding)]
    attributes: dict[str, Any] = {
        "strides": wide[0],
        "pads": wide[1] * 2,
        "dilations": wide[2],
        "group": groups,
        "kernel_shape": list(weight.shape[2:]),
    }
    if transposed:
        attributes["output_padding"] = wide[3]
    return b.like("ConvTranspose" if transposed else "Conv", out, x, weight, bias, **attributes)


def _pool_attributes(kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    if ceil_mode:
        raise UnsupportedError("pooling with ceil_mode, which ONNX rounds in another way")
    sizes = [[v] * 2 if isinstance(v, int) else list(v) * (2 if len(v) == 1 else 1) for v in (kernel, padding)]
    steps = [stride] * 2 if isinstance(stride, int) else list(stride) or sizes[0]
    return {"kernel_shape": sizes[0], "strides": steps * (2 // len(steps)), "pads": sizes[1] * 2}


def _max_pool(
    b: Builder,
    outs: list[Value],
    x: Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> list[Value]:
    attributes = _pool_attributes(kernel, stride, padding, ceil_mode)
    wide = [dilation] * 2 if isinstance(dilation, int) else list(dilation) * (2 // len(dilation))
    image = x if x.rank == 4 else b.reshape(x, (1, *x.shape))
    shape = outs[0].shape if x.rank == 4 else (1, *outs[0].shape)
    names = b.op("MaxPool", image, outputs=2, dilations=wide, **attributes)
    pooled, places = Value(names[0], x.dtype, shape), Value(names[1], torch.int64, shape)
    plane = b.constant(x.shape[-1] * x.shape[-2], torch.int64)  # ONNX counts through the whole batch, torch in a plane
    places = b.like("Mod", places, places, plane)
    return [b.reshape(pooled, outs[0].shape), b.reshape(places, outs[1].shape)]


def _avg_pool(
    b: Builder,
    out: Value,
    x: Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    if divisor_override is not None or x.rank != 4:
        raise UnsupportedError("average pooling with a divisor of its own or without a batch dimension")
    attributes = _pool_attributes(kernel, stride, padding, ceil_mode)
    return b.like("AveragePool", out, x, count_include_pad=int(count_include_pad), **attributes)


def _softmax(kind: str) -> Any:
    def rule(b: Builder, out: Value, x: Value, dim: int, half_to_float: bool) -> Value:
        if x.rank == 0:
            raise UnsupportedError("a softmax of a single number")
        return b.like(kind, out, b.cast(x, out.dtype), axis=x.dim(dim))

    return rule


def _layer_norm(
    b: Builder, outs: list[Value], x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value]:
    if outs[1].dtype != x.dtype:
        raise UnsupportedError("a layer norm whose statistics have another dtype")
    axis = x.rank - len(shape)
    weight = weight or b.constant(torch.ones(tuple(shape)), x.dtype)
    names = b.op("LayerNormalization", x, weight, bias, outputs=3, axis=axis, epsilon=float(eps))
    return [Value(name, out.dtype, out.shape) for name, out in zip(names, outs, strict=True)]


def _batch_norm(
    b: Builder,
    outs: list[Value],
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    *rest: Any,
) -> list[Value | None]:
    """With given statistics; torch's further results are empty then. rest: (training,) momentum, eps."""
    if mean is None or var is None or (len(rest) == 3 and rest[0]):
        raise UnsupportedError("a batch norm with statistics of the batch")
    channels = (x.shape[1],)
    scale = weight or b.constant(torch.ones(channels), x.dtype)
    shift = bias or b.constant(torch.zeros(channels), x.dtype)
    normed = b.like("BatchNormalization", outs[0], x, scale, shift, mean, var, epsilon=float(rest[-1]))
    return [normed, None, None]


def _embedding(b: Builder, out: Value, table: Value, index: Value, *_: Any, **__: Any) -> Value:
    return b.like("Gather", out, table, _not_negative(b, index), axis=0)


def _not_negative(b: Builder, index: Value) -> Value:
    """An index where -1 is out of range, as these operators of torch have it; the runtime counts from the end."""
    wide = b.cast(index, torch.int64)
    zero, beyond = b.constant(0, torch.int64), b.constant(2**62, torch.int64)
    negative = b.make("Less", torch.bool, index.shape, wide, zero)
    return b.like("Where", wide, negative, beyond, wide)


def _index_select(b: Builder, out: Value, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        raise UnsupportedError("a selection from a single number")
    return b.like("Gather", out, x, _not_negative(b, index), axis=x.dim(dim))


def _gather(b: Builder, out: Value, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if x.rank == 0:
        raise UnsupportedError("a gather from a single number")
    return b.like("GatherElements", out, x, _not_negative(b, index), axis=x.dim(dim))


def _index(b: Builder, out: Value, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype not in (torch.int64, torch.int32):
        raise UnsupportedError("an index by several tensors, or by a mask")
    return b.like("Gather", out, x, given[0][1], axis=given[0][0])


RULES: dict[Any, Any] = {
    aten.mm.default: _matmul,
    aten.bmm.default: _matmul,
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _addmm,
    aten.convolution.default: _convolution,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.avg_pool2d.default: _avg_pool,
    aten._softmax.default: _softmax("Softmax"),
    aten._log_softmax.default: _softmax("LogSoftmax"),
    aten.native_layer_norm.default: _layer_norm,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit.default: _batch_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.embedding.default: _embedding,
    aten.index_select.default: _index_select,
    aten.gather.default: _gather,
    aten.index.Tensor: _index,
}
