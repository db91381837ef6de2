"""The table of constructs: small programs, each with its arguments and whether it is one graph or breaks.

A family file decorates functions with `@construct(*args)`; the tests run every row under `capture`, `optimize` and, in
the root's tests, the whole stack, and compare what a program can see with plain Python.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Row:
    """One construct.

    Attributes:
        family: the file it stands in.
        fn: the program.
        args: its arguments; each run gets a deep copy.
        breaks: the kind of the graph break that ends its first graph, or None for one whole graph.
        raises: whether the program ends with an exception.
        reads_time: its result differs from call to call; only that it runs is compared.
    """

    family: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    breaks: str | None = None
    raises: bool = False
    reads_time: bool = False

    @property
    def name(self) -> str:
        """`family-function`, unique in the table."""
        return f"{self.family}-{self.fn.__name__}"


ROWS: dict[str, Row] = {}


def construct(*args: Any, **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the decorated function to the table, with its arguments and the facts that differ from `Row`'s defaults."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        row = Row(fn.__module__.rpartition(".")[2], fn, args, **facts)
        assert row.name not in ROWS, f"two rows named {row.name}"
        ROWS[row.name] = row
        return fn

    return register


def load_rows() -> list[Row]:
    """Import every family file and give all rows, in order."""
    for path in sorted(Path(__file__).parent.glob("family_*.py")):
        importlib.import_module(path.stem)
    return list(ROWS.values())
