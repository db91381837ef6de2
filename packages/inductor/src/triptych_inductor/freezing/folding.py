"""Constant folding: what is computed from constants alone is computed now."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import Constants
from triptych_inductor.passes.cleanup import is_pure

SMALL = 1 << 20  # bytes of a result that may be larger than all it is computed from

Known = dict[Node, Any]


def fold_constants(constants: Constants) -> int:
    """In: a graph with constants. Out: no pure call whose arguments are all constants; gives how many there were.

    Left alone: results that leave the graph (each call gives new memory), and large ones of small arguments, which
    kernels compute faster than memory is read (masks).
    """
    known: Known = dict(constants.values)
    folded = 0
    for node in list(constants.graph.nodes):
        if node.op != "call_function" or not _can_fold(node, known):
            continue
        result = _evaluate(node, known)
        if _is_too_large(result, [known[a] for a in node.all_input_nodes]):
            continue
        known[node] = result
        folded += 1
    _write(constants, known)
    return folded


def _can_fold(node: Node, known: Known) -> bool:
    operands = node.all_input_nodes
    if not operands or not all(operand in known for operand in operands):
        return False
    pure = is_pure(node) or node.target is operator.getitem
    return pure and not any(user.op == "output" for user in node.users) and isinstance(_first(node), torch.Tensor)


def _first(node: Node) -> Any:
    """The (first) fake result."""
    value = node.meta.get("val")
    return value[0] if isinstance(value, (tuple, list)) and value else value


def _evaluate(node: Node, known: Known) -> Any:
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
    with torch.no_grad():
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, (tuple, list)) else []


def _is_too_large(result: Any, operands: list[Any]) -> bool:
    made = sum(t.untyped_storage().nbytes() for t in _tensors(result))
    return made > max(SMALL, sum(t.untyped_storage().nbytes() for t in _tensors(operands)))


def _write(constants: Constants, known: Known) -> None:
    """Put the results that others read into the graph."""
    for node in list(constants.graph.nodes):
        if node in constants.values or node not in known:
            continue
        value = known[node]
        readers = [user for user in node.users if user not in known]
        if not readers or not isinstance(value, torch.Tensor):
            continue
        constant = constants.insert(value, node)
        for reader in readers:
            reader.replace_input_with(node, constant)
    for node in reversed(list(constants.graph.nodes)):
        if node in known and node not in constants.values and not node.users:
            constants.graph.erase_node(node)
