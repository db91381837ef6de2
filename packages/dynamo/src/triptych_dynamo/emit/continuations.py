"""The continuations of one compiled region: made once for each place, compiled when they first run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.bytecode import Instruction, build
from triptych_dynamo.emit.continuation import Continuation, Layout, free_names_of
from triptych_dynamo.emit.kept_objects import FORGET_LOCALS
from triptych_dynamo.emit.trampoline import Resume, finish

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class Continuations:
    """Continuations by layout.

    Args:
        callable_for: gives the compiled callable of a function.
    """

    def __init__(self, callable_for: Callable[[FunctionType], Callable[..., Any]]) -> None:
        self.callable_for = callable_for
        self.layouts: dict[CodeType, Layout] = {}
        self._made: dict[Layout, Continuation] = {}
        self._targets: dict[tuple[Layout, int], Callable[..., Any]] = {}

    def of(self, layout: Layout) -> Continuation:
        """The continuation of a place."""
        made = self._made.get(layout)
        if made is None:
            made = self._made[layout] = Continuation(layout, len(self._made))
            self.layouts[made.code] = made.layout
        return made

    def target(self, layout: Layout, namespace: dict[str, Any]) -> Callable[..., Any]:
        """What runs the continuation of a place without closure."""
        key = (layout, id(namespace))
        if key not in self._targets:
            self._targets[key] = self.callable_for(FunctionType(self.of(layout).code, namespace))
        return self._targets[key]

    # -- code --------------------------------------------------------------------------------------------------------
    def resume(self, frame: Frame, layout: Layout, awaits: bool, is_root: bool) -> list[Instruction]:
        """Code that hands what is alive in `frame` to the continuation of `layout`, and returns.

        Args:
            awaits: the top of the stack is a callee's value or the rest of it.
            is_root: the frame was called as a whole: it returns its result; else a `Resume`.
        """
        namespace = frame.scope.namespace
        free = free_names_of(layout.origin)
        code = build.load_const(finish) if is_root else []
        if awaits:
            code += build.load_const(AwaitedPlace(self, layout, namespace))
            code += _cells(free)
            count = 2
        else:
            code += [*build.load_const(Resume), *build.load_const(self.of(layout).layout)]
            if free:
                code += [*_cells(free), *build.make_function(self.of(layout).code, closure=True)]
            else:
                code += build.load_const(self.target(layout, namespace))
            count = 3
        for name in layout.parameters:
            code += build.load_set_fast(name)
        code += [*build.build("TUPLE", len(layout.parameters)), *build.call(count)]
        if is_root:  # its frame stays until the rest has run, and must not keep what the rest no longer needs
            code += [build.one("NOP", FORGET_LOCALS), *build.call(1)]
        else:
            code += _forget(layout)
        return [*code, *build.return_value()]


def _cells(names: tuple[str, ...]) -> list[Instruction]:
    """`-> tuple of cells`."""
    return [*(row for name in names for row in build.load_cell(name)), *build.build("TUPLE", len(names))]


def _forget(layout: Layout) -> list[Instruction]:
    """What was handed on leaves the locals: an exception's traceback may lead back to this frame, and keep it all."""
    return [row for name in layout.parameters for row in (*build.load_const(None), *build.store_fast(name))]


class AwaitedPlace:
    """A place at which a callee was under way: what its call gave decides how the frame goes on.

    Called with the frame's cells and what is alive; the callee's part is the last stack item. Gives the `Resume`.
    """

    def __init__(self, owner: Continuations, layout: Layout, namespace: dict[str, Any]) -> None:
        self.owner = owner
        self.layout = layout
        self.namespace = namespace
        self.index = sum(map(bool, layout.stack)) - 1
        self._known: dict[int, Layout] = {}  # by id of the callee's layout; continuations keep those alive

    def __call__(self, cells: tuple[CellType, ...], args: tuple[Any, ...]) -> Resume:
        rest = args[self.index]
        awaited = rest.layout if type(rest) is Resume else None
        layout = self._known.get(id(awaited))
        if layout is None:
            layout = self.layout.behind() if awaited is None else self._awaiting(awaited)
            layout = self._known[id(awaited)] = self.owner.of(layout).layout
        if not cells:
            return Resume(layout, self.owner.target(layout, self.namespace), args)
        code = self.owner.of(layout).code
        return Resume(layout, FunctionType(code, self.namespace, code.co_name, None, cells), args)

    def _awaiting(self, awaited: Layout) -> Layout:
        """This place with the rest of the callee; where that is not to be compiled, neither is what waits for it."""
        return replace(self.layout, awaits=awaited, plain=awaited.plain)
