"""The graph of a function that is compiled ahead of time: built now, kept as data, and run in any process.

`build` makes a `KeptGraph` of a captured graph: the graph itself, and with backend "inductor" the run-time plan and the
compiled forward and backward graphs with their machine code. Where a process cannot use the machine code (another
processor), it compiles the graph again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triptych_aot_autograd
import triptych_inductor
from torch.fx import GraphModule
from triptych_aot_autograd import AotError, RuntimePlan
from triptych_aot_autograd.runtime.bind import bind, boxed
from triptych_dynamo.codec import NotPortable
from triptych_dynamo.export.graph_json import graph_from_json, graph_to_json
from triptych_inductor import ArtifactError, CompiledGraph, Options

from triptych.errors import PrecompileError
from triptych.precompile.compiling import boxed_call

log = logging.getLogger("triptych.aot")
Call = Callable[..., Sequence[Any]]
_FOLDER = re.compile(r'(File ")[^"\n]*[/\\]')


@dataclass(frozen=True)
class KeptGraph:
    """facts: JSON-able; kernels: compiled graphs by role ("inference", or "forward" and "backward"), as bytes."""

    facts: dict[str, Any]
    kernels: dict[str, bytes]


def build(gm: GraphModule, backend: str, options: Options) -> KeptGraph:
    """Compiles a captured graph, its backward too.

    Raises: PrecompileError for a graph that has no stored form.
    """
    try:
        facts: dict[str, Any] = {"backend": backend, "graph": _without_folders(graph_to_json(gm)), "plan": None}
        if backend == "eager":
            return KeptGraph(facts, {})
        plan, compiled = _compiled(gm, options)
        kernels = {role: graph.to_bytes() for role, graph in compiled.items()}
        return KeptGraph({**facts, "plan": plan.to_json()}, kernels)
    except (NotPortable, ArtifactError, triptych_aot_autograd.PlanError) as error:
        raise PrecompileError(f"the graph cannot be stored: {error}") from error
    except AotError as error:
        raise PrecompileError(f"the graph cannot be compiled ahead of time: {error}") from error


def _without_folders(graph: dict[str, Any]) -> dict[str, Any]:
    """The stored graph, whose lines of the program are named without the folders of their files."""
    return {**graph, "nodes": [_row_without_folders(row) for row in graph["nodes"]]}


def _row_without_folders(row: dict[str, Any]) -> dict[str, Any]:
    if "body" in row:
        return {**row, "body": row["body"] and [_row_without_folders(inner) for inner in row["body"]]}
    return {**row, "trace": row["trace"] and _FOLDER.sub(r"\1", row["trace"])}


def _compiled(gm: GraphModule, options: Options) -> tuple[RuntimePlan, dict[str, CompiledGraph]]:
    inputs = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    gm, _ = triptych_inductor.run_front_passes(gm, options)
    plans: list[RuntimePlan] = []
    compiled: dict[str, CompiledGraph] = {}

    def compiler(role: str) -> Callable[..., Any]:
        def run(graph: GraphModule, example_inputs: Sequence[Any]) -> Any:
            compiled[role] = triptych_inductor.compile(graph, example_inputs, options=options)
            return compiled[role]

        return run

    backend = triptych_aot_autograd.aot_backend(
        compiler("forward"),
        compiler("backward"),
        inference_compiler=compiler("inference"),
        unsupported="raise",
        on_plan=plans.append,
        lazy_backward=False,
    )
    backend(gm, inputs)
    if not plans:
        raise PrecompileError("the graph writes to inputs that share memory: pass copies of them")
    return plans[0], compiled


def load(kept: KeptGraph) -> Call:
    """The graph as a function of flat inputs."""
    if kept.facts["backend"] == "eager":
        return graph_from_json(kept.facts["graph"]).forward
    try:
        compiled = {role: CompiledGraph.from_bytes(data) for role, data in kept.kernels.items()}
    except (ArtifactError, RuntimeError) as error:
        log.warning("the stored kernels cannot be used here, the graph is compiled again: %s", error)
        return _rebuilt(kept)
    return _bound(RuntimePlan.from_json(kept.facts["plan"]), compiled)


def _rebuilt(kept: KeptGraph) -> Call:
    stored = RuntimePlan.from_json(kept.facts["plan"])
    with torch.set_grad_enabled(bool(stored.gradients)), stored.autocast.entered():
        return _bound(*_compiled(graph_from_json(kept.facts["graph"]), Options()))


def _bound(plan: RuntimePlan, compiled: dict[str, CompiledGraph]) -> Call:
    forward = compiled.get("inference") or compiled["forward"]
    backward = boxed(boxed_call(compiled["backward"])) if plan.gradients else None
    return bind(plan, boxed_call(forward), backward, eager=_not_here)


def _not_here(inputs: list[Any]) -> Any:
    raise PrecompileError(
        "arguments share memory that the program writes to, which the captured ones did not: pass copies (or, for "
        "gradients of gradients, run the program itself)"
    )
