"""Products of one matrix with several constant ones are one product, where they are small.

With few rows a call costs more than its arithmetic (BERT, 128 rows: 0.97 of the time); large products are as fast on
their own, and attention reads columns of a wide matrix more slowly (ViT, 400 rows: 1.03).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import Constants

aten = torch.ops.aten
MOST_ROWS = 256


def concatenate_products(constants: Constants) -> int:
    """In: a graph with constants. Out: products of the same matrix with constant ones, all with bias or all without,
    are slices of one product; gives how many went.
    """
    groups: dict[Any, list[Node]] = {}
    for node in constants.graph.nodes:
        key = _key(constants, node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    removed = 0
    for nodes in groups.values():
        if len(nodes) > 1:
            _concatenate(constants, nodes)
            removed += len(nodes) - 1
    return removed


def _parts(node: Node) -> tuple[Any, Any, Any] | None:
    """(left, right, bias) of a product."""
    if node.target is aten.mm.default:
        return node.args[0], node.args[1], None
    if node.target is aten.addmm.default and not node.kwargs:
        return node.args[1], node.args[2], node.args[0]
    return None


def _key(constants: Constants, node: Node) -> Any:
    """What the products of one group have in common; None for what cannot be part of one."""
    parts = _parts(node)
    if parts is None or any(user.op == "output" for user in node.users):
        return None
    left, right, bias = parts
    rows = node.meta["val"].shape[0]
    if type(rows) is int and rows > MOST_ROWS:
        return None
    weight, shift = constants.value(right), constants.value(bias)
    if weight is None or (bias is not None and (shift is None or shift.shape != weight.shape[1:])):
        return None
    return left, bias is None, weight.dtype, weight.device, node.meta["val"].dtype


def _concatenate(constants: Constants, nodes: list[Node]) -> None:
    first = nodes[0]
    parts = [_parts(node) for node in nodes]
    weights = [constants.value(p[1]) for p in parts if p is not None]
    biases = [constants.value(p[2]) for p in parts if p is not None and p[2] is not None]
    weight = torch.cat([w for w in weights if w is not None], 1)
    right = constants.insert(weight, first)
    assert parts[0] is not None
    args: tuple[Any, ...] = (parts[0][0], right)
    target: Any = aten.mm.default
    if biases:
        args = (constants.insert(torch.cat([b for b in biases if b is not None]), first), *args)
        target = aten.addmm.default
    with constants.graph.inserting_before(first):
        product = constants.graph.call_function(target, args)
    product.meta = dict(first.meta)
    rows, dtype, device = first.meta["val"].shape[0], first.meta["val"].dtype, first.meta["val"].device
    with constants.mode:
        product.meta["val"] = torch.empty((rows, weight.shape[1]), dtype=dtype, device=device)
    _slices(constants, nodes, product)


def _slices(constants: Constants, nodes: list[Node], product: Node) -> None:
    """Each product's users read their columns of the common one."""
    start = 0
    for node in nodes:
        width = node.meta["val"].shape[1]
        with constants.graph.inserting_before(node):
            part = constants.graph.call_function(aten.slice.Tensor, (product, 1, start, start + width))
        part.meta = dict(node.meta)
        with constants.mode:
            part.meta["val"] = product.meta["val"][:, start : start + width]
        node.replace_all_uses_with(part)
        constants.graph.erase_node(node)
        start += width
