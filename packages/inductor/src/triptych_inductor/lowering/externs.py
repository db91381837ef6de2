"""Matrix products, convolutions and attention: torch's own kernels, called by the wrapper (out= forms where torch has
them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.alignment import aligned_row, leaves_graph, long_rows, packet_of, reaches
from triptych_inductor.ir.extents import as_extents, channels_last_strides
from triptych_inductor.ir.nodes import Buffer
from triptych_inductor.ir.tensors import LazyTensor, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.fallback import lower_fallback
from triptych_inductor.lowering.registry import Context, find_lowering, register_lowering

aten = torch.ops.aten


# A product that leaves the graph with odd rows is made in pieces with aligned rows, each copied into its place, if it
# has at least twice as many rows as this.
PIECE_ROWS = 256


def _out_call(ctx: Context, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A torch function that writes into a buffer that we allocate, with eager's strides or with aligned rows."""
    value = ctx.expected
    size, stride = as_extents(value.shape), as_extents(value.stride())
    row = aligned_row(size, stride, value.dtype, value.device) if len(size) == 2 else 0
    if row and leaves_graph(ctx.node) and not _feeds_a_loop(ctx.node):
        if name in IN_PIECES and not kwargs and type(size[0]) is int and size[0] >= 2 * PIECE_ROWS:
            name = IN_PIECES[name]
    elif row:
        stride = long_rows(size, row)
    buffer = new_buffer(ctx.builder, size, stride, value.dtype, value.device)
    return ctx.builder.extern(ctx.node.target, args, kwargs, [buffer], out=name)[0]


IN_PIECES = {"torch.mm": "mm_in_pieces", "torch.addmm": "addmm_in_pieces"}
"""Functions of `wrapper.support` for products whose result must have odd rows."""


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


def _feeds_a_loop(node: FxNode) -> bool:
    """Whether some user of the result, behind views, is computed by loops."""
    return reaches(node, _is_computed_by_loops)


def _is_computed_by_loops(node: FxNode) -> bool:
    return node.op == "call_function" and find_lowering(node.target) is not None and packet_of(node) not in _OWN_KERNELS


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
