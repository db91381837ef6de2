"""Objects that compiled code uses are kept in cells of its closure, not among its constants.

The garbage collector does not look into code objects, so a cycle through their constants (compiled code, its graph,
what the graph's backend holds, a module, the compiled code again) would never be freed. And other frame evaluators,
which may look at such code, take constants for literals.
"""

from __future__ import annotations

from types import CellType, CodeType, EllipsisType, NoneType
from typing import Any

from triptych_dynamo.bytecode import Instruction, build

FORGET_LOCALS = "forget locals"  # operand of a NOP in whose place the frame lets go of the variables that it stored
_KEPT = "__triptych_object_"
_PLAIN = (NoneType, bool, int, float, complex, str, bytes, EllipsisType, CodeType)


def _is_plain(obj: Any) -> bool:
    """Whether the object could stand in a program's text: all that tools which read bytecode expect of a constant."""
    return all(map(_is_plain, obj)) if type(obj) in (tuple, frozenset) else type(obj) in _PLAIN


def keep_in_cells(instructions: list[Instruction]) -> tuple[tuple[str, ...], tuple[CellType, ...]]:
    """Turn loads of objects into loads from free variables, in place.

    Args:
        instructions: a function's, from its start; they copy the free variables that it has already.

    Returns:
        names of the new free variables, which follow the others, and the cells for them.
    """
    cells: dict[int, CellType] = {}
    for row in instructions:
        if row.opname == "LOAD_CONST" and not _is_plain(row.argval):
            cells.setdefault(id(row.argval), CellType(row.argval))
            row.opname, row.argval, row.arg = "LOAD_DEREF", _name(list(cells).index(id(row.argval))), None
    if cells:
        first = next((row for row in instructions[:1] if row.opname == "COPY_FREE_VARS"), None)
        if first is None:
            instructions.insert(0, build.one("COPY_FREE_VARS", arg=len(cells)))
        else:
            assert first.arg is not None
            first.arg += len(cells)
    return tuple(map(_name, range(len(cells)))), tuple(cells.values())


def keeps_objects(code: CodeType) -> bool:
    """Whether the code was written here and uses objects, as all does that hands on to the rest of a frame."""
    return any(name.startswith(_KEPT) for name in code.co_freevars[-1:])


def _name(index: int) -> str:
    return f"{_KEPT}{index}"


def forget_locals(instructions: list[Instruction], cells: tuple[str, ...]) -> list[Instruction]:
    """The code with stores of None in place of each `FORGET_LOCALS`."""
    stored = dict.fromkeys(row.argval for row in instructions if row.opname == "STORE_FAST" and row.argval not in cells)
    code: list[Instruction] = []
    for row in instructions:
        if row.opname != "NOP" or row.argval != FORGET_LOCALS:
            code.append(row)
            continue
        for name in stored:
            code += [*build.load_const(None), *build.store_fast(name)]
    return code
