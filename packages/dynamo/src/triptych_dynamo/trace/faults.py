"""Faults of the tracer: what only a bug of it raises names the line of the program where it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import (
    ConstraintViolationError,
    RestartTrace,
    TracedException,
    TracerFault,
    TraceTimeError,
    Unsupported,
)
from triptych_dynamo.trace.native_errors import Origin, origin_of

if TYPE_CHECKING:
    from triptych_dynamo.trace.trace import Trace

_MEANT = (TracedException, Unsupported, RestartTrace, ConstraintViolationError, TraceTimeError, RecursionError)


class FaultsNamed:
    """Makes a `TracerFault` of an error that is none of those by which the stages of a trace speak to each other.

    (A class, for `contextlib` takes a RuntimeError that a StopIteration causes for that StopIteration.)
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, _MEANT) or not isinstance(error, Exception) or origin_of(error) is Origin.SIGNAL:
            return
        raise TracerFault(self.trace.last_line or self.trace.user_line(), error) from error
