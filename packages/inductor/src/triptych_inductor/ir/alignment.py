"""Room around matrices: libraries fall back to slow kernels for half types where a size or a row stride is odd.

A vocabulary of 50257 columns costs four times what one of 50264 does. So the operands of a large product are kept in
memory that has room for a multiple of sixteen bytes in each direction that matters, with zeros in the room, and the
product is made of the whole. Which node's result is such an operand follows from the fx graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.extents import Extent, contiguous_strides
from triptych_inductor.ir.nodes import Strided
from triptych_inductor.loops.table import HALF

aten = torch.ops.aten

# Bytes to whose multiples the sizes of a product are brought, by device.
ALIGNMENT: dict[str, int] = {"cuda": 16}
# Multiplications from which on a product is worth it.
LEAST_WORK = 1 << 31

PRODUCTS = frozenset({aten.mm, aten.addmm})
VIEWS = frozenset(
    {aten.view, aten._unsafe_view, aten.reshape, aten.permute, aten.transpose, aten.t, aten.unsqueeze, aten.squeeze}
    | {aten.slice, aten.select, aten.expand, aten.split, aten.split_with_sizes, aten.unbind, aten.alias, aten.detach}
)
"""Ops whose result shows their argument, or lays it out anew."""


def packet_of(node: FxNode) -> Any:
    """The op of a node, whatever the overload."""
    return getattr(node.target, "overloadpacket", node.target)


def reaches(node: FxNode, test: Callable[[FxNode], bool]) -> bool:
    """Whether some user of the node's result, behind views, passes `test`."""
    for user in node.users:
        packet = packet_of(user)
        if packet in VIEWS or packet is operator.getitem:
            if reaches(user, test):
                return True
        elif test(user):
            return True
    return False


def leaves_graph(node: FxNode) -> bool:
    """Whether the result, or a view of it, is returned."""
    return reaches(node, lambda user: user.op == "output")


def step_of(dtype: torch.dtype, device: torch.device) -> int:
    """Elements to whose multiples sizes are brought; 1 where that gains nothing."""
    return max(1, ALIGNMENT.get(device.type, 0) // dtype.itemsize) if dtype in HALF else 1


def rounded(extent: int, step: int) -> int:
    """The next multiple of `step`.

    >>> rounded(50257, 8)
    50264
    """
    return -(-extent // step) * step


def is_large(*sizes: Extent) -> bool:
    """Whether a product of these sizes (rows, inner, columns) is worth it."""
    work = 1
    for size in sizes:
        if type(size) is not int:
            return False
        work *= size
    return work >= LEAST_WORK


def _is_large_product(node: FxNode) -> bool:
    if packet_of(node) not in PRODUCTS:
        return False
    a, b = (n.meta["val"].shape for n in node.args[-2:])  # type: ignore[union-attr]
    return is_large(*[n if type(n) is int else None for n in (*a, b[1])])


def room_for(node: FxNode, value: Any) -> tuple[int, ...] | None:
    """Sizes of the memory for the node's result (of which `value` is the fake): it is an operand of a large product."""
    if not isinstance(value, torch.Tensor) or value.ndim < 2 or not all(type(n) is int for n in value.shape):
        return None
    step = step_of(value.dtype, value.device)
    if step == 1 or not value.is_contiguous():
        return None
    first, last = value.shape[0], value.shape[-1]
    if not (last % step or (value.ndim == 2 and first % step)) or not reaches(node, _is_large_product):
        return None
    rows = rounded(first, step) if value.ndim == 2 else first
    columns = last if last % step and leaves_graph(node) else rounded(last, step)  # eager's strides for what leaves
    wanted = (rows, *value.shape[1:-1], columns)
    return None if wanted == tuple(value.shape) else wanted


def tails(window: Strided) -> list[Strided]:
    """The room around a window at the start of its buffer, which has as many dimensions."""
    buffer, found = window.buffer, []
    for d, (used, whole) in enumerate(zip(window.size, buffer.size, strict=True)):
        if whole != used:
            size = (*window.size[:d], whole - used, *buffer.size[d + 1 :])
            found.append(Strided(buffer, size, buffer.stride, used * buffer.stride[d]))
    return found


def extended(window: Strided, used: Sequence[Extent], wanted: Sequence[int]) -> Strided | None:
    """The window with its room, where its buffer (of which `used` is filled) has it; else None."""
    buffer = window.buffer
    if window.offset != 0:
        return None
    for size, stride, want in zip(window.size, window.stride, wanted, strict=True):
        if size != want and (size, stride, want) not in zip(used, buffer.stride, buffer.size, strict=True):
            return None
    return Strided(buffer, tuple(wanted), window.stride)


def strides_like(window: Strided, size: Sequence[Extent]) -> tuple[Extent, ...]:
    """Dense strides of a matrix of `size`, transposed where the window is.

    >>> from triptych_inductor.ir.nodes import Buffer
    >>> strides_like(Strided(None, (2, 3), (1, 2)), (4, 8))
    (1, 4)
    """
    if window.stride[0] == 1 and window.stride[1] != 1:
        return contiguous_strides(size[::-1])[::-1]
    return contiguous_strides(size)
