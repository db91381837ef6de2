"""From a frame to compiled code: attempts at tracing, cuts at graph breaks, emission.

`FrameCompiler.compile` is what a compiled callable calls on a miss. It traces the frame symbolically; where the trace
cannot go on, it starts again and stops there, so that the code before becomes one graph and the code behind a
continuation.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo import interpreter
from triptych_dynamo._eval_frame import Unhooked
from triptych_dynamo.emit.continuation import Layout
from triptych_dynamo.emit.cut import Cut
from triptych_dynamo.emit.ending import NoEnding, ending_of
from triptych_dynamo.emit.frame_exit import CodeShape, FrameCode, return_body, takes_list
from triptych_dynamo.emit.refused_rest import refused_rest
from triptych_dynamo.errors import (
    ConstraintViolationError,
    GraphBreakError,
    RestartTrace,
    TracedException,
    Unsupported,
)
from triptych_dynamo.guards.facts import Guard, PythonFact
from triptych_dynamo.interpreter.entry import Entry
from triptych_dynamo.sources import PinnedSource
from triptych_dynamo.steering import BREAKS_ARE_ERRORS
from triptych_dynamo.trace.faults import FaultsNamed
from triptych_dynamo.trace.modes import guard_modes, preserved_modes
from triptych_dynamo.trace.plan import CutHere, Plan
from triptych_dynamo.trace.trace import Trace
from triptych_dynamo.values.registry import load_families

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.bytecode import Instruction
    from triptych_dynamo.emit.ending import Ending
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.options import Options
    from triptych_dynamo.sources import Source
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
        raises: the program raises an exception: it runs as it is, so that its own surfaces.
        guards: the facts under which it is right.
        graph_module: the graph, or None when there is nothing to compute.
        break_reason: why the graph ends before the frame does.
        inputs: where the graph's placeholders are read.
        cells: what the code's closure has behind the frame's own.
        effects: objects that a call changes besides tensors, as text.
        result: of a graph to export: what the frame returns, as data, or the reason why it has no such form.
    """

    code: CodeType | None
    guards: list[Guard] = field(default_factory=list)
    graph_module: fx.GraphModule | None = None
    break_reason: Unsupported | None = None
    inputs: dict[fx.Node, Source] = field(default_factory=dict)
    cells: tuple[CellType, ...] = ()
    effects: tuple[str, ...] = ()
    raises: bool = False
    result: Ending | str = ""


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
        frame = Entry(self.layout, self.function, self.arguments).fill(self.trace, None)
        self.trace.root = frame
        self.trace.plan.begin(frame)
        return frame


