"""Matrix products: torch's own kernels, called by the wrapper into memory that we allocate.

Large products of half types are made of padded operands where their sizes are odd (see `ir/alignment.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir import views
from triptych_inductor.ir.alignment import is_large, leaves_graph, packet_of, reaches, rounded, step_of
from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.nodes import Strided
from triptych_inductor.ir.tensors import LazyTensor, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.externs import EXTERNS
from triptych_inductor.lowering.packed import PACKED
from triptych_inductor.lowering.registry import Context, find_lowering, register_lowering

aten = torch.ops.aten

# A product that leaves the graph with odd rows is made in pieces with aligned rows, each copied into its place, if it
# has at least twice as many rows as this: so many at least in each, and at most so many pieces.
PIECE_ROWS = 256
PIECES = 16


@register_lowering(aten.mm.default)
def mm(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    padded = _Padding.of(ctx, a, b)
    if padded is None:
        return _out_call(ctx, "torch.mm", (a, b), {})
    return padded.in_pieces() if _needs_eagers_rows(ctx, padded) else padded.product()


@register_lowering(aten.addmm.default)
def addmm(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    scales = _scales(beta, alpha)
    if scales:
        return _out_call(ctx, "torch.addmm", (x, a, b), scales)
    padded = _Padding.of(ctx, a, b)
    if padded is not None:
        if _needs_eagers_rows(ctx, padded):
            return padded.in_pieces(x)
        return pointwise(ops.add, padded.product(), x, dtype=ctx.dtype)
    if x.ndim == 1 and x.dtype in FLOAT and feeds_a_loop(ctx.node):
        # torch copies the bias into the result first; added by the kernel that reads the product it costs nothing.
        product = _out_call(ctx, "torch.mm", (a, b), {})
        return pointwise(ops.add, product, x, dtype=ctx.dtype)
    return _out_call(ctx, "torch.addmm", (x, a, b), {})


@register_lowering(aten.bmm.default)
def bmm(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    return _out_call(ctx, "torch.bmm", (a, b), {})


@register_lowering(aten.baddbmm.default)
def baddbmm(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _out_call(ctx, "torch.baddbmm", (x, a, b), _scales(beta, alpha))


@register_lowering(aten.mv.default)
def mv(ctx: Context, a: LazyTensor, b: LazyTensor) -> Any:
    return _out_call(ctx, "torch.mv", (a, b), {})


def _scales(beta: Any, alpha: Any) -> dict[str, Any]:
    scales = {"beta": beta, "alpha": alpha}
    return {k: v for k, v in scales.items() if not (isinstance(v, (int, float)) and v == 1)}


def _out_call(ctx: Context, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A torch function that writes into a buffer that we allocate with eager's strides."""
    value = ctx.expected
    buffer = new_buffer(ctx.builder, as_extents(value.shape), as_extents(value.stride()), value.dtype, value.device)
    return ctx.builder.extern(ctx.node.target, args, kwargs, [buffer], out=name)[0]


class _Padding:
    """A product whose sizes are brought to multiples where they are odd and it matters."""

    def __init__(self, ctx: Context, size: tuple[int, int], a: Strided, b: Strided) -> None:
        self.ctx = ctx
        self.size = size  # of the result
        self.a, self.b = a, b  # with their room

    @staticmethod
    def of(ctx: Context, a: LazyTensor, b: LazyTensor) -> _Padding | None:
        """None where the product is made as it is."""
        step = step_of(ctx.dtype, ctx.device)
        rows, inner, columns = a.size[0], a.size[1], b.size[1]
        if step == 1 or not is_large(rows, inner, columns) or not (rows % step or inner % step or columns % step):
            return None
        builder = ctx.builder
        left, right = builder.realise(a), builder.realise(b)
        # The direction in which a matrix is contiguous has to be a multiple; in the other one only steps count.
        wide = rounded(columns, step)
        deep = rounded(inner, step) if left.stride[1] == 1 or right.stride[0] == 1 else inner
        tall = rounded(rows, step) if left.stride[1] != 1 else rows
        if (tall, deep, wide) == (rows, inner, columns):
            return None
        left, right = builder.with_room(a, (tall, deep)), builder.with_room(b, (deep, wide))
        return _Padding(ctx, (rows, columns), left, right)

    @property
    def has_odd_rows(self) -> bool:
        """Whether the result has longer rows than eager's."""
        return self.b.size[1] != self.size[1]

    def product(self) -> LazyTensor:
        """The result, in memory with room."""
        ctx = self.ctx
        buffer = new_buffer(ctx.builder, (self.a.size[0], self.b.size[1]), None, ctx.dtype, ctx.device)
        ctx.builder.extern(aten.mm.default, (self.a, self.b), {}, [buffer], out="torch.mm")
        window = Strided(buffer, self.size, buffer.stride)
        return LazyTensor(ctx.builder, self.size, ctx.dtype, ctx.device, strided=window, weight=0)

    def in_pieces(self, bias: LazyTensor | None = None) -> LazyTensor:
        """The result without room, plus the bias: made a piece of rows at a time, each copied into its place.

        So there is never a second matrix of its size; the pieces follow each other in the same memory.
        """
        ctx, a, b = self.ctx, self.a, self.b
        builder, (rows, columns) = ctx.builder, self.size
        result = new_buffer(builder, self.size, None, ctx.dtype, ctx.device)
        step = max(PIECE_ROWS, -(-rows // PIECES))
        for start in range(0, rows, step):
            count = min(step, rows - start)
            left = Strided(a.buffer, (count, a.size[1]), a.stride, a.offset + start * a.stride[0])
            made = new_buffer(builder, (count, b.size[1]), None, ctx.dtype, ctx.device)
            builder.extern(aten.mm.default, (left, b), {}, [made], out="torch.mm")
            window = Strided(made, (count, columns), made.stride)
            piece = LazyTensor(builder, window.size, ctx.dtype, ctx.device, strided=window, weight=0)
            if bias is not None:
                part = bias
                if bias.ndim == 2 and bias.size[0] != 1:
                    part = views.strided_slice(bias, 0, start, count)
                piece = pointwise(ops.add, piece, part, dtype=ctx.dtype)
            builder.store(piece, Strided(result, window.size, result.stride, start * columns), part=True, alone=True)
        return builder.of_buffer(result)


def _needs_eagers_rows(ctx: Context, padded: _Padding) -> bool:
    """Whether the result would only be copied, because it leaves the graph."""
    if not padded.has_odd_rows or padded.size[0] < 2 * PIECE_ROWS:
        return False
    return leaves_graph(ctx.node) and not feeds_a_loop(ctx.node)


def feeds_a_loop(node: FxNode) -> bool:
    """Whether some user of the result, behind views, is computed by loops."""
    return reaches(node, _is_computed_by_loops)


def _is_computed_by_loops(node: FxNode) -> bool:
    return node.op == "call_function" and find_lowering(node.target) is not None and packet_of(node) not in _OWN_KERNELS


_OWN_KERNELS = frozenset(
    {aten.mm, aten.bmm, aten.convolution, aten.addmm, aten.baddbmm, aten.mv, aten.clone, aten.cat}
    | {getattr(aten, name) for name in EXTERNS if hasattr(aten, name)}
    | PACKED
)
