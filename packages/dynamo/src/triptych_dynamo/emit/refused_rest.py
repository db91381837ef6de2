"""The rest of a frame, where a graph break in it is an error: it raises the error at the break, or where it begins.

What the frame's earlier pieces entered is then left by the frame's own code: `with` blocks, `finally`, handlers. Where
a call is under way, the error is raised in the rest of the callee, so that the callee's blocks are left as well.
"""

from __future__ import annotations

from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.bytecode import Instruction, build, copy_instructions
from triptych_dynamo.emit.continuation import (
    Layout,
    assemble_part,
    covered,
    free_names_of,
    prologue_of,
    restored,
)
from triptych_dynamo.emit.kept_objects import keep_in_cells
from triptych_dynamo.emit.trampoline import Resume, finish
from triptych_dynamo.errors import GraphBreakError
from triptych_dynamo.interpreter.program import program_of

if TYPE_CHECKING:
    from triptych_dynamo.errors import Unsupported


def refusal(origin: CodeType, place: Instruction, reason: Unsupported, awaits: bool) -> list[Instruction]:
    """Code that raises the error where `place` stands.

    Args:
        awaits: the rest of a callee is on top of the stack, and is to raise it.
    """
    if awaits:
        group = [*build.load_const(_RaiseInside(reason)), *build.swap(2), *build.call(1), *build.return_value()]
    else:
        made = [*build.load_const(GraphBreakError), *build.load_const(reason), *build.call(1)]
        group = [*made, *build.load_const(reason), *build.raise_(2)]
    covered(group, place)
    _at_line(group, origin, reason)
    return group


def refused_rest(layout: Layout, reason: Unsupported) -> tuple[CodeType, tuple[CellType, ...]]:
    """The code of a continuation that raises, and its own cells.

    Args:
        layout: where the frame goes on.
        reason: the graph break.
    """
    body = copy_instructions(program_of(layout.origin).instructions)
    place = body[layout.position]
    group = refusal(layout.origin, place, reason, layout.awaits is not None)
    rows = [*prologue_of(layout), *restored(layout, keep=False), *group, *body]
    names, kept = keep_in_cells(rows)
    return assemble_part(layout, rows, co_freevars=(*free_names_of(layout.origin), *names)), kept


def _at_line(group: list[Instruction], origin: CodeType, reason: Unsupported) -> None:
    """Give the instructions the line of the break, if it is one of this code."""
    name, _, number = reason.user_line.rpartition(":")
    if name != origin.co_filename or not number.isdigit():
        return
    if int(number) in {row.line for row in program_of(origin).instructions}:
        for row in group:
            row.position = (int(number), int(number), 0, 0)


class _RaiseInside:
    """Raises the error in the rest of a callee."""

    def __init__(self, reason: Unsupported) -> None:
        self.reason = reason

    def __call__(self, rest: Any) -> Any:
        self._replace(rest)
        return finish(rest)

    def _replace(self, rest: Any) -> None:
        function = getattr(rest.function, "fn", rest.function)  # of a compiled callable
        code, cells = refused_rest(rest.layout, self.reason)
        closure = (*(function.__closure__ or ())[: len(free_names_of(rest.layout.origin))], *cells)
        rest.function = FunctionType(code, function.__globals__, function.__name__, None, closure)
        for item in rest.args:
            if type(item) is Resume and rest.layout.awaits is item.layout:
                self._replace(item)
