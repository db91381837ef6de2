"""`Plan`: what one attempt at a root frame teaches the next: where the graph has to end.

A place in the running program is a chain of frames, from the root inwards, each with the number of instructions that
it began (tracing is deterministic). The chain goes as far in as calls are *direct*: what the callee returns is what the
caller's instruction gives, so that the rest of the caller can take up where the rest of the callee ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace

_CALL_PREFIXES = frozenset({"KW_NAMES", "PRECALL"})  # run with the call behind them, as one step
MAX_FRAMES = 24  # cut at once; deeper callees are compiled as frames of their own


class CutHere(Exception):
    """The program reached the instruction before which the graph ends.

    Attributes:
        frames: from the root to the frame of that instruction.
        reason: why.
    """

    def __init__(self, frames: list[Frame], reason: Unsupported) -> None:
        super().__init__(str(reason))
        self.frames = frames
        self.reason = reason


class Plan:
    """Where to cut: `steps` counts the instructions of each frame of the chain; the last one's is not run any more."""

    def __init__(self) -> None:
        self.steps: tuple[int, ...] = ()
        self.firsts: tuple[int, ...] = ()  # per frame the step at which its call begins: a cut there runs it whole
        self.reason: Unsupported | None = None
        self.refused: Unsupported | None = None  # a break that is an error: it is raised where the graph ends
        self.boundaries: list[int] = []  # steps of the root that begin a statement outside of handlers
        self.checks_raises = True  # a branch that raises is a check in the graph: where the frame can be run again

    # -- while a frame runs ------------------------------------------------------------------------------------------
    def begin(self, root: Frame) -> None:
        """An attempt starts."""
        self.boundaries = []
        root.level = 0
        root.stop = self.steps[0] if self.steps else -1

    def follow(self, caller: Frame, callee: Frame) -> None:
        """A direct call."""
        if caller.level < 0 or caller.level + 1 >= MAX_FRAMES:
            return
        callee.level = caller.level + 1
        if caller.steps == caller.stop and callee.level < len(self.steps):
            callee.stop = self.steps[callee.level]

    def check(self, frame: Frame) -> None:
        """Called before each instruction of the root, and when another frame of the chain reaches its step."""
        if frame.steps == frame.stop and frame.level == len(self.steps) - 1:
            assert self.reason is not None
            raise CutHere(chain_to(frame), self.reason)
        if frame.level == 0 and not frame.stack and not frame.handled:
            self.boundaries.append(frame.steps)

    # -- between attempts --------------------------------------------------------------------------------------------
    def learn(self, trace: Trace, error: Unsupported) -> bool:
        """Plan the next attempt after `error`: cut where it happened, or earlier when that place could not be cut.

        Returns:
            False when there is no place left.
        """
        if error.step:
            self.reason = self.reason or error
            self.steps = self.firsts = (error.step,)
            return True
        frames = _frames_at(trace, error)
        place = tuple(frame.steps for frame in frames)
        if not self.steps or (place and place < self.steps):  # in the second case facts differ from the attempt before
            self.reason = self.reason or error
            frames = frames or ([trace.root] if trace.root is not None else [])
            self.firsts = tuple(first_of_call(frame) for frame in frames) or (1,)
            self.steps = (*(frame.steps for frame in frames[:-1]), self.firsts[-1])
            return True
        if len(self.steps) > 1:
            count = error.level or len(self.steps) - 1
            self.steps = (*self.steps[: count - 1], self.firsts[count - 1])
            return True
        earlier = [step for step in self.boundaries if step < self.steps[0]]
        if not earlier:
            return False
        self.steps = (earlier[-1],)
        return True


def _frames_at(trace: Trace, error: Unsupported) -> list[Frame]:
    """The chain of frames in which `error` was raised while the program was traced; empty where code was written."""
    if trace.failure is None or trace.failure[0] is not error:
        return []
    frames = trace.failure[1][:1]
    for frame in trace.failure[1][1:]:
        if frame.level != len(frames) or frame.parent is not frames[-1]:
            break
        frames.append(frame)
    return frames


def chain_to(frame: Frame) -> list[Frame]:
    """The frames from the root to `frame`."""
    frames = [frame]
    while frames[-1].parent is not None:
        frames.append(frames[-1].parent)
    return frames[::-1]


def first_of_call(frame: Frame) -> int:
    """The step of the first of the instructions that make up the call at which `frame` stands."""
    step, position = frame.steps, frame.position
    while frame.pending_call is None and position and _is_prefix(frame, position - 1):
        position -= 1
        step -= 1
    return step


def _is_prefix(frame: Frame, position: int) -> bool:
    return frame.program.instructions[position].opname in _CALL_PREFIXES
