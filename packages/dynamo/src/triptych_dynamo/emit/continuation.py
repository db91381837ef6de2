"""Continuations: the rest of a frame behind a graph break, as a function of its own.

A `Layout` names a place in an origin's code and what is alive there: stack items and locals become the continuation's
parameters, cells its closure. It is traced as the origin's own bytecode started in the middle, and its code object,
used when it runs uncompiled, is the origin's bytecode behind a prologue that puts everything back.

A layout that *awaits* stands at a call that is under way: the top of its stack is the rest of the callee (a `Resume`),
whose value is the call's result. The rest of the callee runs at the place of the call, so what it raises meets the
handlers of the call.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from enum import IntEnum
from types import CodeType
from typing import Any

from triptych_dynamo.bytecode import ExceptionRange, Instruction, analysis, assemble, build, copy_instructions
from triptych_dynamo.emit.own_cells import with_own_reads
from triptych_dynamo.emit.reraised import with_own_entries
from triptych_dynamo.emit.trampoline import finish
from triptych_dynamo.interpreter.program import program_of

_RAISED = BaseException()


class Slot(IntEnum):
    """What a stack slot holds."""

    NULL = 0
    OBJECT = 1
    HANDLING = 2  # what was handled before the exception that is handled now; the latter is what is carried over
    OFFSET = 3  # where an exception was raised, which is no object

    @property
    def is_carried(self) -> bool:
        """Whether an object stands for it between the code before a break and the code behind it."""
        return self in (Slot.OBJECT, Slot.HANDLING)


def stack_name(slot: int) -> str:
    """The parameter that carries stack item `slot` over a break."""
    return f"__triptych_stack_{slot}"


def previous_name(slot: int) -> str:
    """The local that holds what was handled before, as the HANDLING slot `slot` has it."""
    return f"__triptych_previous_{slot}"


@dataclass(frozen=True)
class Layout:
    """How a frame of `origin` begins.

    Attributes:
        origin: the code whose instructions run.
        position: index of the first one; the call that is under way when the layout awaits.
        stack: what each stack slot holds.
        names: locals that are set, in the order of the parameters behind the stack items: see `in_order`.
        awaits: the rest of the callee's frame, or None.
        plain: it runs as it is.
    """

    origin: CodeType
    position: int
    stack: tuple[Slot, ...] = ()
    names: tuple[str, ...] = ()
    awaits: Layout | None = None
    plain: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameter names of the continuation."""
        return (*(stack_name(slot) for slot, kind in enumerate(self.stack) if kind.is_carried), *self.names)

    @property
    def is_start(self) -> bool:
        """Whether this is a whole function."""
        return not (self.position or self.stack or self.names)

    def behind(self) -> Layout:
        """This place when the call that is under way has given its value."""
        return replace(self, position=self.position + 1, awaits=None)


class Continuation:
    """A layout with its code object.

    `code` has the origin's free variables and cell variables as its free variables.

    Args:
        number: tells continuations with equal code apart.
    """

    def __init__(self, layout: Layout, number: int = 0) -> None:
        self.layout = layout
        name = f"{layout.origin.co_qualname}.<rest {number}>"
        self.code = continuation_code(layout).replace(co_qualname=name)


def in_order(origin: CodeType, names: set[str]) -> tuple[str, ...]:
    """Locals in the order in which they are carried over a break: the last variable first.

    They go over it in a tuple, which lets go of its last item first; a frame that ends, of its first variable.
    """
    return tuple(name for name in reversed(origin.co_varnames) if name in names)


def free_names_of(origin: CodeType) -> tuple[str, ...]:
    """The closure variables of every continuation of `origin`."""
    return tuple(sorted({*origin.co_freevars, *origin.co_cellvars}))


