"""`FramePart`: one frame of a cut: what is alive in it, and its bytecode with stubs where it hands on.

The emitted code contains the origin's bytecode, so the breaking instruction (or the call that is under way) runs inside
the `try` and `with` blocks that cover it. Where control leaves it, by falling through, by a jump or by an exception
that the frame handles, a stub hands what is alive to the continuation of that place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode import ExceptionRange, Instruction, analysis, build, copy_instructions
from triptych_dynamo.bytecode.stack import effect
from triptych_dynamo.bytecode.tables import FACTS, NO_FALL_THROUGH, NOTE_OPS
from triptych_dynamo.emit.continuation import (
    Layout,
    Slot,
    assemble_part,
    await_code,
    covered,
    free_names_of,
    in_order,
    prologue_of,
    restored,
    stack_name,
    stop_handling,
)
from triptych_dynamo.emit.kept_objects import keep_in_cells
from triptych_dynamo.emit.pops import BRANCH_EFFECTS, operands_of
from triptych_dynamo.emit.refused_rest import refusal
from triptych_dynamo.emit.trampoline import Resume
from triptych_dynamo.interpreter.held import generator_locals, named_locals
from triptych_dynamo.interpreter.ops_data import BRANCHES
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.values.differentiation.checkpoint import AloneValue, runs_alone
from triptych_dynamo.values.null import HANDLING, NULL, OFFSET

if TYPE_CHECKING:
    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value

_PREFIXES = frozenset({"KW_NAMES", "PRECALL"})  # they belong to the call that follows
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP"})
_KINDS: dict[Value, Slot] = {NULL: Slot.NULL, HANDLING: Slot.HANDLING, OFFSET: Slot.OFFSET}
ResumeCode = Callable[[Layout, bool], list[Instruction]]  # (where to go on, whether that place awaits) -> code


@dataclass(frozen=True)
class Successor:
    """A place where control goes on: the instruction's index and the stack there."""

    position: int
    stack: tuple[Slot, ...]
    kept: int  # slots below this one are as they were before the instruction
    stored: tuple[str, ...] = ()  # locals that the top items go to on the way there, topmost first; "": dropped


def run_piece(rest: Resume) -> object:
    """Run the next piece of a callee: its value, or a `Resume` when there is more to run."""
    return rest.run()


