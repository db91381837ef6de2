"""One random program, plain and compiled: the first difference as text."""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import triptych_dynamo

from tools.random_programs.calls import first_edition, prepare
from tools.random_programs.editions import LATEST
from tools.random_programs.outcome import run
from tools.random_programs.programs import write_program

CALLS = {1: 3, 2: 4, 3: 4}  # by edition
PLAIN_SECONDS, COMPILED_SECONDS = 2, 60  # of processor time; a plain program that needs more says nothing


class TooLong(BaseException):
    """A program that does not end."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in a block that uses more processor time."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds / 4)  # again, for programs that catch everything
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass
class Tally:
    """What became of the programs.

    Attributes:
        graphs: how many there were.
        breaks: how often a graph was ended.
        too_long: whether the plain program did not end, so that nothing was compared.
    """

    graphs: int = 0
    breaks: int = 0
    too_long: bool = False

    def graph(self, *_: Any) -> None:
        """Count a graph."""
        self.graphs += 1

    def ended(self, *_: Any) -> None:
        """Count a break."""
        self.breaks += 1


@dataclass(frozen=True)
class Case:
    """A program and how it is run."""

    seed: int
    edition: int = LATEST
    backend: str = "eager"

    @property
    def text(self) -> str:
        """The program."""
        return write_program(self.seed, self.edition)

    def arguments(self, index: int, world: dict[str, Any]) -> dict[str, Any]:
        """Of a call."""
        requires_grad = self.seed % 3 == 0
        if self.edition == 1:
            return first_edition(requires_grad, index)
        return prepare(self.seed, index, requires_grad, world)

    def outcomes(self, text: str, transform: Callable[[Any], Any]) -> list[Any]:
        """Of the calls."""
        torch.manual_seed(0)
        random.seed(0)
        return run(text, transform, self.arguments, CALLS[self.edition])


def compiler(backend: str, tally: Tally) -> Callable[[Any], Any]:
    """What compiles a program's `main`."""
    if backend == "triptych":
        import triptych

        return lambda fn: triptych.compile(fn)
    hooks = triptych_dynamo.Hooks(on_graph=tally.graph, on_break=tally.ended)
    return lambda fn: triptych_dynamo.optimize(backend, hooks=hooks)(fn)


def difference(case: Case, text: str | None = None, tally: Tally | None = None) -> str:
    """What a compiled program does otherwise than the plain one; empty when nothing.

    Args:
        case: how it is run.
        text: the program, when it is not the case's own.
        tally: counts graphs and breaks.
    """
    text = text if text is not None else case.text
    tally = tally or Tally()
    try:
        with at_most(PLAIN_SECONDS):
            expected = case.outcomes(text, lambda fn: fn)
    except TooLong:
        tally.too_long = True
        return ""
    try:
        with at_most(COMPILED_SECONDS):
            got = case.outcomes(text, compiler(case.backend, tally))
    except (Exception, TooLong):
        return f"the compiler failed: {traceback.format_exc(limit=-4)}"
    for call, (one, other) in enumerate(zip(expected, got, strict=True)):
        for part in one:
            if one[part] != other[part]:
                return f"call {call}, {part}: {first_difference(one[part], other[part])}"
    return ""


def first_difference(expected: Any, got: Any, path: str = "") -> str:
    """Where two nests of plain data part."""
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            if one != other:
                return first_difference(one, other, f"{path}/{index}")
    return f"at {path or '/'}: plain {str(expected)[:300]}, compiled {str(got)[:300]}"
