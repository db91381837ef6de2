"""Continuations: the rest of a frame behind a graph break, as a function of its own.

A `Continuation` names a place in an origin's code and what is alive there: stack items and locals become its
parameters, cells its closure. It is traced as the origin's own bytecode started in the middle (`Layout` says how the
frame is filled), and its code object, used when it runs uncompiled, is the origin's bytecode behind a prologue that
puts everything back.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import CodeType
from typing import Any

from triptych_dynamo.bytecode import Instruction, analysis, assemble, build, copy_instructions
from triptych_dynamo.interpreter.program import program_of


def stack_name(slot: int) -> str:
    """The parameter that carries stack item `slot` over a break."""
    return f"__triptych_stack_{slot}"


@dataclass(frozen=True)
class Layout:
    """How a frame of `origin` begins.

    Attributes:
        origin: the code whose instructions run.
        position: index of the first one.
        stack: per stack slot, whether it holds an object (False: NULL).
        names: locals that are set, in the order of the parameters behind the stack items.
    """

    origin: CodeType
    position: int
    stack: tuple[bool, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameter names of the continuation."""
        return (*(stack_name(slot) for slot, filled in enumerate(self.stack) if filled), *self.names)


class Continuation:
    """A layout with its code object.

    `code` has the origin's free variables and cell variables as its free variables.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.code = continuation_code(layout)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Closure variables, in order."""
        return self.code.co_freevars


def free_names_of(origin: CodeType) -> tuple[str, ...]:
    """The closure variables of every continuation of `origin`."""
    return tuple(sorted({*origin.co_freevars, *origin.co_cellvars}))


def continuation_code(layout: Layout) -> CodeType:
    """The code that runs a continuation as plain Python."""
    origin = layout.origin
    program = program_of(origin)
    mapping: dict[Instruction, Instruction] = {}
    body = copy_instructions(program.instructions, mapping)
    start = mapping[program.instructions[layout.position]]
    free = free_names_of(origin)
    prologue = build.prologue(free_count=len(free))
    for slot, filled in enumerate(layout.stack):
        if filled:
            prologue += build.load_set_fast(stack_name(slot))
        else:
            prologue.append(build.one("PUSH_NULL"))
    for slot, filled in enumerate(layout.stack):
        if filled:
            prologue += build.delete_fast(stack_name(slot))
    prologue += build.jump(start)
    instructions = analysis.remove_unreachable([*prologue, *body])
    return assemble(instructions, origin, **parameter_fields(origin, layout.parameters, free))


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
