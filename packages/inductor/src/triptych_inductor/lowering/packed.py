"""Calls of the library on packed weights (see `freezing/packing.py`). Packed convolutions work channels-last."""

from __future__ import annotations

from typing import Any

import torch

from triptych_inductor.ir.extents import as_extents, channels_last_strides
from triptych_inductor.ir.nodes import Buffer
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.lowering.externs import extern_call
from triptych_inductor.lowering.registry import Context, register_lowering


def packed_convolution(ctx: Context, x: LazyTensor, *rest: Any) -> Any:
    """The image, and what is added to the result, are brought into the layout that the library computes on."""
    builder, size = ctx.builder, as_extents(ctx.expected.shape)
    if any(type(n) is int and n == 0 for n in (*size, *as_extents(x.size))):
        return extern_call(ctx, x, *rest)
    images = [x, *(a for a in rest[:1] if ctx.node.target._overloadname == "binary")]
    laid_out = [builder.realise_with(image, channels_last_strides(image.size)) for image in images]
    buffer = Buffer(builder.fresh_name("buf"), size, channels_last_strides(size), ctx.dtype, ctx.device, kind="extern")
    args = (*laid_out, *rest[len(images) - 1 :])
    return builder.extern(ctx.node.target, args, {}, [buffer])[0]


def packed_product(ctx: Context, *args: Any) -> Any:
    """The result has eager's layout."""
    return extern_call(ctx, *args)


_RULES = {
    "_convolution_pointwise": packed_convolution,
    "_convolution_transpose_pointwise": packed_convolution,
    "_linear_pointwise": packed_product,
}

PACKED = frozenset(getattr(torch.ops.mkldnn, name) for name in _RULES if hasattr(torch.ops.mkldnn, name))
"""The calls; none where torch was built without oneDNN."""

for _packet in PACKED:
    register_lowering(_packet)(_RULES[_packet.__name__])
