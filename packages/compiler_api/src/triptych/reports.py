"""What the compiler made of a program: a record that fills up as graphs are compiled, for people and for benchmarks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

ATTRIBUTE = "__triptych_report__"


@dataclasses.dataclass(frozen=True)
class CompiledStage:
    """One graph that the code generator compiled.

    role: "forward", "backward" or "inference". graph: index of the captured graph it belongs to. operations: number of
    call nodes. kernels: names of the generated kernels. fallbacks: operators that run as torch's own kernels because
    they have no lowering, with their number. build_seconds: part of seconds that building machine code took. files:
    name and text of what was generated. failure: why it runs eagerly instead, or "". cached: it was taken from
    the disk. tuning: what autotuning tried for each kernel, a printable table each (`mode="max-autotune"`).
    frozen: with `freezing`, what each of its passes found, and the number of constants; not_frozen: why nothing is.
    replay: whether it is replayed as a CUDA graph, and why not; "" where that was not asked for.
    """

    role: str
    graph: int
    operations: int
    kernels: tuple[str, ...] = ()
    fallbacks: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    build_seconds: float = 0.0
    files: tuple[tuple[str, str], ...] = ()
    failure: str = ""
    cached: bool = False
    tuning: tuple[Any, ...] = ()
    replay: str = ""
    frozen: tuple[tuple[str, int], ...] = ()
    not_frozen: str = ""


@dataclasses.dataclass(frozen=True)
class CapturedStage:
    """One graph that the front end captured: number of call nodes, and seconds its backend took (all stages below)."""

    operations: int
    seconds: float


@dataclasses.dataclass
class Report:
    """All that was compiled for one compiled callable. Prints as a summary.

    breaks: why graphs ended early. recompiles: for each version after the first, the fact that did not hold for the
    versions before. failures: backends that failed on a graph, which runs eagerly, and graphs that failed in a
    call where the program itself does not (`on_error="eager"`).
    partners: a `triptych.partners.activity.PartnerStage` for each graph that a third party's compiler took.
    patterns: how often each pass over captured graphs found something to rewrite ("fuse_attention").

    Example:
        >>> compiled = triptych.compile(model)
        >>> compiled(x)
        >>> print(triptych.report(compiled))
    """

    name: str
    graphs: list[CapturedStage] = dataclasses.field(default_factory=list)
    stages: list[CompiledStage] = dataclasses.field(default_factory=list)
    breaks: list[str] = dataclasses.field(default_factory=list)
    partners: list[Any] = dataclasses.field(default_factory=list)
    recompiles: list[str] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)
    patterns: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def kernels(self) -> int:
        """Number of generated kernels, over all graphs."""
        return sum(len(stage.kernels) for stage in self.stages)

    @property
    def fallbacks(self) -> dict[str, int]:
        """Operator name -> how often it runs as torch's own kernel for want of a lowering."""
        total: Counter[str] = Counter()
        for stage in self.stages:
            total.update(dict(stage.fallbacks))
        return dict(total)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by stage.

        "build": the C++ compiler. "codegen": the code generator without it. "autograd": the rest of the backend.
        """
        build = sum(stage.build_seconds for stage in self.stages)
        below = sum(stage.seconds for stage in self.stages)
        at_capture = sum(stage.seconds for stage in self.stages if stage.role != "backward")
        autograd = sum(graph.seconds for graph in self.graphs) - at_capture
        return {"build": build, "codegen": below - build, "autograd": autograd}

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.graphs)} graphs, {len(self.breaks)} breaks, {self.kernels} kernels"]
        for stage in self.stages:
            text = f"  graph {stage.graph} {stage.role}: {stage.operations} operations, {len(stage.kernels)} kernels"
            if stage.fallbacks:
                text += ", fallbacks " + ", ".join(f"{name} x{count}" for name, count in stage.fallbacks)
            if stage.cached:
                text += ", from the cache"
            if stage.frozen:
                text += ", frozen (" + ", ".join(f"{name} {count}" for name, count in stage.frozen) + ")"
            if stage.not_frozen:
                text += f", not frozen: {stage.not_frozen}"
            if stage.replay:
                text += f", {stage.replay}"
            if stage.failure:
                text += f", runs eagerly: {stage.failure}"
            lines.append(f"{text}, {stage.seconds:.2f} s")
            lines += [f"    {line}" for choice in stage.tuning for line in str(choice).splitlines()[:2]]
        lines += [f"  rewritten by {name}: {count}" for name, count in self.patterns.items()]
        lines += [f"  {stage}" for stage in self.partners]
        lines += [f"  break: {reason}" for reason in self.breaks]
        lines += [f"  compiled again: {reason}" for reason in self.recompiles]
        lines += [f"  runs eagerly: {failure}" for failure in self.failures]
        return "\n".join(lines)


def report(compiled: Any) -> Report:
    """The report of a callable or module made by `triptych.compile`.

    compiled: what `compile` returned, or a bound method of it.
    Raises: TypeError when it was not made by `triptych.compile`.
    """
    owner = getattr(compiled, "__func__", compiled)
    found = getattr(type(owner), ATTRIBUTE, None) or getattr(owner, "__dict__", {}).get(ATTRIBUTE)
    if not isinstance(found, Report):
        raise TypeError(f"{compiled!r} was not made by triptych.compile")
    return found
