"""Records of frozen graphs: the code that was generated for them, without their weights.

What follows from the constants is computed in each process anew, and what lowering makes of the graph that is left
hangs on their metadata alone. So that is what a record's key is made of: it serves any weights of the same kind, which
the process binds to it, and none of them lies on the disk.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule

from triptych_inductor.cache import graphs
from triptych_inductor.cache.guards import GuardRecorder
from triptych_inductor.cache.text import Uncacheable
from triptych_inductor.compiled import CompiledGraph
from triptych_inductor.options import Options


class FrozenRecord:
    """The record of one graph whose frozen passes have run; `found` is what an earlier process made of it, or None.

    gm: the graph, before the passes that all graphs have.
    """

    def __init__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> None:
        self.names = list(dict.fromkeys(str(node.target) for node in gm.graph.find_nodes(op="get_attr")))
        self.values = [attrgetter(name)(gm) for name in self.names]
        self.operations = sum(node.op == "call_function" for node in gm.graph.nodes)
        self.key = ""
        self.found: CompiledGraph | None = None
        plain = all("." not in name for name in self.names) and not (options.max_autotune or options.cudagraphs)
        if graphs.switched_on(options) and plain:
            try:
                self.key = graphs.graph_key(
                    _without_content(gm, self.names, self.values), example_inputs, options, constants=False
                )
            except Uncacheable as error:
                graphs.log.info("a graph is not kept in the cache: %s", error)
        if self.key:
            self.found = graphs.lookup(self.key, example_inputs, self.values)
        self.recorder = GuardRecorder(example_inputs)

    def store(self, compiled: CompiledGraph, attributes: Mapping[str, str]) -> None:
        """Write it. attributes: of each constant of the compiled graph, the attribute that it was."""
        positions = {name: position for position, name in enumerate(self.names)}
        if self.key and positions.keys() >= set(attributes.values()):
            bound = {constant: positions[name] for constant, name in attributes.items()}
            graphs.store(self.key, compiled, self.recorder, self.operations, bound)


def _without_content(gm: GraphModule, names: Sequence[str], values: Sequence[Any]) -> Any:
    """What the key of the graph is made of; weights packed for the processor have no strides, so stand-ins of them."""
    held = {name: _stand_in(value) for name, value in zip(names, values, strict=True)}
    return types.SimpleNamespace(graph=gm.graph, **held)


def _stand_in(value: Any) -> Any:
    packed = isinstance(value, torch.Tensor) and value.layout is not torch.strided
    return torch.empty(value.shape, dtype=value.dtype, device="meta") if packed else value
