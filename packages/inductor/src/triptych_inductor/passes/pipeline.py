"""The list of graph passes, in order, and `run_passes`.

A pass is a function of a `GraphModule` that changes it in place, with a name; users add their own with `register_pass`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from triptych_inductor.errors import OptionsError
from triptych_inductor.lowering import table as table
from triptych_inductor.options import Options
from triptych_inductor.passes import attention, channels_last, cleanup, decompose, scans

GraphPass = Callable[[GraphModule], None]


@dataclass(frozen=True)
class PassRecord:
    """What one pass did: for reports."""

    name: str
    milliseconds: float
    nodes_before: int
    nodes_after: int

    def __str__(self) -> str:
        return f"{self.name}: {self.nodes_before} -> {self.nodes_after} nodes in {self.milliseconds:.2f} ms"


PASSES: dict[str, GraphPass] = {
    "remove_dead_code": cleanup.remove_dead_code,
    "decompose": decompose.decompose,
    "remove_no_ops": cleanup.remove_no_ops,
    "common_subexpressions": cleanup.common_subexpressions,
    "reverse_scans": scans.reverse_scans,
}

FrontPass = Callable[[GraphModule], tuple[GraphModule, int]]
FRONT_PASSES: dict[str, FrontPass] = {
    "fuse_attention": attention.fuse_attention,
    "channels_last": channels_last.channels_last,
}
"""Passes over graphs of torch functions, before autograd: each gives a graph and how often it found something."""

_EXTRA: dict[str, GraphPass] = {}


def register_pass(name: str) -> Callable[[GraphPass], GraphPass]:
    """Decorator: run this function on every graph after the built-in passes. A name may be registered again.

    Example: `@register_pass("count")` over `def count(gm): print(len(gm.graph.nodes))`.
    """
    if name in PASSES:
        raise OptionsError(f"{name!r} is a built-in pass; leave it out with Options(exclude_passes=({name!r},))")

    def register(fn: GraphPass) -> GraphPass:
        _EXTRA[name] = fn
        return fn

    return register


def unregister_pass(name: str) -> None:
    """Forget a pass registered by `register_pass`."""
    _EXTRA.pop(name, None)


def extra_passes() -> list[str]:
    """Names of the passes that users registered."""
    return sorted(_EXTRA)


def run_passes(gm: GraphModule, options: Options) -> list[PassRecord]:
    """Run all passes on `gm` (a copy that we own); gives what each did."""
    records = []
    for name, fn in {**PASSES, **_EXTRA}.items():
        if name in options.exclude_passes:
            continue
        before, start = len(gm.graph.nodes), time.perf_counter()
        fn(gm)
        records.append(PassRecord(name, (time.perf_counter() - start) * 1e3, before, len(gm.graph.nodes)))
    return records


def run_front_passes(
    gm: GraphModule, options: Options | Mapping[str, Any] | None = None
) -> tuple[GraphModule, dict[str, int]]:
    """Passes for a captured graph of torch functions, before it is differentiated.

    gm: its nodes carry `meta["val"]` (fake tensors) and it is not changed. Gives the graph to go on with (`gm` itself
    where nothing was found), and how often each pass found something.

    >>> gm, counts = run_front_passes(gm)
    """
    chosen = Options.make(options)
    excluded = {*chosen.exclude_passes, *(("channels_last",) if chosen.channels_last != "always" else ())}
    counts: Counter[str] = Counter()
    gm = _front_passes(gm, [(name, fn) for name, fn in FRONT_PASSES.items() if name not in excluded], counts)
    return gm, dict(counts)


def _front_passes(gm: GraphModule, passes: list[tuple[str, FrontPass]], counts: Counter[str]) -> GraphModule:
    """A graph after the passes; graphs that it calls go through them once each, however often they are called."""
    called = {str(n.target) for n in gm.graph.find_nodes(op="call_module")}
    regions = {name: module for name, module in gm.named_children() if name in called}
    made = {name: _front_passes(m, passes, counts) for name, m in regions.items() if isinstance(m, GraphModule)}
    if any(module is not regions[name] for name, module in made.items()):
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(gm.graph, {}))
        graph.output_node().meta = dict(gm.graph.output_node().meta)
        gm = GraphModule(gm, graph)
        for name, module in made.items():
            setattr(gm, name, module)
    for name, fn in passes:
        gm, found = fn(gm)
        if found:
            counts[name] += found
    return gm


class WorkingGraph:
    """A graph that may be changed, with the attributes of the module it was copied from.

    It stands in for a `GraphModule` where no Python code of the graph is needed (writing that costs more than most
    passes).
    """

    def __init__(self, owner: GraphModule, graph: torch.fx.Graph) -> None:
        self.owner = owner
        self.graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["owner"], name)


def copy_graph(gm: GraphModule) -> GraphModule:
    """A copy whose graph may be changed; attributes (tensors, submodules) are shared, meta dictionaries copied."""
    graph = torch.fx.Graph()
    output = graph.graph_copy(gm.graph, {})
    graph.output(output)
    graph.output_node().meta = dict(gm.graph.output_node().meta)
    return GraphModule(gm, graph) if _EXTRA else WorkingGraph(gm, graph)  # type: ignore[return-value]
