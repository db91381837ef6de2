"""Our back ends for other front ends: what the entry points of the group `torch_dynamo_backends` name.

`torch.compile(model, backend="triptych")` captures with torch's own front end and compiles with our autograd and code
generation. That front end describes placeholders in `meta["example_value"]`; our stages read `meta["val"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import Graph, GraphModule, Node

from triptych import pipelines
from triptych.reports import Report
from triptych.settings import Backend, Settings


def triptych(gm: GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """The whole back end: autograd ahead of time and generated code. keywords:

    `mode` or `options`, as for `compile`.
    """
    return _compile(pipelines.inductor, "triptych", gm, example_inputs, keywords)


def triptych_aot_eager(gm: GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Autograd ahead of time only: forward and backward graphs of ATen operators, run one by one."""
    return _compile(pipelines.aot_eager, "triptych_aot_eager", gm, example_inputs, keywords)


def _compile(
    make: Callable[[Settings, Report], Backend],
    name: str,
    gm: GraphModule,
    example_inputs: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Callable[..., Any]:
    return make(Settings(**keywords), Report(name))(with_values(gm), example_inputs)


def with_values(gm: GraphModule) -> GraphModule:
    """A copy of `gm` whose nodes have `meta["val"]` where they had `meta["example_value"]`. `gm` stays as it was."""
    graph = Graph()
    copied: dict[Node, Node] = {}
    graph.output(graph.graph_copy(gm.graph, copied))
    for node in graph.nodes:
        if "example_value" in node.meta:
            node.meta.setdefault("val", node.meta["example_value"])
    return GraphModule(gm, graph)
