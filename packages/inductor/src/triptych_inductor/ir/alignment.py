"""Aligned rows: libraries fall back to slow kernels for matrices of half types whose row stride is odd.

A matrix that only we look at gets longer rows. Which node's result that is follows from the fx graph.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.extents import Extent, contiguous_strides
from triptych_inductor.loops.table import HALF

aten = torch.ops.aten

# Bytes to which rows of a product are aligned, by device.
ROW_ALIGNMENT: dict[str, int] = {"cuda": 16}

PRODUCTS = frozenset({aten.mm, aten.addmm})
VIEWS = frozenset(
    {aten.view, aten._unsafe_view, aten.reshape, aten.permute, aten.transpose, aten.t, aten.unsqueeze, aten.squeeze}
    | {aten.slice, aten.select, aten.expand, aten.split, aten.split_with_sizes, aten.unbind, aten.alias, aten.detach}
)
"""Ops whose result shows their argument, or lays it out anew."""


def packet_of(node: FxNode) -> Any:
    """The op of a node, whatever the overload."""
    return getattr(node.target, "overloadpacket", node.target)


def reaches(node: FxNode, test: Any) -> bool:
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


def wants_aligned_rows(node: FxNode, value: Any) -> bool:
    """Whether the node's result, of which `value` is the fake, is an operand of a product and nobody else's."""
    if not isinstance(value, torch.Tensor) or value.dtype not in HALF or value.device.type not in ROW_ALIGNMENT:
        return False
    return reaches(node, lambda user: packet_of(user) in PRODUCTS) and not leaves_graph(node)


def aligned_row(size: Sequence[Extent], stride: Sequence[Extent], dtype: torch.dtype, device: torch.device) -> int:
    """Elements of an aligned row of a contiguous tensor; 0 where rows are aligned, short or of unknown length."""
    step = ROW_ALIGNMENT.get(device.type, 0) // dtype.itemsize
    if step < 2 or dtype not in HALF or len(size) < 2 or type(size[-1]) is not int:
        return 0
    length = size[-1]
    if length % step == 0 or length < 64 * step or tuple(stride) != contiguous_strides(size):
        return 0
    return -(-length // step) * step


def long_rows(size: Sequence[Extent], row: int) -> tuple[Extent, ...]:
    """Strides of a contiguous tensor with rows of `row` elements.

    >>> long_rows((2, 3, 5), 8)
    (24, 8, 1)
    """
    return (*contiguous_strides((*size[:-1], row))[:-1], 1)


def has_long_rows(size: Sequence[Extent], stride: Sequence[Extent]) -> bool:
    """Whether strides are those that `long_rows` gives."""
    if len(size) < 2 or type(stride[-2]) is not int or type(size[-1]) is not int or stride[-2] < size[-1]:
        return False
    return tuple(stride) == long_rows(size, stride[-2])
