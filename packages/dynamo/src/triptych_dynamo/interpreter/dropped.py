"""Whether code of a suspended generator would run if the generator were dropped where it stands.

Dropping raises GeneratorExit at the yield. A `finally`, a `with`, a bare `except` or one that names GeneratorExit or
BaseException runs then; `except IndexError` does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych_dynamo.bytecode import Instruction
    from triptych_dynamo.interpreter.frame import Frame

# Behind a handler: what was handled before is put back; behind a comprehension that is part of the code (3.12 on): the
# variable that it used is. Both go on up.
_CLEANUP = frozenset(("COPY", "POP_EXCEPT", "SWAP", "POP_TOP", "STORE_FAST"))


def runs_when_dropped(frame: Frame) -> bool:
    """Whether something of the program would run, for a generator's frame that stands at a yield."""
    current: Instruction | None = frame.program.instructions[frame.position]
    while current is not None and current.handler is not None:
        current = _passed(frame, frame.program.index[current.handler.target])
        if current is None:
            return True
    return False


def _passed(frame: Frame, position: int) -> Instruction | None:
    """The instruction by which GeneratorExit leaves the handler at `position`; None when the handler takes it."""
    rows = frame.program.instructions
    if rows[position].opname == "CLEANUP_THROW":  # of `yield from`: only a StopIteration ends here
        return rows[position]
    behind = position
    while rows[behind].opname in _CLEANUP:
        behind += 1
    if behind > position and rows[behind].opname == "RERAISE":
        return rows[behind]
    if rows[position].argval == "INTRINSIC_STOPITERATION_ERROR":
        return rows[position + 1]
    if rows[position].opname != "PUSH_EXC_INFO":
        return None
    position += 1
    while rows[position].opname != "RERAISE":
        following = _unmatched(frame, position)
        if following is None:
            return None
        position = following
    return rows[position]


def _unmatched(frame: Frame, position: int) -> int | None:
    """Where an `except` clause goes on when GeneratorExit is none of its classes; None where that is not known."""
    rows = frame.program.instructions
    classes: list[Any] = []
    while rows[position].opname == "LOAD_GLOBAL":
        classes.append(_global(frame, rows[position].argval))
        position += 1
    if rows[position].opname == "BUILD_TUPLE":
        position += 1
    check, branch = rows[position : position + 2]
    known = classes and all(isinstance(cls, type) and not issubclass(GeneratorExit, cls) for cls in classes)
    if check.opname != "CHECK_EXC_MATCH" or branch.opname != "POP_JUMP_IF_FALSE" or not known:
        return None
    assert branch.target is not None
    return frame.program.index[branch.target]


def _global(frame: Frame, name: str) -> Any:
    return frame.scope.namespace.get(name, frame.scope.builtins.get(name))
