"""Code object to instructions.

>>> [i.opname for i in decode((lambda x: x).__code__)][-2:]
['LOAD_FAST', 'RETURN_VALUE']
"""

from __future__ import annotations

from types import CodeType

from triptych_dynamo.bytecode import exception_table
from triptych_dynamo.bytecode.instruction import ExceptionRange, Instruction
from triptych_dynamo.bytecode.tables import (
    BRANCH_OPPOSITE,
    CACHES,
    CELL_OPS,
    COMPARE_NAMES,
    CONST_OPS,
    FACTS,
    JUMP_OPS,
    LOCAL_OPS,
    NAME_OPS,
    NAMED_OPERANDS,
    NOTE_OPS,
    OPCODES,
    OPNAMES,
    TEXT_OPERANDS,
)

_EXTENDED_ARG = OPCODES["EXTENDED_ARG"]
_HAVE_ARGUMENT = (
    90 if "CACHE" in OPCODES and OPCODES.get("STORE_NAME") == 90 else 44
)  # first opcode that has an operand


class _Layout:
    """The names of a code object's slots: locals, then cells that are not locals, then free variables."""

    def __init__(self, code: CodeType) -> None:
        total = code.co_nlocals + len(code.co_freevars)
        total += sum(name not in code.co_varnames for name in code.co_cellvars)
        self.names = [code._varname_from_oparg(index) for index in range(total)]  # type: ignore[attr-defined]
        # Slots that hold a cell all the time: a local which an inlined comprehension makes a cell for a while is none.
        parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        self.cells = set(range(code.co_nlocals, total))
        self.cells.update(index for index in range(parameters) if self.names[index] in code.co_cellvars)


def _operand(code: CodeType, layout: _Layout, opname: str, arg: int) -> tuple[object, int]:
    """What `arg` means, and its flag bits."""
    if opname in NAME_OPS:
        shift = FACTS.name_shifts.get(opname, 0)
        return code.co_names[arg >> shift], arg & (1 << shift) - 1
    if opname in CONST_OPS:
        return code.co_consts[arg], 0
    if opname in LOCAL_OPS or opname in CELL_OPS:
        return layout.names[arg], 0
    if opname == "COMPARE_OP":
        return COMPARE_NAMES[arg >> FACTS.compare_shift], arg & (1 << FACTS.compare_shift) - 1
    if opname in TEXT_OPERANDS:
        return TEXT_OPERANDS[opname][arg], 0
    return (None if opname in JUMP_OPS or opname in NOTE_OPS else arg), 0


def _branch_name(opname: str) -> str:
    """One name for both directions of a conditional jump: the direction follows from the target."""
    return opname.replace("JUMP_FORWARD_IF", "JUMP_IF").replace("JUMP_BACKWARD_IF", "JUMP_IF")


def _expand(code: CodeType, layout: _Layout, opname: str, arg: int | None) -> list[Instruction]:
    """The instruction, or the two that a fused one stands for."""
    opname = FACTS.aliases.get(opname, opname)
    if opname in FACTS.fused:
        assert arg is not None
        first, second = FACTS.fused[opname]
        return [
            Instruction(name, index, layout.names[index]) for name, index in ((first, arg >> 4), (second, arg & 15))
        ]
    if arg is None:
        return [Instruction(opname)]
    if opname == "LOAD_FAST" and FACTS.closure_load == "LOAD_FAST" and arg in layout.cells:
        opname = "LOAD_CLOSURE"  # one name on every version for loading the cell object itself
    if opname == "LOAD_SMALL_INT":
        return [Instruction("LOAD_CONST", None, arg)]
    argval, flags = _operand(code, layout, opname, arg)
    if opname in TEXT_OPERANDS and (opname, argval) in NAMED_OPERANDS:
        return [Instruction(NAMED_OPERANDS[opname, argval])]
    return [Instruction(_branch_name(opname), arg, argval, flags)]


def _is_mark(opname: str, before: list[Instruction]) -> bool:
    """Whether it is the NOT_TAKEN that goes with the branch before it."""
    if opname != "NOT_TAKEN" or not before:
        return False
    return before[-1].opname == "FOR_ITER" or before[-1].opname in BRANCH_OPPOSITE


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of `code`, operands, jumps and exception ranges resolved.

    Inline caches, EXTENDED_ARG and the NOT_TAKEN of branches are gone; fused pairs are split;
    `POP_JUMP_FORWARD_IF_x` / `POP_JUMP_BACKWARD_IF_x` (3.11) are `POP_JUMP_IF_x`; loading a cell object is LOAD_CLOSURE
    on every version; what 3.14 writes as an operand or in another way (`tables.VersionFacts`) has the name that it has
    elsewhere. `assemble` undoes all that.
    """
    raw = code.co_code
    positions = list(code.co_positions())
    layout = _Layout(code)
    result: list[Instruction] = []
    at: dict[int, Instruction] = {}  # code unit -> the instruction that starts there
    jumps: list[tuple[Instruction, int]] = []
    unit, count = 0, len(raw) // 2
    while unit < count:
        start, arg = unit, 0
        while raw[2 * unit] == _EXTENDED_ARG:
            arg = (arg | raw[2 * unit + 1]) << 8
            unit += 1
        number = raw[2 * unit]
        opname = OPNAMES[number]
        arg |= raw[2 * unit + 1]
        if _is_mark(opname, result):
            unit += 1
            continue
        expanded = _expand(code, layout, opname, arg if number >= _HAVE_ARGUMENT else None)
        for instruction in expanded:
            instruction.offset = 2 * unit
            instruction.position = positions[unit] if unit < len(positions) else None
        at[start] = at[unit] = expanded[0]
        unit += 1 + CACHES.get(opname, 0)
        if opname in JUMP_OPS or opname in NOTE_OPS:
            jumps.append((expanded[0], unit - arg if _is_backward(opname) else unit + arg))
        result.extend(expanded)
    for instruction, target in jumps:
        instruction.target = at[target]
    _attach_handlers(code, result, at)
    return result


def _is_backward(opname: str) -> bool:
    return "BACKWARD" in opname or opname in NOTE_OPS


def _attach_handlers(code: CodeType, instructions: list[Instruction], at: dict[int, Instruction]) -> None:
    """Give each instruction the exception range that covers it."""
    entries = exception_table.parse(code.co_exceptiontable)
    ranges: dict[tuple[int, int, bool], ExceptionRange] = {}
    index = 0
    for instruction in instructions:
        assert instruction.offset is not None
        unit = instruction.offset // 2
        while index < len(entries) and entries[index].end <= unit:
            index += 1
        if index < len(entries) and entries[index].start <= unit:
            entry = entries[index]
            key = (entry.target, entry.depth, entry.lasti)
            if key not in ranges:
                ranges[key] = ExceptionRange(at[entry.target], entry.depth, entry.lasti)
            instruction.handler = ranges[key]
