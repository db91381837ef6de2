"""Exceptions that a handler raises again behind a break: their tracebacks lead to the piece of the frame that does it.

Python enters a frame in an exception's traceback where it is raised there, and not when the frame's handler raises it
again. Behind a break another piece of the frame does that, and the entry is that of a piece which let go of all that it
handed on: what the frame still holds, a suspended generator for one, would end before the exception does.
"""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

from triptych_dynamo.bytecode import Instruction, build
from triptych_dynamo.emit.kept_objects import keeps_objects

_NO_INSTRUCTION = -1  # of the piece: the line counts


def with_own_entries(instructions: list[Instruction]) -> list[Instruction]:
    """The instructions with the entry of the running piece made before each that raises a handled exception again."""
    result: list[Instruction] = []
    for row in instructions:
        enter = _enter(row)
        if not enter:
            result.append(row)
            continue
        again = Instruction(row.opname, row.arg, row.argval, row.flags)
        for new in (*enter, again):
            new.handler, new.position = row.handler, row.position
        # the row itself becomes the first one: jumps and handlers lead to it
        row.opname, row.arg, row.argval, row.flags = enter[0].opname, None, enter[0].argval, 0
        result += [row, *enter[1:], again]
    return result


def _enter(row: Instruction) -> list[Instruction]:
    """What comes before an instruction that raises again; nothing before others."""
    if row.opname == "RERAISE":
        return [*build.load_const(enter_frame), *build.copy(2), *build.call(1), *build.pop()]
    if row.opname == "RAISE_VARARGS" and not row.arg:
        return [*build.load_const(enter_handled), *build.call(0), *build.pop()]
    return []


def enter_frame(error: BaseException) -> None:
    """The caller's frame takes the place of an earlier piece of it at the head of the traceback."""
    _enter_at_head(error, 2)


def enter_handled() -> None:
    """The same for what the caller handles."""
    error = sys.exception()
    if error is not None:
        _enter_at_head(error, 2)


def _enter_at_head(error: BaseException, level: int) -> None:
    head, frame = error.__traceback__, sys._getframe(level)
    if head is not None and head.tb_frame is not frame and keeps_objects(head.tb_frame.f_code):
        error.__traceback__ = _in_place_of(head, head.tb_frame, frame)


def _in_place_of(entry: TracebackType | None, piece: FrameType, frame: FrameType) -> TracebackType | None:
    """The traceback with `frame` wherever it led to `piece`, which stands for the callees that ran inside it too."""
    entries = []
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    made: TracebackType | None = None
    for entry in reversed(entries):
        if entry.tb_frame is piece:
            made = TracebackType(made, frame, _NO_INSTRUCTION, entry.tb_lineno)
        else:
            made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made
