"""The end of a frame at a graph break: restore the frames, run the breaking instruction, go on in a continuation.

A break inside inlined calls restores every frame of the chain of calls: the root calls the rest of its callee where its
own call stood, and so on inwards; nothing that ran before the break runs again. See `frame_part` for one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode import Instruction, build
from triptych_dynamo.emit.continuation import Slot, free_names_of, push_offset, stack_name, start_handling
from triptych_dynamo.emit.frame_exit import set_modes
from triptych_dynamo.emit.frame_part import FramePart
from triptych_dynamo.emit.trampoline import Resume
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.interpreter.root_locals import RootLocals
from triptych_dynamo.sources import LocalSource
from triptych_dynamo.values.null import EMPTY
from triptych_dynamo.values.tensors.contexts import BreakPolicyValue, ModeValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.continuation import Layout
    from triptych_dynamo.emit.frame_exit import CodeShape
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


class Cut:
    """The cut of a trace before the instruction at which the innermost of `frames` stands.

    Args:
        frames: from the root to the frame of that instruction, as the trace left them.
        shape: parameters and closure of the emitted code.
        resume: gives, for a frame, a layout, and whether that place awaits a callee, code that hands what is alive to
            the continuation of the layout.
        own_code: told each code object that is made for a frame inside the root.
        refused: the break is an error, to be raised in the innermost frame.
    """

    def __init__(
        self,
        frames: list[Frame],
        shape: CodeShape,
        resume: Callable[[Frame, Layout, bool], list[Instruction]],
        own_code: Callable[[CodeType], None],
        refused: Unsupported | None = None,
    ) -> None:
        self.shape = shape
        self.parts = [self._part(frame, resume, frame is not frames[-1], refused) for frame in frames]
        self.root, *self.inner = self.parts
        self.codes = [part.inner_code() for part in self.inner]
        for code, _ in self.codes:
            own_code(code)
        self.after = self.root.rest()

    @staticmethod
    def _part(
        frame: Frame,
        resume: Callable[[Frame, Layout, bool], list[Instruction]],
        calls: bool,
        refused: Unsupported | None = None,
    ) -> FramePart:
        return FramePart(frame, lambda layout, awaits: resume(frame, layout, awaits), calls, refused)

    # -- the body ----------------------------------------------------------------------------------------------------
    def body(self, cg: Writer) -> None:
        """Restore the frames and run on; see the module's docstring."""
        for name, cell in self.root.frame.cells.items():
            if name in self.shape.cells:
                cg.bind(cell, build.load_cell(name))
                cg.later(cell)
        stored = self._locals_to_store()
        for level, part in enumerate(self.parts):
            names = stored if part is self.root else list(part.names)
            self._prepare(cg, level, part, names)
        cg.replay_effects([])
        set_modes(cg)
        for part in self.parts:
            _enter_modes(cg, part)
        for name in stored:
            cg.load(self.root.frame.locals[name])
        for name in reversed(stored):
            cg.emit(build.store_fast(name))
        self._push_stack(cg)
        if self.inner:
            self._load_inner(cg, 0)
        elif self.root.awaits:
            _load_pending(cg, self.root)
        cg.forget_temps()
        cg.emit(self.after)  # in both passes: only the second one's code is assembled

    @staticmethod
    def _prepare(cg: Writer, level: int, part: FramePart, names: list[str]) -> None:
        """Bring what a frame needs into locals, before effects change what sources give."""
        frame = part.frame
        cells = [frame.cells.get(name) for name in free_names_of(frame.code)] if level else []
        try:
            if None in cells:
                raise Unsupported("rebuild", "a cell of a comprehension")
            values = [frame.locals[name] for name in names if not frame.is_unread(name)]
            for value in (*values, *part.stack_values(), *cells):
                assert value is not None
                cg.prepare(value)
        except Unsupported as error:
            error.level = level
            raise

    def _locals_to_store(self) -> list[str]:
        """Live locals of the root whose slot does not hold them already."""
        frame = self.root.frame
        names = []
        for name in self.root.live_locals(self.root.start):
            if not frame.is_unread(name) and frame.locals[name].source != LocalSource(name):
                names.append(name)
        return names

    def _push_stack(self, cg: Writer) -> None:
        part = self.root
        for slot, (kind, value) in enumerate(zip(part.kinds, part.stack_values(), strict=True)):
            if kind is Slot.OFFSET:
                cg.emit(push_offset(slot))
                continue
            cg.load(value)
            if slot >= part.kept:  # an operand of the breaking instruction: nothing else is to hold it
                if value.source == LocalSource(stack_name(slot)):
                    cg.emit([*build.load_const(None), *build.store_fast(stack_name(slot))])
            elif kind.is_carried:
                cg.emit([*build.copy(), *build.store_fast(stack_name(slot))])
            if kind is Slot.HANDLING:
                cg.emit(start_handling(slot, keep=True))

    def _load_inner(self, cg: Writer, index: int) -> None:
        """Push the rest of the `index`-th inner frame, as a `Resume`."""
        part, (code, kept) = self.inner[index], self.codes[index]
        frame = part.frame
        cg.load_object(Resume)
        cg.load_object(part.layout)
        free = free_names_of(frame.code)
        if free:
            cg.load_object(FunctionType)
            cg.load_object(code)
            cg.load_object(frame.scope.namespace)
            cg.load_const(code.co_name)
            cg.load_const(None)
            for name in free:
                cg.load(frame.cells[name])
            for cell in kept:
                cg.load_object(cell)
            cg.build("TUPLE", len(free) + len(kept))
            cg.call(5)
        else:
            cg.load_object(FunctionType(code, frame.scope.namespace, code.co_name, None, kept))
        count = 0
        for value in part.stack_values():
            if value not in EMPTY:
                cg.load(value)
                count += 1
        if index + 1 < len(self.inner):
            self._load_inner(cg, index + 1)
            count += 1
        elif part.awaits:
            _load_pending(cg, part)
            count += 1
        for name in part.names:
            _load_local(cg, frame, name)
        cg.build("TUPLE", count + len(part.names))
        cg.call(3)


def _load_pending(cg: Writer, part: FramePart) -> None:
    """Push the rest of a callee that was awaited when the frame began."""
    assert part.frame.pending_call is not None
    cg.load_source(part.frame.pending_call.source)


def _load_local(cg: Writer, frame: Frame, name: str) -> None:
    """Push a local, from where it was when it was not looked at so far."""
    if frame.is_unread(name):
        assert isinstance(frame.locals, RootLocals)
        cg.load_source(frame.locals.source_of(name))
    else:
        cg.load(frame.locals[name])


def _enter_modes(cg: Writer, part: FramePart) -> None:
    """Enter again the modes whose `with` blocks are open: their exit methods are on the stack."""
    for value in part.frame.stack:
        owner: Value | None = getattr(value, "owner", None)
        if isinstance(owner, (ModeValue, BreakPolicyValue)) and owner.entered:
            cg.load(owner)
            cg.load_attr("__enter__")
            cg.call(0)
            cg.pop()
