"""Errors and warnings of tensor functions that run on shapes: they are the program's own, which has them when it runs.

Run on shapes, torch's functions raise the errors that they raise in the running program, yet often with other texts,
and torch logs each with its traceback. They warn as well, once more than they should.
"""

from __future__ import annotations

import logging
import threading
import warnings
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import FAKE_LOGGER

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_running: ContextVar[bool] = ContextVar("triptych_runs_fake", default=False)


class _Silence(logging.Filter):
    """Drops what torch says of functions that are traced in this context."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _running.get()


logging.getLogger(FAKE_LOGGER).addFilter(_Silence())


class _Unwarned:
    """Takes the place of `warnings.showwarning` while any thread runs a function on shapes.

    Filters stay as they are: what the program makes an error of is one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._former: Any = None
        self._always = False

    def install(self) -> None:
        with self._lock:
            self._users += 1
            if warnings.showwarning is not self:
                self._former, warnings.showwarning = warnings.showwarning, self
            if self._users == 1:  # what torch says once in a process is not used up
                self._always = torch.is_warn_always_enabled()
                torch.set_warn_always(True)

    def remove(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            torch.set_warn_always(self._always)
            if warnings.showwarning is self:
                warnings.showwarning = self._former

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Drops what is said in the context of a trace, and passes on all else."""
        if not _running.get():
            self._former(*args, **kwargs)


_unwarned = _Unwarned()


class Quietly:
    """A block in which a traced function runs on shapes."""

    __slots__ = ("token",)

    def __enter__(self) -> None:
        self.token: Token[bool] = _running.set(True)
        _unwarned.install()

    def __exit__(self, *_: object) -> None:
        _unwarned.remove()
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
