"""The compilers that are compared, as a table: how each is asked to compile, and how its counts are read afterwards."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Counts:
    """What a compiler made of a program. None where a compiler does not tell."""

    graphs: int | None = None
    breaks: int | None = None
    kernels: int | None = None
    fallbacks: int | None = None
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiler:
    """compile: (module, fullgraph, dynamic) -> callable. counts: reads the counts of the callable after it ran."""

    name: str
    compile: Callable[..., Any]
    counts: Callable[[Any], Counts]


def _peer_compile(model: Any, *, fullgraph: bool, dynamic: bool | None) -> Any:
    import torch

    return torch.compile(model, fullgraph=fullgraph, dynamic=dynamic)


def _peer_counts(_: Any) -> Counts:
    counters = importlib.import_module("torch._dynamo.utils").counters
    metrics = importlib.import_module("torch._inductor.metrics")
    return Counts(
        graphs=counters["stats"]["unique_graphs"],
        breaks=sum(counters["graph_break"].values()),
        kernels=metrics.generated_kernel_count,
    )


def _our_compile(model: Any, *, fullgraph: bool, dynamic: bool | None) -> Any:
    import triptych

    return triptych.compile(model, fullgraph=fullgraph, dynamic=dynamic)


def _our_counts(compiled: Any) -> Counts:
    import triptych

    report = triptych.report(compiled)
    return Counts(
        graphs=len(report.graphs),
        breaks=len(report.breaks),
        kernels=report.kernels,
        fallbacks=sum(report.fallbacks.values()),
        stages=report.seconds,
    )


COMPILERS: dict[str, Compiler] = {
    row.name: row
    for row in (
        Compiler("eager", lambda model, **_: model, lambda _: Counts()),
        Compiler("peer", _peer_compile, _peer_counts),
        Compiler("triptych", _our_compile, _our_counts),
    )
}
