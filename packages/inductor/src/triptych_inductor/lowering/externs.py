"""Matrix products, convolutions and attention: torch's own kernels, called by the wrapper (out= forms where torch has
them)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.extents import as_extents, channels_last_strides
from triptych_inductor.ir.nodes import Buffer
from triptych_inductor.ir.tensors import LazyTensor, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import FLOAT, HALF
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.fallback import lower_fallback
from triptych_inductor.lowering.registry import Context, find_lowering, register_lowering

aten = torch.ops.aten


# Bytes to which rows of a product are aligned, by device: libraries fall back to slow kernels for odd row strides.
ROW_ALIGNMENT: dict[str, int] = {"cuda": 16}


def product_strides(
    size: Sequence[Any], stride: Sequence[Any], dtype: torch.dtype, device: torch.device
) -> tuple[Any, ...]:
    """Strides for a product's buffer: eager's, with longer rows where the library wants them aligned.

    Only large two-dimensional half-precision results of static row length; the copy that gives eager's strides back
    is made only for results that leave the graph.
    """
    step = ROW_ALIGNMENT.get(device.type, 0) // dtype.itemsize
    plain = len(size) == 2 and type(size[1]) is int and tuple(stride) == (size[1], 1)
    if step < 2 or dtype not in HALF or not plain or size[1] % step == 0 or size[1] < 64 * step:
        return tuple(stride)
    return (-(-size[1] // step) * step, 1)


def _out_call(ctx: Context, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A torch function that writes into a buffer that we allocate with eager's strides."""
    value = ctx.expected
    size = as_extents(value.shape)
    leaves = any(user.op == "output" for user in ctx.node.users)
    stride = as_extents(value.stride())
    if not leaves:
        stride = product_strides(size, stride, value.dtype, value.device)
    buffer = new_buffer(ctx.builder, size, stride, value.dtype, value.device)
    return ctx.builder.extern(ctx.node.target, args, kwargs, [buffer], out=name)[0]


@register_lowering(aten.mm.default)
def mm(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    return _out_call(ctx, "torch.mm", (a, b), {})


@register_lowering(aten.bmm.default)
def bmm(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    return _out_call(ctx, "torch.bmm", (a, b), {})


def _scales(beta: Any, alpha: Any) -> dict[str, Any]:
    scales = {"beta": beta, "alpha": alpha}
    return {k: v for k, v in scales.items() if not (isinstance(v, (int, float)) and v == 1)}


@register_lowering(aten.addmm.default)
def addmm(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    scales = _scales(beta, alpha)
    if not scales and x.ndim == 1 and x.dtype in FLOAT and _feeds_a_loop(ctx.node):
        # torch copies the bias into the result first; added by the kernel that reads the product it costs nothing.
        product = _out_call(ctx, "torch.mm", (a, b), {})
        return pointwise(ops.add, product, x, dtype=ctx.dtype)
    return _out_call(ctx, "torch.addmm", (x, a, b), scales)


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
    """Where the graph is laid out channels-last (see `passes/layout.py`), the input is brought into that layout.

    The weight stays: oneDNN packs it on each call from either layout, at about the price of a copy.
    """
    builder = ctx.builder
    if not builder.channels_last or transposed or not _gains_from_channels_last(x, weight):
        return extern_call(ctx, x, weight, bias, stride, padding, dilation, transposed, *rest)
    size = as_extents(ctx.expected.shape)
    window = builder.realise_with(x, channels_last_strides(x.size))
    buffer = Buffer(builder.fresh_name("buf"), size, channels_last_strides(size), ctx.dtype, ctx.device, kind="extern")
    args = (window, weight, bias, stride, padding, dilation, transposed, *rest)
    return builder.extern(ctx.node.target, args, {}, [buffer])[0]


def _gains_from_channels_last(x: LazyTensor, weight: LazyTensor) -> bool:
    """Two-dimensional convolutions whose layout is beyond doubt: several channels, several places."""
    if x.ndim != 4 or x.dtype not in FLOAT:
        return False
    return x.size[1] != 1 and weight.size[0] != 1 and x.size[2] != 1 and x.size[3] != 1


_VIEWS = frozenset(
    {aten.view, aten._unsafe_view, aten.reshape, aten.permute, aten.transpose, aten.t, aten.unsqueeze, aten.squeeze}
    | {aten.slice, aten.select, aten.expand, aten.split, aten.split_with_sizes, aten.unbind, aten.alias, aten.detach}
)


def _feeds_a_loop(node: FxNode) -> bool:
    """Whether some user of the result, behind views, is computed by loops."""
    for user in node.users:
        packet = getattr(user.target, "overloadpacket", user.target)
        if packet in _VIEWS or packet is operator.getitem:
            if _feeds_a_loop(user):
                return True
        elif user.op == "call_function" and find_lowering(user.target) is not None and packet not in _OWN_KERNELS:
            return True
    return False


@register_lowering(aten.baddbmm.default)
def baddbmm(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _out_call(ctx, "torch.baddbmm", (x, a, b), _scales(beta, alpha))


@register_lowering(aten.mv.default)
def mv(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    return _out_call(ctx, "torch.mv", (a, b), {})


def extern_call(ctx: Context, *args: Any, **kwargs: Any) -> Any:
    """An op that torch computes well itself: called as it is, and not counted among the fallbacks."""
    return lower_fallback(ctx, args, kwargs, counted=False)


_EXTERNS = """
convolution_backward _convolution dot linear matmul addmv addbmm
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
_scaled_dot_product_attention_math_for_mps scaled_dot_product_attention
mkldnn_rnn_layer mkldnn_rnn_layer_backward
max_pool2d_with_indices_backward avg_pool2d_backward
""".split()

for _name in _EXTERNS:
    if hasattr(aten, _name):
        register_lowering(getattr(aten, _name))(extern_call)

_OWN_KERNELS = frozenset(
    {aten.mm, aten.bmm, aten.convolution, aten.addmm, aten.baddbmm, aten.mv, aten.clone, aten.cat}
    | {getattr(aten, name) for name in _EXTERNS if hasattr(aten, name)}
)
