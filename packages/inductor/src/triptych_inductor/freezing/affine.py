"""What follows a convolution or a matrix product and scales or shifts its channels is folded into weight and bias.

Batch norm in evaluation, and additions, subtractions, products and quotients with constants. For half types the folded
weights are computed in float32 and rounded once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import VIEWS, Constants, only_reader

aten = torch.ops.aten
HALF = frozenset({torch.float16, torch.bfloat16})


@dataclass(frozen=True)
class Affine:
    """`scale * x + shift` for each channel; None: 1, and 0. result: the node that holds it."""

    result: Node
    scale: torch.Tensor | None
    shift: torch.Tensor | None


@dataclass(frozen=True)
class Producer:
    """A convolution or product with constant weight. outer: axis of the weight that is the result's channel."""

    node: Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    outer: int
    channel: int  # of the result

    @property
    def channels(self) -> int:
        """Number of the result's channels."""
        return self.weight.shape[self.outer]


def fold_affine(constants: Constants) -> int:
    """In: a graph with constants. Out: no affine map of channels behind a constant weight; gives how many went."""
    count = 0
    for node in list(constants.graph.nodes):
        while node.op == "call_function" and (found := _step(constants, node)) is not None:
            node, count = found, count + 1
    return count


def _step(constants: Constants, node: Node) -> Node | None:
    """Fold the affine map that alone reads `node`; gives the producer that holds both."""
    producer = _producer(constants, node)
    if producer is None:
        return None
    reader = only_reader(node)
    seen = node
    while reader is not None and producer.node.target not in CONVOLUTIONS and _keeps_channels(reader, seen):
        seen, reader = reader, only_reader(reader)
    rule = RULES.get(reader.target) if reader is not None else None
    if reader is None or rule is None:
        return None
    found = rule(constants, reader, seen, producer)
    if found is None or not _same_kind(found.result, seen):
        return None
    numbers = _folded(producer, found)
    if numbers is None:
        return None
    made = _rewrite(constants, producer, *numbers)
    found.result.replace_all_uses_with(seen if seen is not node else made)
    constants.graph.erase_node(found.result)
    if reader is not found.result:
        constants.graph.erase_node(reader)
    return made


def _keeps_channels(reader: Node, node: Node) -> bool:
    """Whether it is a view of other dimensions than the last."""
    if reader.target not in VIEWS:
        return False
    a, b = node.meta["val"], reader.meta["val"]
    return bool(a.ndim and b.ndim and type(a.shape[-1]) is int and a.shape[-1] == b.shape[-1])


def _same_kind(result: Node, source: Node) -> bool:
    a, b = result.meta.get("val"), source.meta.get("val")
    if not isinstance(a, torch.Tensor) or a.dtype is not b.dtype or a.ndim != b.ndim:
        return False
    return all(_text(p) == _text(q) for p, q in zip(a.shape, b.shape, strict=True))


def _text(size: Any) -> str:
    return str(size if type(size) is int else size.node.expr)


# -- what computes channels --------------------------------------------------------------------------------------------
CONVOLUTIONS = frozenset({aten.convolution.default})


def _producer(constants: Constants, node: Node) -> Producer | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return None
    if node.target is aten.convolution.default:
        return _convolution(constants, node, value.ndim)
    if node.target is aten.mm.default:
        weight = constants.value(node.args[1])
        return None if weight is None else Producer(node, weight, None, 1, 1)
    if node.target is aten.addmm.default and not node.kwargs:
        bias, weight = constants.value(node.args[0]), constants.value(node.args[2])
        if weight is not None and bias is not None and bias.shape == weight.shape[1:]:
            return Producer(node, weight, bias, 1, 1)
    return None


def _convolution(constants: Constants, node: Node, ndim: int) -> Producer | None:
    _, weight, bias, _, _, _, transposed, _, groups = node.args
    known, shift = constants.value(weight), constants.value(bias)
    if known is None or (bias is not None and shift is None) or ndim != known.ndim:
        return None
    if transposed and groups != 1:
        return None
    return Producer(node, known, shift, 1 if transposed else 0, 1)


