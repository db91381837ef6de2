"""Stack depths: how deep the value stack is before each instruction, and the most a code object needs."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import replace

from triptych_dynamo.bytecode.instruction import Instruction
from triptych_dynamo.bytecode.tables import FACTS, JUMP_OPS, NO_FALL_THROUGH, OPCODES, TEXT_OPERANDS

GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class StackError(ValueError):
    """The instructions do not keep the stack: it underflows, or two ways into an instruction disagree."""


def effect(opname: str, arg: int | None, jump: bool) -> int:
    """Change of depth by one instruction, on the way of the jump or on the way past it."""
    if opname in FACTS.spelled:
        opname, argval = FACTS.spelled[opname]
        arg = TEXT_OPERANDS[opname].index(argval)
    return dis.stack_effect(OPCODES[opname], arg, jump=jump)


def depths(
    instructions: Sequence[Instruction], opnames: Sequence[str], args: Sequence[int | None], entry_depth: int
) -> tuple[dict[Instruction, int], int]:
    """Depth before each reachable instruction, and the maximum; `opnames` and `args` are the final ones, in step.

    Raises `StackError` with the instruction where the depths do not fit.
    """
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    known: dict[Instruction, int] = {}
    deepest = entry_depth
    pending: list[tuple[Instruction, int]] = [(instructions[0], entry_depth)] if instructions else []
    while pending:
        instruction, depth = pending.pop()
        index = index_of[instruction]
        while True:
            seen = known.setdefault(instruction, depth)
            if seen is not depth and seen != depth:
                raise StackError(f"{instruction!r} is reached with depth {seen} and with {depth}")
            handler, opname, arg = instruction.handler, opnames[index], args[index]
            if handler is not None:
                caught = handler.depth + handler.lasti + 1
                deepest = max(deepest, caught)
                if handler.target not in known:
                    pending.append((handler.target, caught))
            if instruction.target is not None and opname in JUMP_OPS:
                there = depth + effect(opname, arg, True)
                deepest = max(deepest, there)
                if known.get(instruction.target) != there:
                    pending.append((instruction.target, there))
            if opname in NO_FALL_THROUGH:
                break
            depth += effect(opname, arg, False)
            deepest = max(deepest, depth)
            if depth < 0:
                raise StackError(f"{instruction!r} takes more than the stack holds")
            index += 1
            if index == len(instructions):
                raise StackError("control runs past the last instruction")
            instruction = instructions[index]
            if known.get(instruction) == depth:
                break
    return known, deepest


def entry_depth(flags: int) -> int:
    """The depth at which code with these flags starts."""
    return FACTS.generator_entry_depth if flags & GENERATOR_FLAGS else 0


def redirect_handlers(rows: Sequence[Instruction], start: dict[Instruction, Instruction]) -> None:
    """Point the handlers of `rows` at the rows that stand for their targets."""
    for row in rows:
        if row.handler is not None:
            row.handler = replace(row.handler, target=start[row.handler.target])
