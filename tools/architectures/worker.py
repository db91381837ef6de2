"""Some architectures under one compiler, in this process: ``python -m tools.architectures.worker COMPILER NAME...``.

Out: one JSON line per architecture and mode (a `Result`), as they come. The backend is "eager", so that only
capture is seen.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tools.architectures.table import ARCHITECTURES, Architecture

TOLERANCE = 1e-5
MODES = ("inference", "training")


@dataclass
class Result:
    """One architecture, mode and compiler.

    graphs, breaks: what capture made of the first call. first_s: seconds of that call, capture included. error: largest
    difference of an output or gradient from eager's, relative to the largest number of that tensor. recompiles: graphs
    that a second, equal call added. failure: the exception, or "".
    """

    name: str
    family: str
    mode: str
    compiler: str
    graphs: int = 0
    breaks: int = 0
    reasons: list[str] = field(default_factory=list)
    recompiles: int = 0
    first_s: float = 0.0
    error: float = 0.0
    failure: str = ""

    @property
    def right(self) -> bool:
        """Whether it ran and its values are eager's."""
        return not self.failure and self.error <= TOLERANCE


class Ours:
    """Triptych's capture with backend "eager"."""

    def __init__(self, model: torch.nn.Module) -> None:
        import triptych

        self.call = triptych.compile(model, backend="eager")
        self._report = triptych.report(self.call)

    def counts(self) -> tuple[int, list[str]]:
        """Graphs so far, and the reasons of the breaks so far."""
        return len(self._report.graphs), list(map(str, self._report.breaks))


class Peer:
    """torch.compile with a counting eager backend."""

    def __init__(self, model: torch.nn.Module) -> None:
        torch._dynamo.reset()
        self._counters = importlib.import_module("torch._dynamo.utils").counters
        self._counters.clear()
        self._graphs = 0
        self.call = torch.compile(model, backend=self._backend)

    def _backend(self, graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        self._graphs += 1
        return graph.forward

    def counts(self) -> tuple[int, list[str]]:
        """Graphs so far, and the reasons of the breaks so far."""
        return self._graphs, list(self._counters["graph_break"].elements())


COMPILERS: dict[str, type[Ours] | type[Peer]] = {"triptych": Ours, "peer": Peer}


def tensors(model: torch.nn.Module, call: Callable[..., Any], batch: dict[str, Any], training: bool) -> dict[str, Any]:
    """Outputs of one call by position and, when training, gradients of their sum by parameter name."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(2)
    with torch.set_grad_enabled(training), contextlib.redirect_stdout(sys.stderr):
        output = call(**batch)
        leaves = pytree.tree_leaves(output.to_tuple() if hasattr(output, "to_tuple") else output)
        values = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if training:
            sum(value.float().sum() for value in values if value.requires_grad).backward()
    found = {f"output {index}": value.detach().clone() for index, value in enumerate(values)}
    return found | {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def error_of(got: dict[str, Any], expected: dict[str, Any]) -> float:
    """Largest relative difference over all tensors. Raises: ValueError when names, shapes or dtypes differ."""
    if got.keys() != expected.keys():
        raise ValueError(f"different tensors: {sorted(got.keys() ^ expected.keys())[:5]}")
    largest = max((value.double().abs().max().item() for value in expected.values() if value.numel()), default=0.0)
    scale = largest or 1.0
    worst = 0.0
    for name, value in expected.items():
        if got[name].shape != value.shape or got[name].dtype != value.dtype:
            raise ValueError(f"{name}: {got[name].dtype}{tuple(got[name].shape)} is not eager's")
        if value.numel():
            worst = max(worst, torch.nan_to_num(got[name].double() - value.double()).abs().max().item() / scale)
    return worst


def measure(row: Architecture, mode: str, compiler: str) -> Result:
    """Runs eager, then the compiled model twice from the same state."""
    result = Result(row.name, row.family, mode, compiler)
    try:
        model, batch, training = row.build(), row.batch(), mode == "training"
        model.train(training)
        state = {name: value.clone() for name, value in model.state_dict().items()}
        expected = tensors(model, model, batch, training)
        model.load_state_dict(state)
        compiled = COMPILERS[compiler](model)
        start = time.perf_counter()
        got = tensors(model, compiled.call, batch, training)
        result.first_s = time.perf_counter() - start
        result.graphs, result.reasons = compiled.counts()
        result.breaks = len(result.reasons)
        result.error = error_of(got, expected)
        model.load_state_dict(state)
        result.error = max(result.error, error_of(tensors(model, compiled.call, batch, training), expected))
        result.recompiles = compiled.counts()[0] - result.graphs
    except Exception as error:
        result.failure = f"{type(error).__name__}: {error}"[:600]
    return result


def main() -> None:
    """Measures what the command line names and prints a JSON line for each."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        for mode in MODES:
            print(json.dumps(asdict(measure(ARCHITECTURES[name], mode, sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
