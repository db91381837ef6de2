"""Errors of tensor functions that refuse their arguments: they are the program's own, so nothing but it hears of them.

Run on shapes, torch's functions raise the errors that they raise in the running program, yet often with other texts,
and torch logs each with its traceback.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from triptych_dynamo._torch_compat import FAKE_LOGGER

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_running: ContextVar[bool] = ContextVar("triptych_runs_fake", default=False)


class _Silence(logging.Filter):
    """Drops what torch says of functions that are traced in this context."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _running.get()


logging.getLogger(FAKE_LOGGER).addFilter(_Silence())


class Quietly:
    """A block in which a traced function runs on shapes."""

    __slots__ = ("token",)

    def __enter__(self) -> None:
        self.token: Token[bool] = _running.set(True)

    def __exit__(self, *_: object) -> None:
        _running.reset(self.token)


def may_be_looked_at(frame: Frame) -> bool:
    """Whether the program may look at an error that is raised now: a `try` or `with` of a running frame is open.

    Not where breaks are errors: there a text that is not eager's is less of a loss than the graph.
    """
    trace = frame.trace
    whole = trace.options.fullgraph if trace.breaks_are_errors is None else trace.breaks_are_errors
    return not whole and any(
        running.program.instructions[running.position].handler is not None for running in trace.frames
    )
