"""Instructions to code object: tables, jump distances, EXTENDED_ARG, caches, positions, exception table, stack size.

>>> code = (lambda x: x + 1).__code__
>>> eval(assemble(decode(code), code), {})
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from triptych_dynamo.bytecode import exception_table, line_table, stack
from triptych_dynamo.bytecode.instruction import Instruction
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
    NOTE_OPS,
    OPCODES,
    TEXT_OPERANDS,
)


class AssemblyError(ValueError):
    """The instructions do not make a code object."""


@dataclass(slots=True)
class _Slot:
    """One instruction as it will be written: `extended` counts its EXTENDED_ARG prefixes."""

    instruction: Instruction
    opname: str
    arg: int
    has_arg: bool
    target: _Slot | None = None
    extended: int = 0
    unit: int = 0

    @property
    def units(self) -> int:
        return self.extended + 1 + CACHES.get(self.opname, 0)


class _Constants:
    """A table of constants in which equal constants of different kinds (1, True, 1.0, -0.0) stay apart."""

    def __init__(self, first: tuple[Any, ...]) -> None:
        self.items: list[Any] = []
        self._by_id: dict[int, int] = {}
        self._by_value: dict[Any, int] = {}
        for value in first:
            self.index(value)

    def index(self, value: Any) -> int:
        found = self._by_id.get(id(value))
        if found is not None:
            return found
        kind = type(value)
        key = (kind, value) if kind in (int, str, bytes, bool) else None
        if key is not None and key in self._by_value:
            return self._by_value[key]
        self.items.append(value)
        index = self._by_id[id(value)] = len(self.items) - 1
        if key is not None:
            self._by_value[key] = index
        return index


class _Names:
    """A table of names, in order of first use."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def index(self, name: str) -> int:
        return self._index.setdefault(name, len(self._index))

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(self._index)


