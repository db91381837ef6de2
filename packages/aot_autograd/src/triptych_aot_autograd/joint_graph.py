"""`JointGraph`: forward and backward of one function as a single functional ATen graph, with named inputs and outputs.

The graph's placeholders are the function's inputs ("primals"), then one tangent for each differentiable output. Its
output is a tuple: the
forward's outputs, the final values of inputs that the graph itself is to overwrite (the epilogue), then the gradients.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from triptych_aot_autograd.facts import FunctionFacts
from triptych_aot_autograd.partition.min_cut import min_cut_partition
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.compile import compile_joint

RESERVED = frozenset(
    ("device", "inf", "nan", "torch", "self", "fx_pytree", "pytree", "NoneType")
)  # names in fx's generated code


@dataclass(frozen=True)
class InputDesc:
    """An input of the graph. kind: 'parameter', 'buffer', 'input' or 'tangent'; `target`: its name in the program."""

    kind: str
    target: str
    index: int = -1

    @property
    def name(self) -> str:
        """A name fit for an fx placeholder."""
        text = re.sub(r"\W", "_", self.target)
        plain = text.isidentifier() and not keyword.iskeyword(text) and text not in RESERVED
        return text if plain else f"p_{text}"

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True)
class OutputDesc:
    """An output of the joint graph.

    kind: 'output' (of the function), 'base' (memory that several outputs show), 'mutation' (new value of an input,
    written back by
    the caller), 'symbol' (a size that a replayed view needs), 'epilogue' (new value of an input, written back by the
    graph), 'gradient' (of input `index`).
    """

    kind: str
    target: str
    index: int
    differentiable: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True)
class AutocastState:
    """Whether autocast is on, by device type, and to which dtype."""

    states: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def now(cls) -> AutocastState:
        """The state of this thread."""
        types = ("cpu", "cuda")
        return cls(tuple((t, torch.is_autocast_enabled(t), torch.get_autocast_dtype(t)) for t in types))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Set it for the duration of a `with`."""
        with contextlib.ExitStack() as stack:
            for device_type, enabled, dtype in self.states:
                if enabled != torch.is_autocast_enabled(device_type):
                    stack.enter_context(torch.autocast(device_type, dtype=dtype, enabled=enabled))
            yield


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
