"""The unit that every other module here works on: one bytecode instruction whose operands are resolved.

Instructions refer to each other (jump targets, exception handlers) by object, not by offset, so lists of them can be
cut, copied and joined freely; `assemble` turns them back into code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class ExceptionRange:
    """Where an exception raised by an instruction goes: `target` starts with the stack cut to `depth`.

    With `lasti` the offset of the raising instruction is pushed first; the exception itself is always pushed.
    Instructions are in the range when their `handler` is this object.
    """

    target: Instruction
    depth: int
    lasti: bool


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction; equality and hash are identity.

    `argval` is the operand that the instruction means: a name, a constant, an operator's text, a variable's name; the
    jump target is in `target`. `arg` is its raw number: it counts on the way back only for instructions whose operand
    is a plain number (`has_plain_arg`). `flags` are the low bits which some operands share with an index
    (`LOAD_GLOBAL`: 1 pushes NULL too; `LOAD_ATTR` from 3.12: 1 is a method load; `LOAD_SUPER_ATTR`: 1 method, 2
    two-argument form; `COMPARE_OP`). `position` is (line, end line, column, end column), `offset` that of the original.
    """

    opname: str
    arg: int | None = None
    argval: Any = None
    flags: int = 0
    target: Instruction | None = None
    handler: ExceptionRange | None = None
    offset: int | None = None
    position: tuple[int | None, int | None, int | None, int | None] | None = None

    @property
    def line(self) -> int | None:
        """The source line, or None."""
        return self.position[0] if self.position else None

    def __repr__(self) -> str:
        place = "" if self.offset is None else f"{self.offset}: "
        operand = f" -> {self.target.offset}:{self.target.opname}" if self.target is not None else ""
        if self.target is None and (self.arg is not None or self.argval is not None):
            operand = f" {self.argval!r}" if self.argval is not None else f" {self.arg}"
        return f"<{place}{self.opname}{operand}>"


def copy_instructions(
    instructions: Iterable[Instruction], mapping: dict[Instruction, Instruction] | None = None
) -> list[Instruction]:
    """A copy whose jumps and handlers point into the copy; what points outside stays as it is.

    `mapping`, when given, receives original -> copy, and what it holds already is used for targets outside.
    """
    mapping = {} if mapping is None else mapping
    copies = []
    for old in instructions:
        new = Instruction(old.opname, old.arg, old.argval, old.flags, None, None, old.offset, old.position)
        mapping[old] = new
        copies.append((old, new))
    ranges: dict[ExceptionRange, ExceptionRange] = {}
    for old, new in copies:
        if old.target is not None:
            new.target = mapping.get(old.target, old.target)
        if old.handler is not None:
            region = old.handler
            if region not in ranges:
                ranges[region] = ExceptionRange(mapping.get(region.target, region.target), region.depth, region.lasti)
            new.handler = ranges[region]
    return [new for _, new in copies]


def listing(instructions: Iterable[Instruction]) -> str:
    """Readable text, one instruction a line, jumps and handlers by line number of the listing."""
    rows = list(instructions)
    number = {row: index for index, row in enumerate(rows)}
    lines = []
    for index, row in enumerate(rows):
        operand = ""
        if row.target is not None:
            operand = f"to {number.get(row.target, '?')}"
        elif row.argval is not None:
            operand = repr(row.argval)
        elif row.arg is not None:
            operand = str(row.arg)
        caught = "" if row.handler is None else f"  except {number.get(row.handler.target, '?')} @{row.handler.depth}"
        lines.append(f"{index:4} {row.line or '':>5} {row.opname:<28}{operand}{caught}")
    return "\n".join(lines)