def _folded(producer: Producer, affine: Affine) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Weight and bias that do the affine map too; None where a half type cannot hold them."""
    weight, bias = producer.weight, producer.bias
    wide = torch.float32 if weight.dtype in HALF else weight.dtype
    new_bias = None if bias is None else bias.to(wide)
    if affine.scale is not None:
        along = [1] * weight.ndim
        along[producer.outer] = -1
        scale = affine.scale.to(wide)
        weight = (weight.to(wide) * scale.reshape(along)).to(weight.dtype)
        new_bias = None if new_bias is None else new_bias * scale
    if affine.shift is not None:
        shift = affine.shift.to(wide)
        new_bias = shift if new_bias is None else new_bias + shift
    new_bias = None if new_bias is None else new_bias.to(weight.dtype).contiguous()
    made = [weight, *([] if new_bias is None else [new_bias])]
    if weight.dtype in HALF and not all(bool(torch.isfinite(t).all()) for t in made):
        return None
    return weight, new_bias


def _rewrite(constants: Constants, producer: Producer, weight: torch.Tensor, bias: torch.Tensor | None) -> Node:
    """The producer with other weight and bias; the same node, but for a product that gets a bias."""
    node = producer.node
    second = None if weight is producer.weight else constants.insert(weight, node)
    third = None if bias is None else constants.insert(bias, node)
    if node.target in CONVOLUTIONS:
        node.args = (node.args[0], second or node.args[1], third, *node.args[3:])
        return node
    return _rewrite_product(constants, node, second, third)


def _rewrite_product(constants: Constants, node: Node, weight: Node | None, bias: Node | None) -> Node:
    left, right = (node.args[0], node.args[1]) if node.target is aten.mm.default else node.args[1:3]
    right = right if weight is None else weight
    if bias is None:
        node.args = (left, right)
        return node
    if node.target is aten.addmm.default:
        node.args = (bias, left, right)
        return node
    with constants.graph.inserting_before(node):
        made = constants.graph.call_function(aten.addmm.default, (bias, left, right))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    constants.graph.erase_node(node)
    return made


# -- affine maps -------------------------------------------------------------------------------------------------------
def _batch_norm(constants: Constants, node: Node, source: Node, producer: Producer) -> Affine | None:
    """`(x, weight, bias, mean, variance, ...)`, of which only the normalised tensor is read."""
    args = list(node.args)
    if args[0] is not source or len(args) < BATCH_NORMS[node.target] + 1:
        return None
    training = node.target is aten.native_batch_norm.default and args[5]
    readers = list(node.users)
    if training or len(readers) != 1 or readers[0].target is not operator.getitem or readers[0].args[1] != 0:
        return None
    if source.meta["val"].ndim != producer.node.meta["val"].ndim:  # behind a view the channel is another axis
        return None
    mean, variance = constants.value(args[3]), constants.value(args[4])
    known = [None if a is None else constants.value(a) for a in args[1:3]]
    if (
        mean is None
        or variance is None
        or any(a is not None and k is None for a, k in zip(args[1:3], known, strict=True))
    ):
        return None
    wide = torch.float64 if mean.dtype is torch.float64 else torch.float32
    scale = torch.rsqrt(variance.to(wide) + args[BATCH_NORMS[node.target]])
    if known[0] is not None:
        scale = scale * known[0].to(wide)
    shift = -mean.to(wide) * scale
    if known[1] is not None:
        shift = shift + known[1].to(wide)
    return Affine(readers[0], scale, shift)


BATCH_NORMS = {aten.native_batch_norm.default: 7, aten._native_batch_norm_legit_no_training.default: 6}
"""Operator -> position of epsilon."""


def _operand(constants: Constants, value: Any, producer: Producer, ndim: int) -> torch.Tensor | None:
    """A constant operand as one number for each channel; None where it is something else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return torch.full((producer.channels,), float(value), dtype=torch.float64, device=producer.weight.device)
    tensor = constants.value(value)
    if tensor is None or tensor.ndim > ndim or tensor.is_complex() or tensor.dtype is torch.bool:
        return None
    sizes = [1] * (ndim - tensor.ndim) + list(tensor.shape)
    axis = 1 if producer.node.target in CONVOLUTIONS else ndim - 1
    if any(size != 1 for d, size in enumerate(sizes) if d != axis) or sizes[axis] not in (1, producer.channels):
        return None
    return tensor.reshape(-1).expand(producer.channels)


def _arithmetic(make: Callable[[torch.Tensor, bool], tuple[Any, Any] | None], commutes: bool) -> Any:
    """A rule for an operator of two tensors. make: (operand, whether it stands first) -> (scale, shift)."""

    def rule(constants: Constants, node: Node, source: Node, producer: Producer) -> Affine | None:
        if len(node.args) != 2 or node.kwargs or (node.args[0] is source) == (node.args[1] is source):
            return None
        first = node.args[0] is not source
        if first and not commutes:
            return None
        operand = _operand(constants, node.args[0 if first else 1], producer, source.meta["val"].ndim)
        made = None if operand is None else make(operand, first)
        return None if made is None else Affine(node, *made)

    return rule


def _difference(operand: torch.Tensor, first: bool) -> tuple[Any, Any]:
    return (-torch.ones_like(operand), operand) if first else (None, -operand)


def _quotient(operand: torch.Tensor, first: bool) -> tuple[Any, Any] | None:
    return (operand.double().reciprocal(), None) if bool((operand != 0).all()) else None


RULES: dict[Any, Callable[[Constants, Node, Node, Producer], Affine | None]] = {
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.add.Tensor: _arithmetic(lambda operand, first: (None, operand), True),
    aten.sub.Tensor: _arithmetic(_difference, True),
    aten.mul.Tensor: _arithmetic(lambda operand, first: (operand, None), True),
    aten.div.Tensor: _arithmetic(_quotient, False),
}
