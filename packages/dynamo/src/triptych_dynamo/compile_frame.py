"""From a frame to compiled code: attempts at tracing, cuts at graph breaks, emission.

`FrameCompiler.compile` is what a compiled callable calls on a miss. It traces the frame symbolically; where the trace
cannot go on, it starts again and stops there, so that the code before becomes one graph and the code behind a
continuation.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo import interpreter
from triptych_dynamo._eval_frame import Unhooked
from triptych_dynamo.emit.continuation import Layout, stack_name
from triptych_dynamo.emit.cut import Cut
from triptych_dynamo.emit.frame_exit import CodeShape, FrameCode, return_body, takes_list
from triptych_dynamo.errors import GraphBreakError, TracedException, TracerFault, Unsupported
from triptych_dynamo.interpreter.root_locals import RootLocals
from triptych_dynamo.sources import CellSource, LocalSource, Source
from triptych_dynamo.trace.modes import guard_modes, preserved_modes
from triptych_dynamo.trace.plan import CutHere, Plan
from triptych_dynamo.trace.trace import Trace
from triptych_dynamo.values.cells import CellValue
from triptych_dynamo.values.null import NULL
from triptych_dynamo.values.registry import load_families

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.bytecode import Instruction
    from triptych_dynamo.guards.facts import Guard
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.options import Options
    from triptych_dynamo.trace.shapes import Shapes
    from triptych_dynamo.values.base import Value

MAX_ATTEMPTS = 24

for _module in pkgutil.iter_modules(interpreter.__path__):
    if _module.name.startswith("ops_"):
        importlib.import_module(f"{interpreter.__name__}.{_module.name}")


@dataclass
class CompiledFrame:
    """The result of compiling one frame.

    Attributes:
        code: takes the frame's parameters positionally; None: the frame runs as it is.
        guards: the facts under which it is right.
        graph_module: the graph, or None when there is nothing to compute.
        break_reason: why the graph ends before the frame does.
        inputs: where the graph's placeholders are read.
    """

    code: CodeType | None
    guards: list[Guard] = field(default_factory=list)
    graph_module: fx.GraphModule | None = None
    break_reason: Unsupported | None = None
    inputs: dict[fx.Node, Source] = field(default_factory=dict)


class Attempt:
    """One attempt: a fresh trace of the frame.

    Args:
        layout: where the frame begins.
        function: the function that is called (globals, closure).
        arguments: the parameters' objects, in the order of the parameters.
    """

    def __init__(
        self,
        layout: Layout,
        function: FunctionType,
        arguments: dict[str, Any],
        options: Options,
        plan: Plan,
        shapes: Shapes,
    ) -> None:
        self.trace = Trace(options, plan, shapes)
        self.layout = layout
        self.function = function
        self.arguments = arguments

    def release(self) -> None:
        """Let go of the program's objects: the trace is full of cycles, and would keep them until these are found."""
        self.arguments = {}
        self.trace.release()

    def make_frame(self) -> Frame:
        """The root frame, filled as the layout says."""
        layout = self.layout
        local_objects = dict(self.arguments)
        stack_objects = {
            slot: local_objects.pop(stack_name(slot)) for slot, filled in enumerate(layout.stack) if filled
        }
        root_locals = RootLocals(local_objects)
        cells = {
            name: CellValue(obj=cell, source=CellSource(name))
            for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True)
        }
        frame = self.trace.new_frame(layout.origin, self.function.__globals__, root_locals, cells, None)
        root_locals.frame = frame
        for cell in cells.values():
            self.trace.remember(cell.obj, cell)
        frame.next_position = layout.position
        for slot, filled in enumerate(layout.stack):
            value = frame.wrap(stack_objects[slot], LocalSource(stack_name(slot))) if filled else NULL
            frame.push(value)
        return frame


