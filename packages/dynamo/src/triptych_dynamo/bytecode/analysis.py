"""Facts of control and data flow over decoded instructions: what is reachable, which variables are read later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych_dynamo.bytecode.instruction import Instruction
from triptych_dynamo.bytecode.tables import CELL_OPS, LOCAL_OPS, NO_FALL_THROUGH, NOTE_OPS

_PURE_WRITES = frozenset(("STORE_FAST",))
_SUSPENDS = frozenset(("YIELD_VALUE", "SEND"))
_LONGEST_RAISE = 256  # instructions of a way that only raises


def successors(instructions: Sequence[Instruction]) -> list[list[int]]:
    """Per instruction the indices of those that may run next, its exception handler included."""
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    result: list[list[int]] = []
    for index, instruction in enumerate(instructions):
        following = []
        if instruction.opname not in NO_FALL_THROUGH and index + 1 < len(instructions):
            following.append(index + 1)
        jump = None if instruction.opname in NOTE_OPS else instruction.target
        for target in (jump, instruction.handler and instruction.handler.target):
            if target is None:
                continue
            if target not in index_of:
                raise ValueError(f"{instruction!r} leads to {target!r}, which is not among the instructions")
            following.append(index_of[target])
        result.append(following)
    return result


def reachable(instructions: Sequence[Instruction], start: Instruction | None = None) -> set[Instruction]:
    """Instructions that may run when control begins at `start` (the first one by default)."""
    if not instructions:
        return set()
    follow = successors(instructions)
    pending = [0 if start is None else next(i for i, row in enumerate(instructions) if row is start)]
    seen = set(pending)
    while pending:
        for index in follow[pending.pop()]:
            if index not in seen:
                seen.add(index)
                pending.append(index)
    return {instructions[index] for index in seen}


def remove_unreachable(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions without those that never run."""
    keep = reachable(instructions)
    return [instruction for instruction in instructions if instruction in keep]


def reads(instruction: Instruction) -> str | None:
    """The variable whose slot the instruction needs: any use but a plain store. Cells count as needed by every use."""
    if instruction.opname in _PURE_WRITES or instruction.opname not in LOCAL_OPS | CELL_OPS:
        return None
    return instruction.argval


def live_variables(instructions: Sequence[Instruction]) -> dict[Instruction, frozenset[str]]:
    """Per instruction the locals, cells and free variables that may be read at or after it, before a store."""
    names: dict[str, int] = {}
    gen, kill = [0] * len(instructions), [0] * len(instructions)
    for index, instruction in enumerate(instructions):
        if instruction.opname in LOCAL_OPS or instruction.opname in CELL_OPS:
            bit = 1 << names.setdefault(instruction.argval, len(names))
            if instruction.opname in _PURE_WRITES:
                kill[index] = bit
            else:
                gen[index] = bit
    follow = successors(instructions)
    live = [0] * len(instructions)
    changed = True
    while changed:
        changed = False
        for index in range(len(instructions) - 1, -1, -1):
            after = 0
            for successor in follow[index]:
                after |= live[successor]
            handler = instructions[index].handler
            caught = (
                live[follow[index][-1]] if handler is not None else 0
            )  # a failing store leaves the variable as it was
            before = gen[index] | (after & ~kill[index]) | caught
            if before != live[index]:
                live[index], changed = before, True
    by_bits: dict[int, frozenset[str]] = {}
    for bits in live:
        if bits not in by_bits:
            by_bits[bits] = frozenset(name for name, position in names.items() if bits >> position & 1)
    return {instruction: by_bits[bits] for instruction, bits in zip(instructions, live, strict=True)}


def live_before(instructions: Sequence[Instruction], at: Instruction) -> frozenset[str]:
    """The variables that may be read when control is just before `at`."""
    return live_variables(instructions)[at]


def only_raises(instructions: Sequence[Instruction], index: Mapping[Instruction, int], position: int) -> bool:
    """Whether all that is done from `position` on, without any branch, is to raise an exception of the program."""
    for _ in range(_LONGEST_RAISE):
        row = instructions[position]
        if row.opname == "RAISE_VARARGS":
            return bool(row.arg)
        if row.opname in ("JUMP", "JUMP_FORWARD") and row.target is not None:
            position = index[row.target]
        elif row.target is not None or row.opname in NO_FALL_THROUGH or row.opname in _SUSPENDS:
            return False
        else:
            position += 1
    return False
