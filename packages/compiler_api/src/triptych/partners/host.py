"""From a partner's compiler to a backend: autograd is ours, sizes are made fixed, and what is left over runs in torch.

A graph with symbolic sizes is compiled by the partner once for each set of sizes it is called with.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from triptych import pipelines
from triptych.errors import BackendUnavailableError
from triptych.partners.acceptance import Partner
from triptych.partners.activity import PartnerStage
from triptych.partners.partition import compile_pieces
from triptych.partners.static import is_static, made_static
from triptych.reports import Report
from triptych.settings import Backend, Settings

KEPT_SIZES = 32  # sets of sizes for which one graph's compiled form is kept
POLICIES = ("warn", "raise", "ignore")


def require(module: str, distribution: str, backend: str) -> Any:
    """Imports a partner's module. Raises BackendUnavailableError that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BackendUnavailableError(
            f"backend {backend!r} needs {module}, which cannot be imported ({error}): pip install {distribution}"
        ) from error


def backend(partner: Partner, settings: Settings, report: Report, policy: str = "warn") -> Backend:
    """A backend that compiles with `partner`. policy: see `PartnerStage.fell_back`."""
    known: dict[Any, str] = {}

    def compiler(role: str, index: int) -> pipelines.Compiler:
        def run(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            stage = PartnerStage(partner.name, role, index)
            report.partners.append(stage)
            return Specialised(gm, example_inputs, partner, stage, known, policy)

        return run

    return pipelines.ahead_of_time(compiler, settings, report)


def counted(run: Callable[..., Any], stage: PartnerStage) -> Callable[..., Any]:
    """`run`, noting each execution in `stage`."""

    def call(*inputs: Any) -> Any:
        result = run(*inputs)
        stage.executions += 1
        return result

    return call


def whole_graphs(
    name: str, compile_graph: Callable[[GraphModule, Sequence[Any]], Any], settings: Settings, report: Report
) -> Backend:
    """A backend that hands whole ATen graphs to a partner that does the rest, fallback included, itself."""

    def compiler(role: str, index: int) -> pipelines.Compiler:
        def run(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            stage = PartnerStage(name, role, index, subgraphs=1)
            stage.operations = sum(node.op == "call_function" for node in gm.graph.nodes)
            report.partners.append(stage)
            return counted(compile_graph(gm, example_inputs), stage)

        return run

    return pipelines.ahead_of_time(compiler, settings, report)


class Specialised:
    """A graph as a function of one list, compiled for each set of sizes that it meets."""

    _boxed_call = True

    def __init__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any],
        partner: Partner,
        stage: PartnerStage,
        known: dict[Any, str],
        policy: str,
    ) -> None:
        self._gm, self._partner, self._stage, self._known, self._policy = gm, partner, stage, known, policy
        self._compiled: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._static = all(map(is_static, example_inputs))
        if self._static:
            self._for_sizes((), example_inputs)

    def __call__(self, args: list[Any]) -> Any:
        inputs = list(args)
        args.clear()
        key = () if self._static else tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in inputs)
        run = self._compiled.get(key)
        if run is None:
            with self._lock:
                run = self._compiled.get(key) or self._for_sizes(key, inputs)
        return run(*inputs)

    def _for_sizes(self, key: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        graph = made_static(self._gm, inputs, self._partner, self._known)
        if isinstance(graph, GraphModule):
            run = compile_pieces(graph, self._partner, self._stage, self._known, self._policy)
        else:
            run = self._gm.forward
            self._stage.fell_back([("the graph", graph)], self._policy)
        self._compiled[key] = run
        while len(self._compiled) > KEPT_SIZES:
            self._compiled.popitem(last=False)
        return run
