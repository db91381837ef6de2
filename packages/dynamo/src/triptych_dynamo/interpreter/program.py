"""`Program`: a code object decoded once, with the handler of every instruction looked up."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.bytecode import build
from triptych_dynamo.bytecode.decode import decode
from triptych_dynamo.interpreter.handlers import HANDLERS, missing_handler

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction

Handler = Callable[[Any, Any], Any]


class Program:
    """Instructions of a code object, their positions, and the function that runs each."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions: list[Instruction] = with_explicit_super(decode(code), code)
        self.index: dict[Instruction, int] = {row: number for number, row in enumerate(self.instructions)}
        self.handlers: list[Handler] = [HANDLERS.get(row.opname, missing_handler) for row in self.instructions]


_TWO_ARGUMENTS = 2  # flag of LOAD_SUPER_ATTR: `super` is called with the two values that the instruction takes


def with_explicit_super(instructions: list[Instruction], code: CodeType) -> list[Instruction]:
    """`super()` as `super(__class__, self)`.

    Without arguments it looks at the first variable of the frame that calls it, which is another one in code that goes
    on in the middle of a function.
    """
    if "__class__" not in code.co_freevars or not code.co_argcount:
        return instructions
    owner = code.co_varnames[0]
    read = build.load_deref if owner in code.co_cellvars else build.load_fast
    result: list[Instruction] = []
    for row in instructions:
        if row.opname == "LOAD_SUPER_ATTR":
            row.flags |= _TWO_ARGUMENTS
        if row.opname == "CALL" and not row.arg and _calls_super(result):
            loads = [*build.load_deref("__class__"), *read(owner)]
            for new in loads:
                new.handler, new.position, new.offset = row.handler, row.position, row.offset
            place = len(result) - (result[-1].opname == "PRECALL")
            result[place:place] = loads
            for call in (*result[place + 2 :], row):
                call.arg = call.argval = 2
        result.append(row)
    return result


def _calls_super(before: list[Instruction]) -> bool:
    """Whether what stands before a call without arguments loads `super`."""
    rows = [row for row in before[-3:] if row.opname not in ("PRECALL", "PUSH_NULL")]
    return bool(rows) and rows[-1].opname == "LOAD_GLOBAL" and rows[-1].argval == "super"


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
