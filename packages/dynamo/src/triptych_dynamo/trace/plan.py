"""`Plan`: what one attempt at a root frame teaches the next: where the graph has to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.interpreter.frame import Frame


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

    def cut_at(self, step: int, reason: Unsupported) -> None:
        """Cut before root instruction number `step` in the next attempt."""
        self.step = step
        self.reason = reason

    def check(self, step: int, frame: Frame) -> None:
        """Called before each root instruction."""
        if step == self.step:
            assert self.reason is not None
            raise CutHere(frame, self.reason)
