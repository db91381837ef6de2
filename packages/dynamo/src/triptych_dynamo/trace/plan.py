"""`Plan`: what one attempt at a root frame teaches the next: where the graph has to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace

_CALL_PREFIXES = frozenset({"KW_NAMES", "PRECALL"})  # run with the call behind them, as one step


class CutHere(Exception):
    """The root frame reached the instruction before which the graph ends."""

    def __init__(self, frame: Frame, reason: Unsupported) -> None:
        super().__init__(str(reason))
        self.frame = frame
        self.reason = reason


class Plan:
    """Where to cut: before the `step`-th instruction that the root frame runs (tracing is deterministic)."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.reason: Unsupported | None = None
        self.boundaries: list[int] = []  # steps of the current attempt that begin a statement outside of handlers

    def check(self, step: int, frame: Frame) -> None:
        """Called before each root instruction."""
        if step == self.step:
            assert self.reason is not None
            raise CutHere(frame, self.reason)
        if not frame.stack and not frame.handled:
            self.boundaries.append(step)

    def learn(self, trace: Trace, error: Unsupported) -> bool:
        """Plan the next attempt after `error`: cut where it happened, or earlier when that place could not be cut.

        Returns:
            False when there is no place left.
        """
        reached, boundaries = trace.steps, self.boundaries
        self.boundaries = []
        if self.step is None:
            self.reason = error
            self.step = self._first_of_call(trace, reached)
            return True
        if reached < self.step:  # an earlier trouble: facts differ from the attempt before
            self.step = self._first_of_call(trace, reached)
            return True
        earlier = [step for step in boundaries if step < self.step]
        if not earlier:
            return False
        self.step = earlier[-1]
        return True

    @staticmethod
    def _first_of_call(trace: Trace, step: int) -> int:
        """The step of the first of the instructions that make up one call."""
        frame = trace.root
        if frame is None:
            return step
        position = frame.position
        while position and frame.program.instructions[position - 1].opname in _CALL_PREFIXES:
            position -= 1
            step -= 1
        return step
