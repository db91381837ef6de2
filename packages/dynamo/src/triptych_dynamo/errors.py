"""Exceptions of the tracer: traced Python exceptions, graph breaks, restarts, and the errors that users see."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from triptych_dynamo.breaks import BREAKS, DOCUMENT, BreakKind

if TYPE_CHECKING:
    from triptych_dynamo.values.base import Value


class TracedException(Exception):
    """The traced program raised: `value` stands for the exception object. The interpreter looks for its handler."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value
        self.chained = False  # whether it has its context already


class Unsupported(Exception):
    """The tracer cannot go on here: a graph break, or a `GraphBreakError` when one whole graph was asked for.

    Args:
        kind: a key of `breaks.BREAKS`.
        text: what was met, in the program's terms.
        hint: what the user can do; the kind's own hint when empty.

    Attributes:
        user_line: 'file:line' of the program.
        user_stack: the traced calls, outermost first, as 'file:line in function'.
        level: the frame of a cut that cannot be written, counted from the root; None elsewhere.
        step: the step of the root before which the graph has to end; 0: where this was raised.
        rest_is_plain: the rest of the frame is not to be compiled.
    """

    rest_is_plain = False

    def __init__(self, kind: str, text: str, hint: str = "") -> None:
        self.kind: BreakKind = BREAKS[kind]
        self.text = text
        self.hint = hint or self.kind.hint
        self.user_line = ""
        self.user_stack: list[str] = []
        self.level: int | None = None
        self.step = 0
        super().__init__(text)

    @property
    def source_line(self) -> str:
        """The text of the user's line, or "" where its file cannot be read."""
        name, _, number = self.user_line.rpartition(":")
        return linecache.getline(name, int(number)).strip() if number.isdigit() else ""

    def forget_frames(self) -> None:
        """Drop the tracer's frames, which hold the program's objects: the error is kept as a reason."""
        self.__traceback__ = self.__context__ = self.__cause__ = None

    def __str__(self) -> str:
        lines = [f"{self.kind.id} {self.kind.name}: {self.text}"]
        if self.user_line:
            source = self.source_line
            lines.append(f"  at {self.user_line}" + (f": {source}" if source else ""))
        lines.append(f"  why: {self.kind.explanation}")
        lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class GraphBreakError(RuntimeError):
    """A graph break where one whole graph was demanded. `reason` is the `Unsupported` behind it, `id` its number."""

    def __init__(self, reason: Unsupported) -> None:
        self.reason = reason
        self.id = reason.kind.id
        calls = "".join(f"\n    {line}" for line in reason.user_stack) if len(reason.user_stack) > 1 else ""
        super().__init__(f"{reason}" + (f"\n  calls:{calls}" if calls else "") + f"\n  more: {DOCUMENT}")


class GuardViolation(RuntimeError):
    """A captured graph was called with arguments for which it is not valid; `guard` is the fact that does not hold."""

    def __init__(self, guard: Any, text: str) -> None:
        self.guard = guard
        super().__init__(text)


class ConstraintViolationError(RuntimeError):
    """The program fixes or narrows a size of which the user said that it varies."""


class StaticSizesWarning(UserWarning):
    """The backend failed on a graph with symbolic sizes or numbers; the program is compiled for each by itself."""


class RestartTrace(Exception):
    """Trace the frame again from its start: what was learned is in its history."""


class UserProgramError(Exception):
    """The traced program raises out of its root frame: the original must run eagerly so that the true exception
    surfaces.
    """


class TraceTimeError(RuntimeError):
    """Code that the program gave to `comptime` failed; the cause is what it raised."""


class TracerFault(RuntimeError):
    """The tracer itself failed (a bug of it, not of the program); its cause is the exception inside the tracer.

    Args:
        place: 'file:line' of the program that was traced.
    """

    def __init__(self, place: str, error: Exception) -> None:
        super().__init__(
            f"the tracer failed at {place}: {type(error).__name__}: {error}\n"
            "  why: this is a fault of the compiler, not of the program\n"
            '  hint: on_error="eager" runs such a frame as plain Python, with a warning; triptych_dynamo.disable '
            "leaves a function out"
        )


class InvalidBackend(RuntimeError):
    """A backend name that is not registered."""


class StanceError(RuntimeError):
    """A stance that does not exist or does not go with its options; a compile where the stance allows none."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error text: names like `name`, else all there are.

    >>> did_you_mean("defualt", ["default", "other"])
    "did you mean 'default'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