def continuation_code(layout: Layout) -> CodeType:
    """The code that runs a continuation as plain Python."""
    program = program_of(layout.origin)
    mapping: dict[Instruction, Instruction] = {}
    body = copy_instructions(program.instructions, mapping)
    place = body[layout.position]
    code = [*prologue_of(layout), *restored(layout, keep=False)]
    if layout.awaits is None:
        code += build.jump(place)
    else:
        code += [*covered(await_code(), place), *build.jump(body[layout.position + 1])]
    return assemble_part(layout, [*code, *body])


def prologue_of(layout: Layout) -> list[Instruction]:
    """The start of code whose parameters and closure are those of `layout`."""
    return build.prologue(free_count=len(free_names_of(layout.origin)))


def assemble_part(layout: Layout, instructions: list[Instruction], **fields: Any) -> CodeType:
    """A code object of `layout`'s parameters and closure."""
    origin = layout.origin
    fields = {**parameter_fields(origin, layout.parameters, free_names_of(origin)), **fields}
    rows = with_own_reads(analysis.remove_unreachable(instructions), origin.co_cellvars)
    return assemble(with_own_entries(rows), origin, **fields)


def restored(layout: Layout, keep: bool) -> list[Instruction]:
    """Code that puts the stack back from the parameters.

    Args:
        keep: the parameters stay set, and what was handled before is kept too: a stub will hand them on.
    """
    code: list[Instruction] = []
    for slot, kind in enumerate(layout.stack):
        if kind is Slot.NULL:
            code.append(build.one("PUSH_NULL"))
            continue
        if kind is Slot.OFFSET:
            code += push_offset(slot)
            continue
        code += build.load_set_fast(stack_name(slot))
        if kind is Slot.HANDLING:
            code += start_handling(slot, keep)
    if not keep:
        for slot, kind in enumerate(layout.stack):
            if kind.is_carried:
                code += build.delete_fast(stack_name(slot))
    return code


def push_offset(depth: int) -> list[Instruction]:
    """`-> offset`, the stack being `depth` deep before: only an exception that is caught puts one there."""
    rest = build.pop()
    raising = build.one("RERAISE", arg=0)
    raising.handler = ExceptionRange(rest[0], depth, lasti=True)
    return [*build.load_const(_RAISED), raising, *rest]


def start_handling(slot: int, keep: bool) -> list[Instruction]:
    """`exception -> what was handled before`: from here on the exception is being handled."""
    kept = [*build.copy(), *build.store_fast(previous_name(slot))] if keep else []
    return [build.one("PUSH_EXC_INFO"), *build.pop(), *kept]


def stop_handling(stack: tuple[Slot, ...]) -> list[Instruction]:
    """Leave the handlers that are open, innermost first, so that the frame may be left."""
    code: list[Instruction] = []
    for slot in reversed(range(len(stack))):
        if stack[slot] is Slot.HANDLING:
            code += [*build.load_set_fast(previous_name(slot)), build.one("POP_EXCEPT")]
    return code


def await_code() -> list[Instruction]:
    """`rest of a callee, or its value -> value`."""
    return [*build.load_const(finish), *build.swap(2), *build.call(1)]


def covered(code: list[Instruction], place: Instruction) -> list[Instruction]:
    """The same code, at the line of `place` and under its exception handler."""
    for row in code:
        row.handler, row.position = place.handler, place.position
    return code


def parameter_fields(origin: CodeType, parameters: tuple[str, ...], free: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a code object that takes `parameters` positionally and closes over `free`."""
    variables = [name for name in origin.co_varnames if name not in parameters and name not in free]
    removed = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    flags = origin.co_flags & ~removed
    flags = flags | inspect.CO_NESTED if free else flags & ~inspect.CO_NESTED
    return {
        "co_argcount": len(parameters),
        "co_posonlyargcount": 0,
        "co_kwonlyargcount": 0,
        "co_varnames": (*parameters, *variables),
        "co_cellvars": (),
        "co_freevars": free,
        "co_flags": flags,
    }
