"""Frames that begin as a layout says: a whole function, or the rest of one behind a graph break."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.emit.continuation import Layout, Slot, stack_name
from triptych_dynamo.interpreter.root_locals import RootLocals
from triptych_dynamo.sources import AttrSource, CellSource, ItemSource, LocalSource, Source
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.null import HANDLING, NULL, OFFSET

if TYPE_CHECKING:
    from triptych_dynamo.emit.trampoline import Resume
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value


class Entry:
    """What a frame is filled from: objects by parameter name, and where the running program reads them."""

    def __init__(self, layout: Layout, function: FunctionType, objects: dict[str, Any]) -> None:
        self.layout = layout
        self.function = function
        self.objects = dict(objects)

    def source_of(self, name: str) -> Source:
        """Where a parameter is read."""
        return LocalSource(name)

    def cell_source(self, index: int, name: str) -> Source:
        """Where the `index`-th cell of the closure is read."""
        return CellSource(name)

    def fill(self, trace: Trace, parent: Frame | None) -> Frame:
        """The frame, ready to run."""
        layout, function = self.layout, self.function
        local_objects = dict(self.objects)
        for slot in range(len(layout.stack)):
            local_objects.pop(stack_name(slot), None)
        root_locals = RootLocals(local_objects, self.source_of)
        frame = trace.new_frame(layout.origin, function.__globals__, root_locals, {}, parent)
        root_locals.frame = frame
        trace.held += [self.objects, root_locals.unread]
        names = function.__code__.co_freevars
        for index, (name, cell) in enumerate(zip(names, function.__closure__ or (), strict=True)):
            value = frame.wrap(cell, self.cell_source(index, name))
            assert isinstance(value, CellValue)
            frame.cells[name] = value
        frame.next_position = layout.position
        self._fill_stack(frame)
        return frame

    def _fill_stack(self, frame: Frame) -> None:
        layout = self.layout
        for slot, kind in enumerate(layout.stack):
            name = stack_name(slot)
            if layout.awaits is not None and slot == len(layout.stack) - 1:
                frame.pending_call = PendingCall(self.objects[name], self.source_of(name))
                return
            if not kind.is_carried:
                frame.push(NULL if kind is Slot.NULL else OFFSET)
                continue
            value = frame.wrap(self.objects[name], self.source_of(name))
            if kind is Slot.HANDLING:
                frame.handled.append(value)
                value = HANDLING
            frame.push(value)


class InnerEntry(Entry):
    """The rest of a callee, which a `Resume` at `source` holds."""

    def __init__(self, resume: Resume, source: Source) -> None:
        function: Any = resume.function
        self.function_source: Source = AttrSource(source, "function")
        if not isinstance(function, FunctionType):
            function = function.fn
            self.function_source = AttrSource(self.function_source, "fn")
        self.args_source = AttrSource(source, "args")
        names = resume.layout.parameters
        self.places = {name: index for index, name in enumerate(names)}
        super().__init__(resume.layout, function, dict(zip(names, resume.args, strict=True)))

    def source_of(self, name: str) -> Source:
        return ItemSource(self.args_source, self.places[name])

    def cell_source(self, index: int, name: str) -> Source:
        return ItemSource(AttrSource(self.function_source, "__closure__"), index)

    def fill(self, trace: Trace, parent: Frame | None) -> Frame:
        trace.guard("is", AttrSource(self.function_source, "__globals__"), self.function.__globals__)
        return super().fill(trace, parent)


@dataclass(frozen=True)
class PendingCall:
    """A call that is under way when a frame begins: `resume` is the rest of the callee, read at `source`."""

    resume: Resume
    source: Source

    def run(self, frame: Frame) -> Value:
        """Run the rest of the callee inside the trace."""
        inner = InnerEntry(self.resume, self.source).fill(frame.trace, frame)
        frame.trace.follow(frame, inner)
        return inner.run()
