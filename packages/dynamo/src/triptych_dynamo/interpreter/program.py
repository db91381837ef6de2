"""`Program`: a code object decoded once, with the handler of every instruction looked up."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.bytecode.decode import decode
from triptych_dynamo.interpreter.handlers import HANDLERS, missing_handler

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction

Handler = Callable[[Any, Any], Any]


class Program:
    """Instructions of a code object, their positions, and the function that runs each."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions: list[Instruction] = decode(code)
        self.index: dict[Instruction, int] = {row: number for number, row in enumerate(self.instructions)}
        self.handlers: list[Handler] = [HANDLERS.get(row.opname, missing_handler) for row in self.instructions]


_PROGRAMS: dict[CodeType, Program] = {}
_LIMIT = 4096


def program_of(code: CodeType) -> Program:
    """The decoded program of `code`, kept for the next trace (a pure function of an immutable object)."""
    program = _PROGRAMS.get(code)
    if program is None or program.code is not code:
        if len(_PROGRAMS) >= _LIMIT:
            _PROGRAMS.clear()
        program = _PROGRAMS[code] = Program(code)
    return program
