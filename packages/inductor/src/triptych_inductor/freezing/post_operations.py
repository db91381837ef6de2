"""Activations and sums behind a packed convolution or product, done by the library as it writes the result.

It pays where no kernel would read the result anyway: one pass over memory less. What is computed further by loops stays
with our kernels, but for activations that cost next to nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import VIEWS, Constants, only_reader
from triptych_inductor.lowering.products import feeds_a_loop

aten = torch.ops.aten

Post = tuple[str, list[Any], str]
"""What the library calls an activation, with its numbers and the way to compute it."""


def fuse_post_operations(constants: Constants) -> int:
    """In: a graph with packed calls. Out: activations and sums that alone read one are part of it; gives how many."""
    if not _targets():
        return 0
    count = 0
    for node in list(constants.graph.nodes):
        if node.target in _targets() and node.args[-3] == "none":
            count += _fuse(constants, node)
    return count


def _targets() -> frozenset[Any]:
    ops = getattr(torch.ops, "mkldnn", None)
    names = ("_convolution_pointwise", "_convolution_transpose_pointwise", "_linear_pointwise")
    return frozenset(getattr(ops, name).default for name in names if hasattr(ops, name))


def _is_convolution(node: Node) -> bool:
    return str(node.target).startswith("mkldnn._convolution")


def _takes_sums(node: Node) -> bool:
    return str(node.target).startswith("mkldnn._convolution_pointwise")


def _fuse(constants: Constants, node: Node) -> int:
    reader = only_reader(node)
    if reader is None:
        return 0
    if _takes_sums(node) and _is_sum(node, reader):
        return _fuse_sum(constants, node, reader)
    seen = node
    while not _is_convolution(node) and reader is not None and reader.target in VIEWS:
        seen, reader = reader, only_reader(reader)
    post = None if reader is None else _activation(reader)
    if reader is None or post is None or not _same(seen, reader):
        return 0
    if reader.target not in CHEAP and feeds_a_loop(reader):
        return 0
    node.args = (*node.args[:-3], *post)
    reader.replace_all_uses_with(seen)
    constants.graph.erase_node(reader)
    return 1


def _same(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta.get("val")
    return isinstance(y, torch.Tensor) and x.dtype is y.dtype and x.ndim == y.ndim


def _activation(node: Node) -> Post | None:
    rule = ACTIVATIONS.get(node.target)
    return None if rule is None or len(node.users) == 0 else rule(node)


def _plain(name: str, way: str = "") -> Any:
    return lambda node: None if len(node.args) != 1 or node.kwargs else (name, [], way)


def _gelu(node: Node) -> Post | None:
    way = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none")
    return ("gelu", [], str(way))


def _clamp(node: Node) -> Post | None:
    low, high = (*node.args[1:], None, None)[:2]
    if node.kwargs or not all(isinstance(v, (int, float)) for v in (low, high)):
        return None
    return ("hardtanh", [low, high], "")


def _leaky_relu(node: Node) -> Post | None:
    slope = node.args[1] if len(node.args) > 1 else 0.01
    return ("leaky_relu", [slope], "") if isinstance(slope, (int, float)) and not node.kwargs else None


ACTIVATIONS: dict[Any, Any] = {
    aten.relu.default: _plain("relu"),
    aten.sigmoid.default: _plain("sigmoid"),
    aten.tanh.default: _plain("tanh"),
    aten.silu.default: _plain("swish"),
    aten.hardswish.default: _plain("hardswish"),
    aten.hardsigmoid.default: _plain("hardsigmoid"),
    aten.gelu.default: _gelu,
    aten.hardtanh.default: _clamp,
    aten.leaky_relu.default: _leaky_relu,
}

CHEAP = frozenset({aten.relu.default, aten.hardtanh.default, aten.leaky_relu.default})


# -- sums --------------------------------------------------------------------------------------------------------------
def _is_sum(node: Node, reader: Node) -> bool:
    if reader.target is not aten.add.Tensor or len(reader.args) != 2 or reader.kwargs:
        return False
    other = _other(node, reader)
    value = other.meta.get("val") if isinstance(other, Node) else None
    if not isinstance(value, torch.Tensor) or other is node:
        return False
    mine = node.meta["val"]
    sizes = zip(value.shape, mine.shape, strict=False)
    return value.dtype is mine.dtype and value.ndim == mine.ndim and all(_equal(a, b) for a, b in sizes)


def _equal(a: Any, b: Any) -> bool:
    """Equality of sizes that adds no guard."""
    a, b = (v if type(v) is int else v.node.expr for v in (a, b))
    return bool(a == b)


def _other(node: Node, reader: Node) -> Any:
    return reader.args[1] if reader.args[0] is node else reader.args[0]


def _fuse_sum(constants: Constants, node: Node, reader: Node) -> int:
    """`conv(x) + other`, with the activation behind it. The call moves to where `other` is known."""
    x, weight, bias, padding, stride, dilation, groups = node.args[:-3]
    after, last, count = only_reader(reader), reader, 1
    post = _activation(after) if after is not None and _same(reader, after) else None
    if post is not None and after is not None and post[0] == "relu":
        last, count = after, 2
    unary: tuple[Any, ...] = ("relu", [], "") if count == 2 else (None, [], None)
    args = (x, _other(node, reader), weight, bias, padding, stride, dilation, groups, "add", None, *unary)
    with constants.graph.inserting_before(last):
        made = constants.graph.call_function(torch.ops.mkldnn._convolution_pointwise.binary, args)
    made.meta = dict(last.meta)
    last.replace_all_uses_with(made)
    for gone in [after, reader, node] if count == 2 else [reader, node]:
        assert gone is not None
        constants.graph.erase_node(gone)
    return count
