"""The backend `tensorrt`: NVIDIA's inference engine, through the backend function of torch_tensorrt.

That function takes torch-level graphs and does autograd, partitioning and engine building itself. Told so, it raises
where an engine cannot be built, instead of running the graph in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from triptych.errors import InvalidModeError
from triptych.partners import host
from triptych.partners.activity import PartnerStage
from triptych.reports import CapturedStage, Report
from triptych.settings import Backend, Settings

NAME = "tensorrt"
MODULE = "torch_tensorrt.dynamo.backend"
STRICT = {"pass_through_build_failures": True}


def check(settings: Settings) -> None:
    """Raises InvalidModeError for a mode. Options are torch_tensorrt's own and checked there."""
    if settings.mode not in (None, "default"):
        raise InvalidModeError(f"backend {NAME!r} has no modes, so mode={settings.mode!r} has no meaning there")


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="tensorrt", options={...})`; options as of torch_tensorrt."""
    check(settings)

    def run(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        compile_graph = host.require(MODULE, "torch-tensorrt", NAME).torch_tensorrt_backend
        stage = PartnerStage(NAME, "inference", len(report.graphs), subgraphs=1)
        stage.operations = sum(node.op.startswith("call_") for node in gm.graph.nodes)
        report.graphs.append(CapturedStage(stage.operations, 0.0))
        report.partners.append(stage)
        compiled = compile_graph(gm, list(example_inputs), options=STRICT | dict(settings.options or {}))
        return host.counted(compiled, stage)

    return run
