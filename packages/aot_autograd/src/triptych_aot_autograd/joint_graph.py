"""`JointGraph`: forward and backward of one function as a single functional ATen graph, with named inputs and outputs.

The graph's placeholders are the function's inputs ("primals"), then one tangent for each differentiable output. Its
output is a tuple: the
forward's outputs, the final values of inputs that the graph itself is to overwrite (the epilogue), then the gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from torch.fx import Graph, GraphModule, Node

from triptych_aot_autograd.descriptions import AutocastState as AutocastState
from triptych_aot_autograd.descriptions import InputDesc as InputDesc
from triptych_aot_autograd.descriptions import OutputDesc as OutputDesc
from triptych_aot_autograd.facts import FunctionFacts
from triptych_aot_autograd.partition.min_cut import min_cut_partition
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.compile import compile_joint


class JointGraph:
    """What `trace_joint` returns. Edit `graph_module.graph` freely, but keep the order of placeholders and results."""

    def __init__(
        self,
        graph_module: GraphModule,
        inputs: list[InputDesc],
        outputs: list[OutputDesc],
        facts: FunctionFacts,
        ops: int,
    ) -> None:
        self.graph_module = graph_module
        self.inputs = inputs
        self.outputs = outputs
        self.facts = facts
        self.traced_ops = ops  # how many ops were seen while tracing
        self.eager: Callable[[list[Any]], Any] | None = None  # the function itself: flat inputs to flat outputs
        self.autocast = AutocastState.now()

    # -- parts ---------------------------------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The fx graph."""
        return self.graph_module.graph

    @property
    def placeholders(self) -> list[Node]:
        """All placeholder nodes, in the order of `inputs`."""
        return [n for n in self.graph.nodes if n.op == "placeholder"]

    @property
    def primals(self) -> list[Node]:
        """The placeholders of the function's own inputs."""
        return [n for n, d in zip(self.placeholders, self.inputs, strict=True) if d.kind != "tangent"]

    @property
    def tangents(self) -> list[Node]:
        """The placeholders of tangents."""
        return [n for n, d in zip(self.placeholders, self.inputs, strict=True) if d.kind == "tangent"]

    @property
    def results(self) -> list[Any]:
        """The output tuple, in the order of `outputs`."""
        return list(self.graph.output_node().args[0])

    def of_kind(self, *kinds: str) -> list[tuple[Any, OutputDesc]]:
        """Results (node and description) of some kinds."""
        return [(n, d) for n, d in zip(self.results, self.outputs, strict=True) if d.kind in kinds]

    @property
    def has_backward(self) -> bool:
        """Whether there is anything to differentiate."""
        return any(d.kind == "gradient" for d in self.outputs)

    def ambient_autocast(self) -> contextlib.AbstractContextManager:
        """The autocast state of the trace, to run the function again."""
        return self.autocast.entered()

    # -- use -----------------------------------------------------------------------------------------------------------
    def partition(self, partition_fn: Callable[..., Partition] | None = None, **options: Any) -> Partition:
        """Split into a forward and a backward graph. Default: `min_cut_partition`; `options` go to the partitioner."""
        return (partition_fn or min_cut_partition)(self, **options)

    def compile(self, fw_compiler: Any, bw_compiler: Any = None, **options: Any) -> Callable[..., Any]:
        """A callable of the flat primals, that runs and differentiates like the function.

        `fw_compiler(graph_module, example_inputs)` is called now, `bw_compiler` at the first backward. `options`:
        `partition_fn` and its own.
        """
        return compile_joint(self, fw_compiler, bw_compiler, **options)

    def __str__(self) -> str:
        lines = ["JointGraph("]
        lines += [f"  in  {n.name}: {d}" for n, d in zip(self.placeholders, self.inputs, strict=True)]
        lines += [f"  out {n}: {d}" for n, d in zip(self.results, self.outputs, strict=True)]
        return "\n".join([*lines, ")", str(self.graph)])
