"""The end of a frame at a graph break: restore the frame, run the breaking instruction, go on in a continuation.

The emitted code contains the origin's bytecode, so the breaking instruction runs inside the `try` and `with` blocks
that cover it; where control leaves it, a stub hands what is alive to the continuation of that place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode import Instruction, analysis, build, copy_instructions
from triptych_dynamo.bytecode.stack import effect
from triptych_dynamo.bytecode.tables import FACTS, JUMP_OPS, NO_FALL_THROUGH
from triptych_dynamo.emit.continuation import Layout, stack_name
from triptych_dynamo.emit.frame_exit import set_modes
from triptych_dynamo.emit.pops import BRANCH_EFFECTS, operands_of
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.sources import LocalSource
from triptych_dynamo.values.contexts import ModeValue
from triptych_dynamo.values.null import NULL

if TYPE_CHECKING:
    from triptych_dynamo.emit.frame_exit import CodeShape
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_PREFIXES = frozenset({"KW_NAMES", "PRECALL"})  # they belong to the call that follows


@dataclass(frozen=True)
class Successor:
    """A place where control goes on: the instruction's index and the stack there (False: NULL)."""

    position: int
    stack: tuple[bool, ...]
    kept: int  # slots below this one are as they were before the instruction


class Cut:
    """The cut of a traced root frame before the instruction at its `position`.

    Args:
        frame: the root frame as the trace left it.
        shape: parameters and closure of the emitted code.
        resume: gives, for a layout, code that calls its continuation with what is alive and returns the result.
    """

    def __init__(self, frame: Frame, shape: CodeShape, resume: Callable[[Layout], list[Instruction]]) -> None:
        self.frame = frame
        self.shape = shape
        self.resume = resume
        self.instructions = frame.program.instructions
        self.start = frame.position
        self.last = self.start
        while self.instructions[self.last].opname in _PREFIXES:
            self.last += 1
        if frame.handled:
            raise Unsupported("rebuild", "the exception that is being handled")
        self.live = analysis.live_variables(self.instructions)

    # -- what is alive -----------------------------------------------------------------------------------------------
    def live_locals(self, position: int) -> list[str]:
        """Locals that are set now and may be read from `position` on."""
        wanted = self.live[self.instructions[position]]
        return [name for name in self.frame.bound_locals() if name in wanted]

    # -- the body ----------------------------------------------------------------------------------------------------
    def body(self, cg: Writer) -> None:
        """Restore the frame and run on; see the module's docstring."""
        names = self._locals_to_store()
        values = [self.frame.locals[name] for name in names]
        stack = list(self.frame.stack)
        for name, cell in self.frame.cells.items():
            if name in self.shape.cells:
                cg.bind(cell, build.load_cell(name))
                cg.later(cell)
        for value in (*values, *stack):
            cg.prepare(value)
        cg.replay_effects([])
        set_modes(cg)
        self._enter_modes(cg)
        for value in values:
            cg.load(value)
        for name in reversed(names):
            cg.emit(build.store_fast(name))
        for slot, value in enumerate(stack):
            cg.load(value)
            if value is not NULL:
                cg.emit([*build.copy(), *build.store_fast(stack_name(slot))])
        cg.emit(self._rest())

    def _enter_modes(self, cg: Writer) -> None:
        """Enter again the modes whose `with` blocks are open: their exit methods are on the stack."""
        for value in self.frame.stack:
            owner = getattr(value, "owner", None)
            if isinstance(owner, ModeValue) and owner.entered:
                cg.load(owner)
                cg.load_attr("__enter__")
                cg.call(0)
                cg.pop()

    def _locals_to_store(self) -> list[str]:
        """Live locals whose slot does not hold them already."""
        names = []
        for name in self.live_locals(self.start):
            if self.frame.is_unread(name):
                continue
            value = self.frame.locals[name]
            if value.source != LocalSource(name):
                names.append(name)
        return names

    def _rest(self) -> list[Instruction]:
        """The origin's instructions with stubs behind the breaking one, entered at its start."""
        mapping: dict[Instruction, Instruction] = {}
        body = copy_instructions(self.instructions, mapping)
        breaking = body[self.last]
        tail: list[Instruction] = []
        after = self._fall_through(breaking)
        if breaking.target is not None and breaking.opname in JUMP_OPS:
            tail = self._jump_stub(breaking, mapping)
        behind = self._stub(after) if after is not None else []
        code = [*body[: self.last + 1], *behind, *body[self.last + 1 :], *tail]
        return [*build.jump(body[self.start]), *code]

    def _fall_through(self, breaking: Instruction) -> Successor | None:
        if breaking.opname in NO_FALL_THROUGH:
            return None
        return self._successor(breaking, self.last + 1, jump=False)

    def _successor(self, breaking: Instruction, position: int, jump: bool) -> Successor:
        """The stack behind the breaking instruction. Method loads are written as plain attribute loads."""
        before = [value is not NULL for value in self.frame.stack]
        taken = operands_of(breaking)
        kept = len(before) - taken
        if breaking.opname in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL") and (
            breaking.opname == "LOAD_METHOD" or breaking.flags & 1
        ):
            breaking.opname = "LOAD_GLOBAL" if breaking.opname == "LOAD_GLOBAL" else "LOAD_ATTR"
            breaking.flags = 0
            outputs = [False, True] if FACTS.null_first else [True, False]
        elif breaking.opname == "PUSH_NULL":
            outputs = [False]
        else:
            outputs = [True] * (taken + self._group_effect(breaking, jump))
        return Successor(position, (*before[:kept], *outputs), kept)

    def _group_effect(self, breaking: Instruction, jump: bool) -> int:
        if breaking.opname in BRANCH_EFFECTS:
            return BRANCH_EFFECTS[breaking.opname][jump]
        group = self.instructions[self.start : self.last + 1]
        return sum(effect(row.opname, row.arg, jump) for row in group)

    def _jump_stub(self, breaking: Instruction, mapping: dict[Instruction, Instruction]) -> list[Instruction]:
        """The stub at the jump's target; an exhausted FOR_ITER passes the instructions that it skips first."""
        original = self.instructions[self.last].target
        assert original is not None
        position = self.frame.program.index[original]
        stub: list[Instruction] = []
        if breaking.opname == "FOR_ITER":
            stub = copy_instructions(self.instructions[position : position + LOOP.for_iter_skip], mapping)
            position += LOOP.for_iter_skip
        stub += self._stub(self._successor(breaking, position, jump=True))
        breaking.target = stub[0]
        return stub

    def _stub(self, successor: Successor) -> list[Instruction]:
        """Hand the live state to the continuation and return its result."""
        code: list[Instruction] = []
        for slot in reversed(range(successor.kept, len(successor.stack))):
            if successor.stack[slot]:
                code += build.store_fast(stack_name(slot))
        hidden = self.shape.origin.co_cellvars
        names = tuple(sorted(name for name in self.live_locals(successor.position) if name not in hidden))
        layout = Layout(self.shape.origin, successor.position, successor.stack, names)
        return [*code, *self.resume(layout)]
