"""Sizes of a backward graph's inputs: every symbol in them has a value there.

A gradient of size `n * k` tells neither `n` nor `k`; code for it may need both. They come from the forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from triptych_aot_autograd import _torch_compat as compat

aten = torch.ops.aten


def untold_symbols(graph: Graph, inputs: Iterable[Node]) -> list[Node]:
    """Forward nodes of symbols that occur in `inputs` and that none of them is, or has as a size, stride or offset.

    graph: the joint graph. It gets a node for such a symbol where it has none.
    """
    numbers = [number for node in inputs for number, _, _ in _numbers(node)]
    missing = set().union(*[number.node.expr.free_symbols for number in numbers])
    missing -= {number.node.expr for number in numbers}
    found = []
    for node in list(graph.nodes) if missing else ():
        if node.meta.get("phase") == "forward":
            for number, ask, args in _numbers(node):
                if number.node.expr in missing:
                    missing.discard(number.node.expr)
                    found.append(node if ask is None else _asked(graph, node, number, ask, args))
    return found


def _numbers(node: Node) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """The symbolic numbers that a node is (None, ()), or that an op with these further arguments reads from it."""
    value = node.meta.get("val")
    if compat.is_symbolic(value):
        yield value, None, ()
    elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
        places: list[tuple[Any, Any, tuple[Any, ...]]]
        places = [(n, aten.sym_size.int, (dim,)) for dim, n in enumerate(value.size())]
        places += [(n, aten.sym_stride.int, (dim,)) for dim, n in enumerate(value.stride())]
        places.append((value.storage_offset(), aten.sym_storage_offset.default, ()))
        yield from [place for place in places if compat.is_symbolic(place[0])]


def _asked(graph: Graph, tensor: Node, number: Any, ask: Any, args: tuple[Any, ...]) -> Node:
    place = tensor
    while place.next.op == "placeholder":
        place = place.next
    with graph.inserting_after(place):
        node = graph.call_function(ask, (tensor, *args))
    node.meta.update(val=number, phase="forward")
    return node