class _Assembler:
    """One run of `assemble`."""

    def __init__(self, instructions: Sequence[Instruction], template: CodeType, changes: dict[str, Any]) -> None:
        self.instructions = instructions
        self.template = template
        self.changes = changes
        get = lambda name: changes.get(name, getattr(template, name))
        self.varnames, self.cellvars, self.freevars = (
            get(f"co_{kind}") for kind in ("varnames", "cellvars", "freevars")
        )
        self.flags: int = get("co_flags")
        self.first_line: int = get("co_firstlineno")
        consts: tuple[Any, ...] = get("co_consts")
        self.constants = _Constants(consts[:1])  # the first is the docstring's place
        self.names = _Names()
        self._add_new_locals()
        self._number_slots()

    def _number_slots(self) -> None:
        """Indices of locals, and of cells and free variables, in the frame's array of variables."""
        local = {name: index for index, name in enumerate(self.varnames)}
        cells = {name: index for name, index in local.items() if name in self.cellvars}
        following = len(self.varnames)
        for name in self.cellvars:
            if name not in local:
                cells[name] = following
                following += 1
        for name in self.freevars:
            cells[name] = following
            following += 1
        self.cell_index = cells
        self.local_index = {**cells, **local}

    def _add_new_locals(self) -> None:
        """Make variables of the names that instructions use and nobody declared."""
        known = {*self.varnames, *self.cellvars, *self.freevars}
        added: dict[str, None] = {}
        for instruction in self.instructions:
            if instruction.opname in LOCAL_OPS and instruction.argval not in known:
                added[instruction.argval] = None
        self.varnames = (*self.varnames, *added)

    # -- instructions to slots ---------------------------------------------------------------------------------------
    def operand(self, instruction: Instruction, opname: str) -> int | None:
        """The raw operand, jumps excepted."""
        value = instruction.argval
        try:
            if opname in NAME_OPS:
                return self.names.index(value) << FACTS.name_shifts.get(opname, 0) | instruction.flags
            if opname in CONST_OPS:
                return self.constants.index(value)
            if opname in LOCAL_OPS and opname != "LOAD_CLOSURE":
                return self.local_index[value]
            if opname in CELL_OPS:
                return self.cell_index[value]
            if opname == "COMPARE_OP":
                return COMPARE_NAMES.index(value) << FACTS.compare_shift | instruction.flags
            if opname in TEXT_OPERANDS:
                return TEXT_OPERANDS[opname].index(value)
        except (KeyError, ValueError):
            raise AssemblyError(f"{instruction!r}: no variable or operand {value!r} here") from None
        return instruction.arg

    def slots(self) -> list[_Slot]:
        """One slot an instruction, jumps given their direction, branches backwards written out, pairs fused."""
        order = {instruction: index for index, instruction in enumerate(self.instructions)}
        first: dict[Instruction, _Slot] = {}
        result: list[_Slot] = []
        landing = {i.target for i in self.instructions} | {i.handler.target for i in self.instructions if i.handler}
        for index, instruction in enumerate(self.instructions):
            made = self._slots_of(instruction, index, order)
            first[instruction] = made[0]
            result.extend(made)
        for slot in result:
            if slot.opname in JUMP_OPS and slot.target is None:
                assert slot.instruction.target is not None
                slot.target = first[slot.instruction.target]
            elif slot.opname in NOTE_OPS and slot.instruction.target is not None:
                slot.target = first.get(slot.instruction.target)
        for index, slot in enumerate(result):
            if slot.target is slot:  # an inverted branch jumps over the rest of its instruction
                slot.target = next(row for row in result[index:] if row.instruction is not slot.instruction)
        return self._fuse(result, landing) if FACTS.fused else result

    def _plain_slot(self, instruction: Instruction) -> _Slot:
        """The slot of an instruction that is no jump."""
        opname = instruction.opname
        if opname in FACTS.spelled:
            opname, argval = FACTS.spelled[opname]
            return _Slot(instruction, opname, TEXT_OPERANDS[opname].index(argval), True)
        arg = self.operand(instruction, opname)
        if opname == "LOAD_CLOSURE":
            opname = FACTS.closure_load
        if opname not in OPCODES:
            raise AssemblyError(f"{opname} is no instruction of this Python")
        return _Slot(instruction, opname, arg or 0, arg is not None)

    def _slots_of(self, instruction: Instruction, index: int, order: dict[Instruction, int]) -> list[_Slot]:
        opname = instruction.opname
        if opname not in JUMP_OPS and opname != "JUMP" and not opname.startswith("POP_JUMP_IF"):
            return [self._plain_slot(instruction)]
        if instruction.target not in order:
            raise AssemblyError(f"{instruction!r} jumps out of the code")
        backward = order[instruction.target] <= index
        if opname in ("JUMP", "JUMP_FORWARD", "JUMP_BACKWARD"):
            return [_Slot(instruction, "JUMP_BACKWARD" if backward else "JUMP_FORWARD", 0, True)]
        if opname == "JUMP_BACKWARD_NO_INTERRUPT":
            return [_Slot(instruction, opname if backward else "JUMP_FORWARD", 0, True)]
        mark = [_Slot(instruction, "NOT_TAKEN", 0, False)] if FACTS.marks_branches else []
        if not opname.startswith("POP_JUMP_IF"):
            if backward:
                raise AssemblyError(f"{instruction!r} cannot jump backwards")
            return [_Slot(instruction, opname, 0, True), *(mark if opname == "FOR_ITER" else ())]
        if FACTS.directional_branches:
            direction = "BACKWARD" if backward else "FORWARD"
            return [_Slot(instruction, opname.replace("JUMP_IF", f"JUMP_{direction}_IF"), 0, True)]
        if not backward:
            return [_Slot(instruction, opname, 0, True), *mark]
        over = _Slot(instruction, BRANCH_OPPOSITE[opname], 0, True)
        over.target = over
        return [over, *mark, _Slot(instruction, "JUMP_BACKWARD", 0, True)]

    @staticmethod
    def _fuse(slots: list[_Slot], landing: set[Instruction | None]) -> list[_Slot]:
        """Join neighbours for which there is one instruction, where nothing lands between them."""
        fused = {pair: name for name, pair in FACTS.fused.items()}
        targets = {id(slot.target) for slot in slots}
        result: list[_Slot] = []
        for slot in slots:
            last = result[-1] if result else None
            if (
                last is not None
                and (name := fused.get((last.opname, slot.opname)))
                and last.arg < 16
                and slot.arg < 16
                and last.instruction.offset == slot.instruction.offset
                and last.instruction.position == slot.instruction.position
                and last.instruction.handler is slot.instruction.handler
                and slot.instruction not in landing
                and id(slot) not in targets
                and slot.instruction.opname != "LOAD_CLOSURE"
                and last.instruction.opname != "LOAD_CLOSURE"
            ):
                last.opname, last.arg = name, last.arg << 4 | slot.arg
            else:
                result.append(slot)
        return result

    # -- slots to bytes ----------------------------------------------------------------------------------------------
    @staticmethod
    def place(slots: list[_Slot]) -> None:
        """Give each slot its offset and each jump its distance; prefixes only ever grow, so this ends."""
        changed = True
        while changed:
            changed = False
            unit = 0
            for slot in slots:
                slot.unit = unit
                unit += slot.units
            for slot in slots:
                if slot.target is not None:
                    slot.arg = abs(slot.target.unit - (slot.unit + slot.units))
                needed = max(0, (slot.arg.bit_length() + 7) // 8 - 1)
                if needed > slot.extended:
                    slot.extended, changed = needed, True

    @staticmethod
    def code_bytes(slots: list[_Slot]) -> bytes:
        """`co_code`."""
        out = bytearray()
        for slot in slots:
            for shift in range(slot.extended, 0, -1):
                out += bytes((OPCODES["EXTENDED_ARG"], slot.arg >> 8 * shift & 255))
            out += bytes((OPCODES[slot.opname], slot.arg & 255))
            out += bytes(2 * CACHES.get(slot.opname, 0))
        return bytes(out)

    @staticmethod
    def exceptions(slots: list[_Slot]) -> bytes:
        """`co_exceptiontable`: neighbours with one handler make one entry."""
        start_of: dict[Instruction, int] = {}
        for slot in slots:
            start_of.setdefault(slot.instruction, slot.unit)
        entries: list[exception_table.Entry] = []
        for slot in slots:
            handler = slot.instruction.handler
            if handler is None:
                continue
            if handler.target not in start_of:
                raise AssemblyError(f"the handler of {slot.instruction!r} is not in the code")
            target, end = start_of[handler.target], slot.unit + slot.units
            last = entries[-1] if entries else None
            if last and last.end == slot.unit and last[2:] == (target, handler.depth, handler.lasti):
                entries[-1] = last._replace(end=end)
            else:
                entries.append(exception_table.Entry(slot.unit, end, target, handler.depth, handler.lasti))
        return exception_table.encode(entries)

    def stack_size(self, slots: list[_Slot]) -> int:
        """`co_stacksize`."""
        opnames: list[str] = []
        args: list[int | None] = []
        flow: list[Instruction] = []
        for slot in slots:
            row = Instruction(slot.opname, slot.arg, None, 0, None, slot.instruction.handler)
            flow.append(row)
            opnames.append(slot.opname)
            args.append(slot.arg if slot.has_arg else None)
        rows = {id(slot): row for slot, row in zip(slots, flow, strict=True)}
        start: dict[Instruction, Instruction] = {}
        for slot, row in zip(slots, flow, strict=True):
            start.setdefault(slot.instruction, row)
            if slot.target is not None:
                row.target = rows[id(slot.target)]
        stack.redirect_handlers(flow, start)
        return max(1, stack.depths(flow, opnames, args, stack.entry_depth(self.flags))[1])

    def run(self) -> CodeType:
        """The code object."""
        slots = self.slots()
        self.place(slots)
        spans = [(slot.instruction.position, slot.units) for slot in slots]
        fields: dict[str, Any] = {
            **self.changes,
            "co_code": self.code_bytes(slots),
            "co_consts": tuple(self.constants.items),
            "co_names": self.names.items,
            "co_varnames": self.varnames,
            "co_nlocals": len(self.varnames),
            "co_cellvars": self.cellvars,
            "co_freevars": self.freevars,
            "co_linetable": line_table.encode(spans, self.first_line),
            "co_exceptiontable": self.exceptions(slots),
        }
        fields.setdefault("co_stacksize", self.stack_size(slots))
        return self.template.replace(**fields)


def assemble(instructions: Sequence[Instruction], template: CodeType, **changes: Any) -> CodeType:
    """A code object with these instructions; everything else is the template's, but for `changes`.

    Args:
        instructions: as `decode` gives them; also `JUMP` (either direction). They are not altered. Jumps of any
            distance and direction are written as the version needs; names and constants are collected anew.
        template: gives name, file, parameters, flags, variables.
        changes: fields of the code object (`co_name`, `co_argcount`, `co_varnames`, `co_freevars`, `co_flags` ...).
            Locals that instructions name and `co_varnames` lacks are added to it.

    Raises:
        AssemblyError: unknown variable, operand, instruction, or a jump out of the code.
        StackError: the value stack does not come out even.
    """
    if not instructions:
        raise AssemblyError("no instructions")
    return _Assembler(list(instructions), template, changes).run()
