"""Whose error it is that comes up in the tracer: of the tracer itself, of the program, or of a handler of signals.

Some code of the program runs natively while it is traced: the `__eq__` of a key, the `__subclasscheck__` of a class, a
module that is imported, the metaclass behind a `class` statement. What such code raises is the program's: the frame
breaks there, so that plain Python runs the instruction and raises it. What the tracer's own code raises, or torch's
under it, is a bug of the tracer.
"""

from __future__ import annotations

import os
import signal
from enum import Enum, auto
from types import FrameType
from typing import TYPE_CHECKING

from triptych_dynamo.trace_rules import is_of_compiler, is_of_torch

if TYPE_CHECKING:
    from types import CodeType, TracebackType

_STANDARD = os.path.dirname(os.__file__) + os.sep


class Origin(Enum):
    """Where an error comes from."""

    TRACER = auto()
    PROGRAM = auto()
    SIGNAL = auto()


def origin_of(error: BaseException) -> Origin:
    """Who raised `error`, by the frames between the tracer and the place where it was raised."""
    if is_of_compiler(type(error).__module__):
        return Origin.TRACER
    foreign = _foreign(error.__traceback__)
    if any(_handles_signal(code) for code in foreign):
        return Origin.SIGNAL
    if not foreign:
        return Origin.TRACER
    own = (code for code in foreign if not is_of_torch(code) and not code.co_filename.startswith(_STANDARD))
    return Origin.TRACER if is_of_torch(foreign[0]) and not any(own) else Origin.PROGRAM


def _foreign(traceback: TracebackType | None) -> list[CodeType]:
    """The code objects of a traceback behind the last of the tracer."""
    codes: list[CodeType] = []
    while traceback is not None:
        frame: FrameType = traceback.tb_frame
        if is_of_compiler(frame.f_globals.get("__name__") or ""):
            codes = []
        else:
            codes.append(frame.f_code)
        traceback = traceback.tb_next
    return codes


def _handles_signal(code: CodeType) -> bool:
    """Whether this is the code of a handler of signals: it runs between any two instructions, whoever's they are."""
    handlers = map(signal.getsignal, signal.valid_signals())
    return any(getattr(handler, "__code__", None) is code for handler in handlers)
