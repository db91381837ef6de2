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
from triptych_inductor.ir.nodes import Buffer, Strided
from triptych_inductor.ir.tensors import LazyTensor, new_buffer
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import FLOAT
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.lowering.externs import EXTERNS
from triptych_inductor.lowering.packed import PACKED
from triptych_inductor.lowering.registry import Context, find_lowering, register_lowering

aten = torch.ops.aten

# A product that leaves the graph with odd rows is made in pieces with aligned rows, in memory of its own result that
# is not filled yet, if it has at least so many rows; the last rows are made in their place by libraries' slow kernels.
LEAST_ROWS = 512
LAST_ROWS = 64
# Pieces have multiples of these rows, the first that fits: libraries' kernels make 128 rows at a time.
UNITS = (128, 16, 1)


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
        """The result without room, plus the bias.

        A piece of rows is made with its room at the end of the result's memory and copied from there into its place,
        as long as there is memory for both (see `pieces`), so that the result is all the memory that is taken.
        """
        builder, (rows, columns) = self.ctx.builder, self.size
        result = new_buffer(builder, self.size, None, self.ctx.dtype, self.ctx.device)
        done = 0
        for start, count, offset in pieces(rows, columns, self.b.size[1], step_of(self.ctx.dtype, self.ctx.device)):
            self._rows(Strided(result, (count, self.b.size[1]), (self.b.size[1], 1), offset), start, self.b)
            made = Strided(result, (count, columns), (self.b.size[1], 1), offset)
            self._into_place(made, result, start, bias)
            done = start + count
        last = Strided(result, (rows - done, columns), result.stride, done * columns)
        self._rows(last, done, Strided(self.b.buffer, (self.b.size[0], columns), self.b.stride, self.b.offset))
        if bias is not None:
            self._into_place(last, result, done, bias)
        return builder.of_buffer(result)

    def _rows(self, out: Strided, start: int, b: Strided) -> None:
        """A product of some rows, written into `out`."""
        a = self.a
        left = Strided(a.buffer, (out.size[0], a.size[1]), a.stride, a.offset + start * a.stride[0])
        self.ctx.builder.extern("torch.mm", (left, b), {"out": out}, [], mutates=frozenset({out.buffer.name}))

    def _into_place(self, made: Strided, result: Buffer, start: int, bias: LazyTensor | None) -> None:
        ctx = self.ctx
        piece = LazyTensor(ctx.builder, made.size, ctx.dtype, ctx.device, strided=made, weight=0)
        if bias is not None:
            whole = bias.ndim != 2 or bias.size[0] == 1
            part = bias if whole else views.strided_slice(bias, 0, start, made.size[0])
            piece = pointwise(ops.add, piece, part, dtype=ctx.dtype)
        target = Strided(result, made.size, result.stride, start * self.size[1])
        ctx.builder.store(piece, target, part=True, alone=True, apart=True)


def pieces(rows: int, columns: int, wide: int, step: int) -> list[tuple[int, int, int]]:
    """How a matrix of `rows` x `columns` is filled from products with rows of `wide` elements made in its own memory.

    Returns:
        (first row, rows, where the piece is made: elements from the start, a multiple of `step`) of each piece. A
        piece is made behind the place of its own rows. About half of the rows that are left fit; those that no piece
        has, at the end, are `LAST_ROWS` or a few more.

    Example:
        >>> pieces(512, 1001, 1008, 8)
        [(0, 128, 383488), (128, 128, 383488), (256, 112, 399616), (368, 64, 448000)]
    """
    found, start, whole = [], 0, rows * columns
    while rows - start > LAST_ROWS:
        fitting = ((rows - start) * columns - step + 1) // (columns + wide)
        unit = next((u for u in UNITS if u <= fitting), None)
        if unit is None:
            break
        count = fitting // unit * unit
        found.append((start, count, (whole - count * wide) // step * step))
        start += count
    return found


def _needs_eagers_rows(ctx: Context, padded: _Padding) -> bool:
    """Whether the result would only be copied, because it leaves the graph."""
    if not padded.has_odd_rows or padded.size[0] < LEAST_ROWS:
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
