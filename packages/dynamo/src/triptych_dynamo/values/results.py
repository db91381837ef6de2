"""Results of graph calls as values: tensors, symbolic numbers, constants, and nests of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.trace.differentiation import tells_history
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def wrap_result(tx: Frame, node: fx.Node, result: Any) -> Value:
    """The value of a node's fake result.

    A function that returns one of its arguments (in-place ones do) gives that argument's value again.
    """
    if isinstance(result, torch.Tensor):
        return tensor_of(tx, node, result)
    if isinstance(result, _SYMBOLIC):
        return SymbolicValue.of(node, result)
    if type(result) in ConstantValue.ATOMS:
        return ConstantValue(result)
    if isinstance(result, (tuple, list)):
        return _wrap_sequence(tx, node, result)
    return tx.unsupported("graph-output", f"{node.target} returned {type(result).__qualname__}")


def tensor_of(tx: Frame, node: fx.Node, fake: torch.Tensor) -> Value:
    """The value of a fake tensor: the known one, or a new one computed by `node`."""
    by_fake = tx.trace.graph.by_fake
    if fake.requires_grad and tells_history(fake) and fake.is_leaf:
        tx.trace.differentiation.made_leaf = True
    known = by_fake.get(id(fake))
    if known is not None:
        return known[1]
    value = TensorValue(node, fake)
    by_fake[id(fake)] = (fake, value)
    return value


def _wrap_sequence(tx: Frame, node: fx.Node, result: Any) -> Value:
    items: list[Value] = []
    for index, item in enumerate(result):
        if type(item) in ConstantValue.ATOMS:
            items.append(ConstantValue(item))
        else:
            items.append(wrap_result(tx, tx.trace.graph.item_of(node, index, item), item))
    return tx.trace.make_sequence(type(result), items)