class FrameCompiler:
    """Compiles frames.

    Args:
        options: options of the callable.
        compile_graph: the backend's part: gives the callable of a finished graph.
        resume: for a layout, the code that calls its continuation and returns the result.
    """

    def __init__(
        self,
        options: Options,
        compile_graph: Callable[[fx.GraphModule], Callable[..., Any]],
        resume: Callable[[Layout, bool], list[Instruction]],
    ) -> None:
        self.options = options
        self.compile_graph = compile_graph
        self.resume = resume

    def compile(
        self, layout: Layout, function: FunctionType, arguments: dict[str, Any], make_shapes: Callable[[], Shapes]
    ) -> CompiledFrame | None:
        """Trace and emit. None when the program raises: it has to run as it is, so that its own exception surfaces.

        Raises:
            GraphBreakError: with `fullgraph`, at the first graph break.
        """
        load_families()
        plan = Plan()
        for _ in range(MAX_ATTEMPTS):
            attempt = Attempt(layout, function, arguments, self.options, plan, make_shapes())
            try:
                return self._attempt(attempt, plan)
            except Unsupported as error:
                if self.options.fullgraph:
                    raise GraphBreakError(error) from error
                if not plan.learn(attempt.trace, error):
                    return CompiledFrame(None, list(attempt.trace.guards.values()), None, error)
            except TracedException:
                return None
            finally:
                attempt.release()
        return CompiledFrame(None, [], None, plan.reason)

    def _attempt(self, attempt: Attempt, plan: Plan) -> CompiledFrame:
        trace = attempt.trace
        with trace.active(), preserved_modes() as modes:
            guard_modes(trace, modes)
            frame = attempt.make_frame()
            trace.root = frame
            value, reason = _run_guarded(frame)
            trace.close_modes(modes)
            if reason is not None:
                return self._finish_cut(attempt, frame, reason)
            assert value is not None
            return self._finish_return(attempt, value)

    def _finish_return(self, attempt: Attempt, value: Value) -> CompiledFrame:
        shape = CodeShape.of(attempt.layout, makes_cells=False)
        return self._write(attempt, FrameCode(attempt.trace, shape, self.compile_graph), return_body(value), None)

    def _finish_cut(self, attempt: Attempt, frame: Frame, reason: Unsupported) -> CompiledFrame:
        shape = CodeShape.of(attempt.layout, makes_cells=True)
        is_root = not (attempt.layout.position or attempt.layout.stack)
        cut = Cut(frame, shape, lambda layout: self.resume(layout, is_root))
        writer = FrameCode(attempt.trace, shape, lambda module: unhooked(self.compile_graph(module)))
        return self._write(attempt, writer, cut.body, reason)

    def _write(
        self, attempt: Attempt, writer: FrameCode, body: Callable[..., None], reason: Unsupported | None
    ) -> CompiledFrame:
        code = writer.write(body)
        attempt.trace.finish_guards()
        guards, inputs = list(attempt.trace.guards.values()), dict(attempt.trace.graph.inputs)
        return CompiledFrame(code, guards, writer.graph_module, reason, inputs)


def _run_guarded(frame: Frame) -> tuple[Value | None, Unsupported | None]:
    """Run the root frame; what only a bug of the tracer raises becomes a `TracerFault` with the user's line."""
    trace = frame.trace
    try:
        return _run(frame)
    except (TracedException, Unsupported):
        raise
    except RecursionError as error:
        raise Unsupported("recursion", "the tracer ran out of stack") from error
    except Exception as error:
        place = trace.last_line or trace.user_line()
        raise TracerFault(f"the tracer failed at {place}: {type(error).__name__}: {error}") from error


def _run(frame: Frame) -> tuple[Value | None, Unsupported | None]:
    """Run the root frame: its value, or why the plan cut it."""
    try:
        return frame.run(), None
    except CutHere as cut:
        return None, cut.reason


def unhooked(compiled: Callable[..., Any]) -> Any:
    """A graph's callable for code that runs under the hook: what it runs is none of the region's frames."""
    wrapped = Unhooked(compiled)
    if takes_list(compiled):
        wrapped._boxed_call = True
    return wrapped
