"""What a frame returns, as data: a nest of containers over the graph's outputs, constants and things read elsewhere.

A tree is `["output", name]` (of a node), `["constant", value]`, `["source", source]`, `["sequence", class, trees]` or
`["mapping", class, [[key tree, tree], ...]]`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.values.constant import ConstantValue
from triptych_dynamo.values.mappings import DictValue
from triptych_dynamo.values.sequences import SequenceValue
from triptych_dynamo.values.symbolic import SymbolicValue
from triptych_dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value

Tree = list[Any]
_SEQUENCES = (tuple, list, torch.Size)
_MAPPINGS = (dict, OrderedDict)


class NoTree(Exception):
    """The result is more than data; the text says why."""


def result_tree(trace: Trace, value: Value) -> Tree:
    """The tree of a returned value.

    Raises:
        NoTree: the program changes objects, or returns one that only it can make.
    """
    if trace.effects:
        raise NoTree("the program changes objects that it did not make")
    if trace.final_modes:
        raise NoTree("the program leaves a mode of torch changed")
    return _tree(value)


def _tree(value: Value) -> Tree:
    if isinstance(value, ConstantValue):
        return ["constant", value.as_constant()]
    if value.source is not None:
        return ["source", value.source]
    if isinstance(value, (TensorValue, SymbolicValue)):
        return ["output", value.node.name]
    if isinstance(value, SequenceValue) and value.owner is None:
        cls = value.cls
        if cls in _SEQUENCES or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            return ["sequence", cls, [_tree(item) for item in value.items]]
    if isinstance(value, DictValue) and value.owner is None and value.cls in _MAPPINGS:
        entries = value.all_entries(None)
        return ["mapping", value.cls, [[_tree(entry.key), _tree(entry.value)] for entry in entries]]
    raise NoTree(f"it returns {value}, which only the program can make")


def build(tree: Tree, outputs: dict[str, Any], read: Callable[[Any], Any]) -> Any:
    """The result of one call.

    Args:
        tree: of the program's result.
        outputs: what the graph was given and gave, by name.
        read: the object that a source has in this call.
    """
    kind, *rest = tree
    if kind == "sequence":
        cls, trees = rest
        items = [build(item, outputs, read) for item in trees]
        return cls(*items) if hasattr(cls, "_fields") else cls(items)
    if kind == "mapping":
        cls, pairs = rest
        return cls((build(key, outputs, read), build(item, outputs, read)) for key, item in pairs)
    leaves: dict[str, Callable[[Any], Any]] = {
        "output": outputs.__getitem__,
        "brought": outputs.__getitem__,
        "constant": lambda value: value,
        "source": read,
    }
    return leaves[kind](rest[0])
