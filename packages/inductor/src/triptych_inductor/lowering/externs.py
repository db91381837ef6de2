"""Convolutions, attention and other calls of torch's own kernels by the wrapper."""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir import views
from triptych_inductor.ir.extents import as_extents, channels_last_strides
from triptych_inductor.ir.nodes import Buffer
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.fallback import lower_fallback
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


@register_lowering(aten.convolution.default)
def convolution(
    ctx: Context,
    x: LazyTensor,
    weight: LazyTensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *rest: Any,
) -> Any:
    """On devices that add the bias by a kernel of its own, the bias is added by what reads the result."""
    if isinstance(bias, LazyTensor) and ctx.device.type in OWN_LAYOUT and ctx.dtype in FLOAT and not transposed:
        plain = _convolution(ctx, x, weight, None, stride, padding, dilation, transposed, *rest)
        along = views.reshape(bias, (bias.size[0], *[1] * (x.ndim - 2)))
        return pointwise(ops.add, plain, along, dtype=ctx.dtype)
    return _convolution(ctx, x, weight, bias, stride, padding, dilation, transposed, *rest)


OWN_LAYOUT = frozenset({"cuda"})
"""Device types whose library copies a contiguous weight channels-last on each call, and adds a bias afterwards.

oneDNN, on CPUs, packs a weight from either layout at about the price of a copy, and adds the bias as it goes.
"""


def _convolution(ctx: Context, x: LazyTensor, weight: LazyTensor, bias: Any, *rest: Any) -> Any:
    """Where the graph is laid out channels-last (see `passes/layout.py`), the operands are brought into that layout."""
    builder, transposed = ctx.builder, rest[3]
    if not builder.channels_last or transposed or not _gains_from_channels_last(x, weight):
        return extern_call(ctx, x, weight, bias, *rest)
    size = as_extents(ctx.expected.shape)
    image: Any = builder.realise_with(x, channels_last_strides(x.size))
    kernel: Any = weight
    if ctx.device.type in OWN_LAYOUT:
        kernel = builder.realise_with(weight, channels_last_strides(weight.size))
    buffer = Buffer(builder.fresh_name("buf"), size, channels_last_strides(size), ctx.dtype, ctx.device, kind="extern")
    return builder.extern(ctx.node.target, (image, kernel, bias, *rest), {}, [buffer])[0]


def _gains_from_channels_last(x: LazyTensor, weight: LazyTensor) -> bool:
    """Two-dimensional convolutions whose layout is beyond doubt: several channels, several places."""
    if x.ndim != 4 or x.dtype not in FLOAT:
        return False
    return x.size[1] != 1 and weight.size[0] != 1 and x.size[2] != 1 and x.size[3] != 1


def extern_call(ctx: Context, *args: Any, **kwargs: Any) -> Any:
    """An op that torch computes well itself: called as it is, and not counted among the fallbacks."""
    return lower_fallback(ctx, args, kwargs, counted=False)


EXTERNS = """
convolution_backward _convolution dot linear matmul addmv addbmm
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
_scaled_dot_product_attention_math_for_mps scaled_dot_product_attention
mkldnn_rnn_layer mkldnn_rnn_layer_backward
max_pool2d_with_indices_backward avg_pool2d_backward
""".split()

for _name in EXTERNS:
    if hasattr(aten, _name):
        register_lowering(getattr(aten, _name))(extern_call)
