"""Generators that are alive when compiled code ends: rebuilt as real generators that stand where the traced one stands.

The code of such a generator is its origin's behind a prologue that puts stack and locals back and then yields once: the
generator is run to that yield when it is made. The yield has the place and the handlers of the one at which the traced
generator stood, so `send`, `throw` and `close` go on as they would there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.bytecode import Instruction, build, copy_instructions
from triptych_dynamo.emit.continuation import Layout, assemble_part, covered, free_names_of, restored
from triptych_dynamo.emit.frame_part import FramePart
from triptych_dynamo.interpreter.program import program_of
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.null import EMPTY

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


def load_generator(cg: Writer, frame: Frame, started: bool, finished: bool) -> None:
    """Push a generator in the state of `frame`."""
    cg.load_object(exhausted if finished else suspended if started else fresh)
    if finished:
        cg.call(0)
        return
    if not started:
        _make_cells(frame)
        frame.position = _first_of_body(frame)
        frame.stack.clear()
    part = FramePart(frame, _never, calls=False)
    cg.load_object(FunctionType)
    cg.load_object(generator_code(part.layout, started))
    cg.load_object(frame.scope.namespace)
    cg.load_const(frame.code.co_name)
    cg.load_const(None)
    free = free_names_of(frame.code)
    for name in free:
        if name not in frame.cells:
            cg.cannot_rebuild("rebuild", "a cell of a comprehension in a generator")
        cg.load(frame.cells[name])
    cg.build("TUPLE", len(free))
    cg.call(5)
    values = [value for value in part.stack_values() if value not in EMPTY]
    values += [frame.locals[name] for name in part.names]
    for value in values:
        cg.load(value)
    cg.call(1 + len(values))


def generator_code(layout: Layout, started: bool) -> CodeType:
    """The code of a generator that goes on at `layout`: behind the yield there, or at the start of the body."""
    mapping: dict[Instruction, Instruction] = {}
    body = copy_instructions(program_of(layout.origin).instructions, mapping)
    free = len(free_names_of(layout.origin))
    code = [build.one("COPY_FREE_VARS", arg=free)] if free else []
    code += [build.one("RETURN_GENERATOR"), *build.pop(), build.one("RESUME", arg=0), *restored(layout, keep=False)]
    if not started:
        return assemble_part(layout, [*code, *build.jump(body[layout.position]), *body])
    paused, resumed = body[layout.position : layout.position + 2]
    pause = [*build.load_const(None), *copy_instructions([paused, resumed])]
    code += [*covered(pause, paused), *build.jump(body[layout.position + 2])]
    return assemble_part(layout, [*code, *body])


def _make_cells(frame: Frame) -> None:
    """What the first instructions of a function do."""
    for name in frame.code.co_cellvars:
        if name not in frame.cells:
            frame.cells[name] = CellValue(frame.locals.pop(name, None))


def _first_of_body(frame: Frame) -> int:
    """The index of the instruction behind RETURN_GENERATOR and the POP_TOP that follows it."""
    names = [row.opname for row in frame.program.instructions]
    return names.index("RETURN_GENERATOR") + 2


def _never(layout: Layout, awaits: bool) -> list[Instruction]:
    raise AssertionError("a suspended generator hands nothing on")


def fresh(function: Callable[..., Generator[Any, Any, Any]], *args: Any) -> Generator[Any, Any, Any]:
    """A generator that did not start."""
    return function(*args)


def suspended(function: Callable[..., Generator[Any, Any, Any]], *args: Any) -> Generator[Any, Any, Any]:
    """A generator that stands at a yield."""
    generator = function(*args)
    next(generator)
    return generator


def exhausted() -> Generator[Any, Any, Any]:
    """A generator that is at its end."""
    generator = _nothing()
    generator.close()
    return generator


def _nothing() -> Generator[Any, Any, Any]:
    yield