class FramePart:
    """A frame of a cut.

    Args:
        frame: the frame as the trace left it.
        resume: gives code that hands what is alive to the continuation of a layout.
        calls: whether the next frame of the cut is its callee (else the cut is before its own instruction).
        refused: the break is an error, which is raised in place of the instruction; handlers run as plain Python.
    """

    def __init__(self, frame: Frame, resume: ResumeCode, calls: bool, refused: Unsupported | None = None) -> None:
        self.frame = frame
        self.resume = resume
        self.calls = calls
        self.refused = refused
        self.awaits = calls or frame.pending_call is not None
        self.instructions = frame.program.instructions
        self.start = self.last = frame.position
        if not self.awaits:
            while self.instructions[self.last].opname in _PREFIXES:
                self.last += 1
        self._alone: dict[Value, Value] = {}
        self.kinds: tuple[Slot, ...] = tuple(_KINDS.get(value, Slot.OBJECT) for value in frame.stack)
        self.live = analysis.live_variables(self.instructions)
        self.held = named_locals(frame).union(generator_locals(frame))
        hidden = set(frame.code.co_cellvars)
        self.names = in_order(frame.code, set(self.live_locals(self.start)) - hidden)

    @property
    def kept(self) -> int:
        """The slots below this one stay as they are: the others are operands of the breaking instruction."""
        return len(self.kinds) - (0 if self.awaits else operands_of(self.instructions[self.last]))

    # -- what is alive -----------------------------------------------------------------------------------------------
    def live_locals(self, position: int) -> list[str]:
        """Locals that are set now and may be read from `position` on, or are held on to."""
        wanted = self.live[self.instructions[position]] | self.held
        return [name for name in self.frame.bound_locals() if name in wanted]

    def _unset(self) -> set[str]:
        """What the breaking instruction takes away from the locals."""
        breaking = self.instructions[self.last]
        return {breaking.argval} if breaking.opname == "DELETE_FAST" and not self.awaits else set()

    def stack_values(self) -> list[Value]:
        """Per slot the value that is carried over: of a HANDLING slot the exception that is being handled."""
        handled = iter(self.frame.handled)
        values = [next(handled) if value is HANDLING else value for value in self.frame.stack]
        return [*values[: self.kept], *map(self._operand, values[self.kept :])]

    def _operand(self, value: Value) -> Value:
        """An operand of the breaking instruction as it is pushed."""
        if not runs_alone(value):
            return value
        return self._alone.setdefault(value, AloneValue(value))

    @property
    def layout(self) -> Layout:
        """The place of the cut itself."""
        stack = (*self.kinds, Slot.OBJECT) if self.awaits else self.kinds
        return Layout(self.frame.code, self.last if self.awaits else self.start, stack, self.names)

    # -- code --------------------------------------------------------------------------------------------------------
    def inner_code(self) -> tuple[CodeType, tuple[CellType, ...]]:
        """The code that runs a frame of the cut that is not the root, up to where it hands on, and its own cells."""
        layout = self.layout
        rows = [*prologue_of(layout), *restored(layout, keep=True), *self.rest()]
        names, kept = keep_in_cells(rows)
        return assemble_part(layout, rows, co_freevars=(*free_names_of(layout.origin), *names)), kept

    def rest(self) -> list[Instruction]:
        """The frame's instructions with stubs behind the breaking one, entered at its start, the stack restored.

        Where a callee is awaited, it is on top of the stack.
        """
        mapping: dict[Instruction, Instruction] = {}
        body = copy_instructions(self.instructions, mapping)
        breaking = body[self.last]
        if self.refused is not None and not self.calls:
            return [*refusal(self.frame.code, breaking, self.refused, self.awaits), *body]
        if self.awaits:
            run = [*build.load_const(run_piece), *build.swap(2), *build.call(1)] if self.calls else await_code()
            group = covered(run, breaking)
            after = Successor(self.last if self.calls else self.last + 1, (*self.kinds, Slot.OBJECT), len(self.kinds))
            tail = self._handler_stub(group) if self.refused is None else []
            return [*group, *self._stub(after, self.calls), *body, *tail]
        group = body[self.start : self.last + 1]
        if breaking.opname in BRANCHES:
            group = [*covered(build.to_bool(), breaking), *group]
        tail = []
        if breaking.target is not None and breaking.opname not in NOTE_OPS:
            tail = self._jump_stub(breaking, mapping)
        behind: list[Instruction] = []
        if breaking.opname not in NO_FALL_THROUGH:
            behind = self._stub(self._placed(self._successor(breaking, self.last + 1, jump=False)))
        tail += self._handler_stub(group)
        return [*build.jump(group[0]), *body[: self.start], *group, *behind, *body[self.last + 1 :], *tail]

    def _successor(self, breaking: Instruction, position: int, jump: bool) -> Successor:
        """The stack behind the breaking instruction. Method loads are written as plain attribute loads."""
        kept = self.kept
        taken = len(self.kinds) - kept
        if breaking.opname in ("LOAD_METHOD", "LOAD_SPECIAL") or (
            breaking.opname in ("LOAD_ATTR", "LOAD_GLOBAL") and breaking.flags & 1
        ):
            breaking.opname = "LOAD_GLOBAL" if breaking.opname == "LOAD_GLOBAL" else "LOAD_ATTR"
            breaking.flags = 0
            outputs = [Slot.NULL, Slot.OBJECT] if FACTS.null_first else [Slot.OBJECT, Slot.NULL]
        elif breaking.opname == "PUSH_NULL":
            outputs = [Slot.NULL]
        else:
            outputs = [Slot.OBJECT] * (taken + self._group_effect(breaking, jump))
        return Successor(position, (*self.kinds[:kept], *outputs), kept)

    def _placed(self, successor: Successor) -> Successor:
        """The place behind the stores of results: a local is looked at, and guarded, only where it is read."""
        position, stack, stored = successor.position, list(successor.stack), list[str]()
        while len(stack) > successor.kept and stack[-1] is Slot.OBJECT:
            row = self.instructions[position]
            if row.opname not in ("STORE_FAST", "POP_TOP") or row.argval in self.frame.code.co_cellvars:
                break
            stored.append(row.argval if row.opname == "STORE_FAST" else "")
            stack.pop()
            position += 1
        return Successor(self._landing(position), tuple(stack), successor.kept, tuple(stored))

    def _landing(self, position: int) -> int:
        """Where jumps without a condition lead from there, so that two ways to one place have one continuation."""
        passed: set[int] = set()
        while (target := self.instructions[position].target) and position not in passed:
            if self.instructions[position].opname not in _JUMPS:
                break
            passed.add(position)
            position = self.frame.program.index[target]
        return position

    def _group_effect(self, breaking: Instruction, jump: bool) -> int:
        if breaking.opname in BRANCH_EFFECTS:
            return BRANCH_EFFECTS[breaking.opname][jump]
        group = self.instructions[self.start : self.last + 1]
        return sum(effect(row.opname, row.arg, jump) for row in group)

    # -- stubs -------------------------------------------------------------------------------------------------------
    def _jump_stub(self, breaking: Instruction, mapping: dict[Instruction, Instruction]) -> list[Instruction]:
        """The stub at the jump's target; an exhausted FOR_ITER passes the instructions that it skips first."""
        original = self.instructions[self.last].target
        assert original is not None
        position = self.frame.program.index[original]
        stub: list[Instruction] = []
        if breaking.opname == "FOR_ITER":
            stub = copy_instructions(self.instructions[position : position + LOOP.for_iter_skip], mapping)
            position += LOOP.for_iter_skip
        stub += self._stub(self._successor(breaking, self._landing(position), jump=True))
        breaking.target = stub[0]
        return stub

    def _handler_stub(self, group: list[Instruction]) -> list[Instruction]:
        """Where an exception of the breaking instruction goes when the frame handles it: on in a continuation."""
        original = self.instructions[self.last].handler
        if original is None:
            return []
        offset = Slot.OFFSET if FACTS.tagged_offsets else Slot.OBJECT
        pushed = (*((offset,) if original.lasti else ()), Slot.OBJECT)
        position = self.frame.program.index[original.target]
        stub = self._stub(Successor(position, (*self.kinds[: original.depth], *pushed), original.depth))
        handler = ExceptionRange(stub[0], original.depth, original.lasti)
        for row in group:
            if row.handler is not None:
                row.handler = handler
        return stub

    def _stub(self, successor: Successor, awaits: bool = False) -> list[Instruction]:
        """Hand the live state to the continuation."""
        code: list[Instruction] = []
        for name in successor.stored:
            code += build.store_fast(name) if name else build.pop()
        for slot in reversed(range(successor.kept, len(successor.stack))):
            if successor.stack[slot].is_carried:
                code += build.store_fast(stack_name(slot))
        code += stop_handling(successor.stack)
        hidden = self.frame.code.co_cellvars
        wanted = (self.live[self.instructions[successor.position]] | self.held - self._unset()).difference(hidden)
        bound = {*self.frame.bound_locals(), *filter(None, successor.stored)}
        names = in_order(self.frame.code, bound & wanted)
        layout = Layout(self.frame.code, successor.position, successor.stack, names)
        return [*code, *self.resume(layout, awaits)]
