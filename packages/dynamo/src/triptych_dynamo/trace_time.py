"""Code of the program that runs while the program is traced: to look at the trace from inside it.

`comptime(look)` in a compiled function calls `look` with a `ComptimeContext` at each trace of that line, and does
nothing when the program runs. A trace begins anew behind a graph break, so a line may be traced more than once.

Example:
    >>> def fn(x):
    ...     y = x * 2
    ...     comptime.print_graph()
    ...     comptime(lambda ctx: print(ctx.get_local("y").as_fake().shape))
    ...     return y
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, TextIO

import torch
from torch import fx

from triptych_dynamo.steering import mark
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.callables.functions import FunctionValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


class ComptimeVar:
    """What the tracer knows of one object of the program."""

    def __init__(self, frame: Frame, value: Value) -> None:
        self._frame = frame
        self.value = value

    def python_type(self) -> type:
        """Its type."""
        return self.value.python_type()

    def is_python_constant(self) -> bool:
        """Whether it is known while tracing."""
        return self.value.is_constant()

    def as_python_constant(self) -> Any:
        """The object itself; an error where it is not known."""
        return self.value.as_constant()

    def is_proxy(self) -> bool:
        """Whether a node of the graph computes it."""
        return getattr(self.value, "node", None) is not None

    def as_proxy(self) -> fx.Node:
        """The node of the graph that computes it."""
        node = getattr(self.value, "node", None)
        if node is None:
            raise AssertionError(f"{self.value!r} is not computed by the graph")
        return node  # type: ignore[no-any-return]

    def as_fake(self) -> Any:
        """The fake tensor or symbolic number that stands for it."""
        return self.as_proxy().meta["val"]

    def size(self, dim: int | None = None) -> Any:
        """Size of a tensor, of one dimension where given."""
        shape = self.as_fake().shape
        return shape if dim is None else shape[dim]

    def is_dynamic(self) -> bool:
        """Whether it is a number that changes, or a tensor with such a size."""
        if self.value.is_constant():
            return False
        if not self.is_proxy():
            return hasattr(self.value, "specialize")
        found = self.as_fake()
        return any(map(_changes, found.shape if isinstance(found, torch.Tensor) else (found,)))

    def force_static(self) -> None:
        """Make a changing number, or the sizes of a tensor, those of this call, guarded."""
        if hasattr(self.value, "specialize"):
            self.value.specialize(self._frame)
        elif self.is_proxy() and isinstance(self.as_fake(), torch.Tensor):
            for size in self.as_fake().shape:
                if isinstance(size, torch.SymInt):
                    self._frame.trace.shapes.specialize(self._frame, size)

    def __repr__(self) -> str:
        if self.value.is_constant():
            return builtins.repr(self.value.as_constant())
        return f"{self.as_proxy().name}: {self.as_fake()}" if self.is_proxy() else builtins.repr(self.value)


def _changes(size: Any) -> bool:
    return isinstance(size, (torch.SymInt, torch.SymFloat)) and not size.node.expr.is_number


class ComptimeContext:
    """The trace at one line; `print_` methods write to `file`, standard output when None."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def _frame_above(self, stacklevel: int) -> Frame:
        frame = self._frame
        for _ in range(stacklevel):
            if frame.parent is None:
                raise ValueError(f"the trace has no frame {stacklevel} above this one")
            frame = frame.parent
        return frame

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        """A variable of the frame, or of a caller."""
        frame = self._frame_above(stacklevel)
        value = frame.cells[name].read(frame) if name in frame.cells else frame.locals[name]
        if value is None:
            raise NameError(f"{name} is not set")
        return ComptimeVar(frame, value)

    def graph(self) -> fx.Graph:
        """The graph so far: not a copy."""
        return self._frame.trace.graph.graph

    def assert_static(self, value: ComptimeVar) -> None:
        """An error unless the number, or every size of the tensor, is the same in every call."""
        if value.is_dynamic():
            raise AssertionError(f"{value!r} changes between calls")

    def print(self, value: Any, *, file: TextIO | None = None) -> None:
        """Show a value."""
        builtins.print(value, file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        """Show the graph so far."""
        graph = self.graph()
        builtins.print(graph.python_code("self", verbose=verbose).src if verbose else graph, file=file)

    def print_locals(self, *, stacklevel: int = 0, file: TextIO | None = None) -> None:
        """Show the variables of the frame."""
        frame = self._frame_above(stacklevel)
        for name in frame.bound_locals():
            builtins.print(f"{name} = {self.get_local(name, stacklevel=stacklevel)!r}", file=file)

    def print_value_stack(self, *, stacklevel: int = 0, file: TextIO | None = None) -> None:
        """Show what the frame's value stack holds."""
        frame = self._frame_above(stacklevel)
        for value in frame.stack:
            builtins.print(f"- {ComptimeVar(frame, value)!r}", file=file)

    def print_bt(self, *, stacklevel: int = 0, file: TextIO | None = None) -> None:
        """Show the calls that lead here, outermost first."""
        lines = self._frame.trace.user_stack()
        for line in lines[: len(lines) - stacklevel]:
            builtins.print(f"  {line}", file=file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        """Show the facts that the trace relies on so far."""
        for guard in self._frame.trace.guards.values():
            builtins.print(f"- {guard}", file=file)

    def print_disas(self, *, stacklevel: int = 0, file: TextIO | None = None) -> None:
        """Show the bytecode of the frame; the arrow is at the line that runs."""
        frame = self._frame_above(stacklevel)
        builtins.print(f"{frame.code.co_qualname}, at line {frame.line_number()}", file=file)
        dis.dis(frame.code, file=file or sys.stdout)


class _Comptime:
    """`comptime(look)`, and a name for each thing to look at."""

    @staticmethod
    def __call__(look: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] | None = None) -> None:
        """Call `look` while tracing; `fallback_fn`, if given, when the program runs uncompiled."""
        if fallback_fn is not None:
            fallback_fn()

    @staticmethod
    def print(value: Any) -> None:
        """Show what the tracer knows of a value; uncompiled: print it."""
        builtins.print(value)

    @staticmethod
    def print_graph() -> None:
        """Show the graph so far."""

    @staticmethod
    def print_locals(*, stacklevel: int = 0) -> None:
        """Show the variables of the frame."""

    @staticmethod
    def print_value_stack(*, stacklevel: int = 0) -> None:
        """Show what the value stack holds."""

    @staticmethod
    def print_bt(*, stacklevel: int = 0) -> None:
        """Show the calls that lead here."""

    @staticmethod
    def print_guards() -> None:
        """Show the facts that the trace relies on so far."""

    @staticmethod
    def print_disas(*, stacklevel: int = 0) -> None:
        """Show the bytecode of the frame."""

    @staticmethod
    def assert_static(value: Any) -> None:
        """An error unless the number, or every size of the tensor, is the same in every call."""

    @staticmethod
    def force_static(value: Any) -> None:
        """Make a changing number, or the sizes of a tensor, those of this call."""

    @staticmethod
    def breakpoint() -> None:
        """Stop in the debugger while tracing; `ctx` is the context."""


def _call(ctx: ComptimeContext, frame: Frame, look: Value, fallback_fn: Value | None = None) -> None:
    _function_of(frame, look)(ctx)


def _function_of(frame: Frame, value: Value) -> Any:
    """The function itself; one that the program made closes over what is known while tracing."""
    if not isinstance(value, FunctionValue) or value.obj is not None:
        return value.as_constant()
    defaults = tuple(item.as_constant() for item in value.defaults)
    cells = tuple(_cell_of(frame, cell) for cell in value.closure)
    return FunctionType(value.code, value.namespace, value.code.co_name, defaults, cells)


def _cell_of(frame: Frame, value: CellValue) -> CellType:
    if value.obj is not None:
        return value.obj
    content = value.read(frame)
    return CellType() if content is None else CellType(content.as_constant())


def _stop(ctx: ComptimeContext, frame: Frame) -> None:
    builtins.breakpoint()  # noqa: T100  # what the program asked for


def _shows(name: str) -> Callable[..., None]:
    def run(ctx: ComptimeContext, frame: Frame, **options: Value) -> None:
        getattr(ctx, name)(**{key: value.as_constant() for key, value in options.items()})

    return run


_SHOWN = ("print_graph", "print_locals", "print_value_stack", "print_bt", "print_guards", "print_disas")
_MEANINGS: dict[str, Callable[..., None]] = {
    **{name: _shows(name) for name in _SHOWN},
    "print": lambda ctx, frame, value: ctx.print(ComptimeVar(frame, value)),
    "assert_static": lambda ctx, frame, value: ctx.assert_static(ComptimeVar(frame, value)),
    "force_static": lambda ctx, frame, value: ComptimeVar(frame, value).force_static(),
    "breakpoint": _stop,
}

comptime = _Comptime()
mark(comptime, "comptime", _call)
for _name, _meaning in _MEANINGS.items():
    mark(getattr(comptime, _name), "comptime", _meaning)
