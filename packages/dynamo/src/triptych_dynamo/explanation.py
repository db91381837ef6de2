"""`explain` and `capture_all`: run a program once, graph by graph, and tell what was captured and where it broke."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from triptych_dynamo.api import optimize, region_of
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.region import FrameRecord


@dataclass(frozen=True)
class BreakReport:
    """A graph break, as data.

    Attributes:
        id: number of its kind, such as "DYN0014".
        kind: the kind's name.
        reason: what was met, in the program's terms.
        explanation: why no graph holds it.
        hint: what the user can do.
        place: the user's 'file:line'.
        source_line: the text of that line.
        user_stack: the calls that lead there, outermost first.
    """

    id: str
    kind: str
    reason: str
    explanation: str
    hint: str
    place: str
    source_line: str = ""
    user_stack: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: Unsupported) -> BreakReport:
        """The report of an `Unsupported`."""
        kind = error.kind
        place = (error.user_line, error.source_line, tuple(error.user_stack))
        return cls(kind.id, kind.name, error.text, kind.explanation, error.hint, *place)

    def __str__(self) -> str:
        return f"{self.place}: {self.id} {self.reason} (hint: {self.hint})"


@dataclass(frozen=True)
class Explanation:
    """What became of one run of a program.

    Attributes:
        result: what the program returned.
        graphs: the captured graphs, in the order of compilation.
        breaks: why graphs ended early.
        guards: the facts of each compiled frame.
        frames: a record for each compiled frame, with times.
    """

    result: Any
    graphs: list[fx.GraphModule]
    breaks: list[BreakReport]
    guards: list[list[Guard]]
    frames: list[FrameRecord]

    @property
    def graph_count(self) -> int:
        """Number of graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """Number of graph breaks."""
        return len(self.breaks)

    @property
    def break_reasons(self) -> list[BreakReport]:
        """Why graphs ended early: `breaks` by the name that torch's explanation has."""
        return self.breaks

    @property
    def op_count(self) -> int:
        """Calls in all graphs."""
        return sum(map(len, self.ops_per_graph))

    @property
    def ops_per_graph(self) -> list[list[str]]:
        """The targets of each graph's calls, in order."""
        calls = ("call_function", "call_method", "call_module")
        return [
            [str(getattr(node.target, "__name__", node.target)) for node in graph.graph.nodes if node.op in calls]
            for graph in self.graphs
        ]

    @property
    def compile_seconds(self) -> float:
        """Time of all compiles."""
        return sum(record.seconds for record in self.frames)

    def __str__(self) -> str:
        head = f"{self.graph_count} graphs, {self.graph_break_count} graph breaks, {self.op_count} operations"
        lines = [head]
        lines += [f"  break {number}: {item}" for number, item in enumerate(self.breaks, start=1)]
        for record in self.frames:
            count = len(record.graph.graph.nodes) if record.graph is not None else 0
            lines.append(f"  frame {record.name}: {count} nodes, {len(record.guards)} guards, {record.seconds:.2f} s")
        return "\n".join(lines)


def explain(fn: Any, *, dynamic: bool | None = None) -> Callable[..., Explanation]:
    """Run `fn` once with its graphs executed eagerly, and tell what was captured.

    Args:
        fn: a function, method, module or callable object.
        dynamic: as for `optimize`.

    Returns:
        a function that takes `fn`'s arguments and gives the `Explanation`.

    Example:
        >>> print(explain(model)(x))
    """

    def run(*args: Any, **kwargs: Any) -> Explanation:
        compiled = optimize("eager", dynamic=dynamic)(fn)
        result = compiled(*args, **kwargs)
        records = list(region_of(compiled).records)
        return Explanation(
            result,
            [record.graph for record in records if record.graph is not None],
            [BreakReport.of(record.break_reason) for record in records if record.break_reason is not None],
            [record.guards for record in records],
            records,
        )

    return run


def capture_all(
    fn: Any, *, dynamic: bool | None = None
) -> Callable[..., list[tuple[fx.GraphModule, BreakReport | None]]]:
    """Every graph of a program with breaks, in order, each with the break that ended it (None for the last).

    The program runs, as what comes behind a break depends on it.
    """

    def run(*args: Any, **kwargs: Any) -> list[tuple[fx.GraphModule, BreakReport | None]]:
        explanation = explain(fn, dynamic=dynamic)(*args, **kwargs)
        return [
            (record.graph, BreakReport.of(record.break_reason) if record.break_reason is not None else None)
            for record in explanation.frames
            if record.graph is not None
        ]

    return run
