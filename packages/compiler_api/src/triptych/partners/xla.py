"""The backend `openxla`: XLA, through torch_xla, which compiles a graph when it is first run, with its real inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from triptych.errors import InvalidOptionError
from triptych.partners import host
from triptych.reports import Report
from triptych.settings import Backend, Settings

NAME = "openxla"
MODULE = "torch_xla._dynamo.dynamo_bridge"


def check(settings: Settings) -> None:
    """Raises InvalidOptionError: this backend has neither modes nor options."""
    raise InvalidOptionError(f"backend {NAME!r} has neither modes nor options")


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="openxla")`: autograd is ours, each ATen graph goes to XLA."""
    bridge = host.require(MODULE, "torch_xla", NAME)

    def compile_graph(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled: list[Callable[..., Any]] = []

        def run(*inputs: Any) -> Any:
            if not compiled:
                compiled.append(bridge.extract_compiled_graph(gm, inputs))
            return compiled[0](*inputs)

        return run

    return host.whole_graphs(NAME, compile_graph, settings, report)
