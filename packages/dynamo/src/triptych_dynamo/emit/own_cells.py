"""Variables of a frame that inner functions share, in code that is given their cells.

Such code has these cells as free variables. Reading an empty one raises Python's NameError of a variable of an outer
function there; the program is to see the UnboundLocalError of a variable of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from types import CellType
from typing import Any

from triptych_dynamo.bytecode import Instruction, build

_EMPTY = CellType()


def read_own_cell(cell: CellType, name: str) -> Any:
    """The content of a cell of the frame itself."""
    if cell == _EMPTY:
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        raise UnboundLocalError(text, name=name)
    return cell.cell_contents


def with_own_reads(instructions: list[Instruction], names: Collection[str]) -> list[Instruction]:
    """The instructions with reads of the variables `names` through `read_own_cell`."""
    if not names:
        return instructions
    result: list[Instruction] = []
    for row in instructions:
        if row.opname not in ("LOAD_DEREF", "DELETE_DEREF") or row.argval not in names:
            result.append(row)
            continue
        name = row.argval
        read = [*build.load_const(read_own_cell), *build.load_cell(name), *build.load_const(name), *build.call(2)]
        if row.opname == "DELETE_DEREF":
            read += [*build.pop(), *build.delete_deref(name)]
        for new in read:
            new.handler, new.position = row.handler, row.position
        # the row itself stays the first one: jumps lead to it
        row.opname, row.arg, row.argval, row.flags = "LOAD_CONST", None, read_own_cell, 0
        result += [row, *read[1:]]
    return result