class FrameCompiler:
    """Compiles frames.

    Args:
        options: options of the callable.
        compile_graph: the backend's part: gives the callable of a finished graph.
        resume: for a frame of a cut, a layout of it, whether that place awaits a callee, and whether the frame is a
            root that was called as a whole: code that hands what is alive to the continuation and returns.
        own_code: told each code object made for a frame inside the root, which is not to be compiled.
        failed: told what a graph raised in a call that the program itself got through.
    """

    def __init__(
        self,
        options: Options,
        compile_graph: Callable[[fx.GraphModule], Callable[..., Any]],
        resume: Callable[[Frame, Layout, bool, bool], list[Instruction]],
        own_code: Callable[[CodeType], None] = lambda code: None,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.options = options
        self.compile_graph = compile_graph
        self.resume = resume
        self.own_code = own_code
        self.failed = failed

    def compile(
        self, layout: Layout, function: FunctionType, arguments: dict[str, Any], make_shapes: Callable[[], Shapes]
    ) -> CompiledFrame:
        """Trace and emit.

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
                error.__traceback__ = error.__cause__ = error.__context__ = None  # they hold the trace
                if self._is_error(error, attempt.trace):
                    if layout.is_start:
                        raise GraphBreakError(error) from error
                    plan.refused = plan.refused or error
                learned = plan.learn(attempt.trace, error)
                error.forget_frames()
                if not learned:
                    if plan.refused is not None:
                        return _refused(layout, plan.refused, attempt.trace)
                    return CompiledFrame(None, list(attempt.trace.guards.values()), None, error)
            except RestartTrace:
                continue
            except TracedException:
                return CompiledFrame(None, _guards_of_error(attempt.trace), raises=True)
            finally:
                attempt.release()
        return CompiledFrame(None, [], None, plan.reason)

    def _is_error(self, error: Unsupported, trace: Trace) -> bool:
        """Whether a break is an error, where it happened."""
        policy = trace.breaks_are_errors
        return self.options.fullgraph if policy is None else policy

    def _attempt(self, attempt: Attempt, plan: Plan) -> CompiledFrame:
        trace = attempt.trace
        with trace.active(), preserved_modes() as modes:
            guard_modes(trace, modes)
            frame = attempt.make_frame()
            value, cut = _run_guarded(frame)
            trace.close_modes(modes)
            if cut is not None:
                return self._finish_cut(attempt, cut)
            assert value is not None
            return self._finish_return(attempt, value)

    def _finish_return(self, attempt: Attempt, value: Value) -> CompiledFrame:
        shape = CodeShape.of(attempt.layout, makes_cells=False)
        writer = FrameCode(attempt.trace, shape, self.compile_graph, self.failed)
        frame = self._write(attempt, writer, return_body(value), None)
        if self.options.exporting:
            try:
                frame.result = ending_of(attempt.trace, value)
            except NoEnding as reason:
                frame.result = str(reason)
        return frame

    def _finish_cut(self, attempt: Attempt, cut: CutHere) -> CompiledFrame:
        shape = CodeShape.of(attempt.layout, makes_cells=True)
        root = cut.frames[0]

        def resume(frame: Frame, layout: Layout, awaits: bool) -> list[Instruction]:
            if cut.reason.rest_is_plain and frame is cut.frames[-1]:
                layout = replace(layout, plain=True)
            return self.resume(frame, layout, awaits, frame is root and attempt.layout.is_start)

        refused = attempt.trace.plan.refused
        ending = Cut(cut.frames, shape, resume, self.own_code, refused)
        writer = FrameCode(attempt.trace, shape, lambda module: unhooked(self.compile_graph(module)), self.failed)
        frame = self._write(attempt, writer, ending.body, cut.reason if refused is None else None)
        if refused is not None:
            frame.guards.append(_policy_guard())
        return frame

    def _write(
        self, attempt: Attempt, writer: FrameCode, body: Callable[..., None], reason: Unsupported | None
    ) -> CompiledFrame:
        try:
            code, cells = writer.write(body)
        except (Unsupported, RestartTrace, ConstraintViolationError):
            raise
        except RecursionError as error:
            raise Unsupported("recursion", "objects are nested too deep to be written out") from error
        except Exception as error:  # the backend could not do with symbolic sizes, perhaps
            attempt.trace.shapes.give_in(error)
            raise
        attempt.trace.finish_guards()
        guards, inputs = list(attempt.trace.guards.values()), dict(attempt.trace.graph.inputs)
        effects = tuple(str(getattr(value, "source", None) or value) for value in attempt.trace.effects.changed())
        return CompiledFrame(code, guards, writer.graph_module, reason, inputs, cells, effects)


def _refused(layout: Layout, error: Unsupported, trace: Trace) -> CompiledFrame:
    """The rest of a frame that must not break and does, for as long as breaks are errors."""
    error.forget_frames()
    code, cells = refused_rest(layout, error)
    return CompiledFrame(code, [*_guards_of_error(trace), _policy_guard()], cells=cells)


def _policy_guard() -> Guard:
    """Breaks mean what they mean now."""
    variable, policy = BREAKS_ARE_ERRORS, BREAKS_ARE_ERRORS.get()
    fact = PythonFact(lambda found: found.get() is policy, f"{variable.name}.get() is {policy}")
    return Guard("python", PinnedSource(variable, variable.name), fact)


def _guards_of_error(trace: Trace) -> list[Guard]:
    """The facts under which the program raises. Those that a mark contradicts are left out: the program's error goes
    first, and it runs as it is in any case.
    """
    with contextlib.suppress(ConstraintViolationError):
        trace.finish_guards()
    return list(trace.guards.values())


def _run_guarded(frame: Frame) -> tuple[Value | None, CutHere | None]:
    """Run the root frame; what only a bug of the tracer raises becomes a `TracerFault` with the user's line."""
    try:
        with FaultsNamed(frame.trace):
            return _run(frame)
    except RecursionError as error:
        raise Unsupported("recursion", "the tracer ran out of stack") from error


def _run(frame: Frame) -> tuple[Value | None, CutHere | None]:
    """Run the root frame: its value, or where the plan cut it."""
    try:
        return frame.run(), None
    except CutHere as cut:
        return None, cut.with_traceback(None)  # with it, the cut and the frames that hold it would be a cycle


def unhooked(compiled: Callable[..., Any]) -> Any:
    """A graph's callable for code that runs under the hook: what it runs is none of the region's frames."""
    wrapped = Unhooked(compiled)
    if takes_list(compiled):
        wrapped._boxed_call = True
    return wrapped
