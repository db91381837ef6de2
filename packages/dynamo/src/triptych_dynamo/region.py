"""`CompiledRegion`: everything that belongs to one compiled callable: its frames, continuations, histories and limits.

The C layer calls `miss` (the callable's own frame) and `frame_miss` (frames reached under it that were not inlined)
when no entry fits; both compile the frame and answer with an entry.
"""

from __future__ import annotations

import importlib
import inspect
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import fx

from triptych_dynamo import logs
from triptych_dynamo._eval_frame import Entry, Unhooked
from triptych_dynamo._torch_compat import saved_tensor_hooks_active
from triptych_dynamo.compile_frame import CompiledFrame, FrameCompiler
from triptych_dynamo.emit.continuation import Layout
from triptych_dynamo.emit.continuations import Continuations
from triptych_dynamo.emit.frame_exit import parameters_of
from triptych_dynamo.errors import TracerFault, Unsupported
from triptych_dynamo.frame_logs import log_frame
from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.filters import filtered
from triptych_dynamo.guards.program import compile_guards
from triptych_dynamo.guards.python_check import check
from triptych_dynamo.hooks import Hooks
from triptych_dynamo.profiles import frame_name
from triptych_dynamo.recompiles import FrameState, may_compile, recompile_reason
from triptych_dynamo.shape_specs import declared
from triptych_dynamo.sources import LocalSource
from triptych_dynamo.steering import skip_reason
from triptych_dynamo.trace.modes import under_active_modes
from triptych_dynamo.trace.shapes import Shapes
from triptych_dynamo.trace_rules import is_skipped

if TYPE_CHECKING:
    from triptych_dynamo.region_handle import RegionHandle

SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

_IMPORTS: CodeType = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]


@dataclass
class FrameRecord:
    """What became of one compile: for reports.

    Attributes:
        name: qualified name of the frame's code, and where in it the compiled part begins.
        graph: the captured graph or None.
        guards: its facts.
        break_reason: why it ended early, or None.
        seconds: time of the compile, backend included.
        recompile_reason: the guard that did not hold for the entries before, or "".
        raises: the frame runs as it is because it raises an exception.
    """

    name: str
    graph: fx.GraphModule | None
    guards: list[Guard]
    break_reason: Unsupported | None
    seconds: float
    recompile_reason: str = ""
    raises: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the frame to compile."""
        return self.graph is None and self.break_reason is None and not self.raises


logs.configure()


class CompiledRegion:
    """Compiles the frames of one callable; `handle` is what the callable knows it by."""

    def __init__(self, handle: RegionHandle) -> None:
        self.handle = handle
        self.backend = handle.backend
        self.options = handle.options
        options = handle.options
        self._declared = declared(
            options.shapes_spec, options.dynamic_sources, options.unbacked_sources, options.dynamic_values
        )
        self.hooks = handle.hooks or Hooks()
        self.records: list[FrameRecord] = []
        self._states: dict[Layout, FrameState] = {}
        self.continuations = Continuations(handle.callable_for)
        self._layouts = self.continuations.layouts
        self._own_codes: set[CodeType] = set()  # code written for frames inside a cut
        self._failures: set[str] = set()  # of graphs at run time, as text
        self._lock = threading.RLock()
        self._waiting = 0  # threads that compile or wait for their turn
        self._made: list[tuple[CodeType, list[Guard], Entry]] = []  # since nobody waited last

    # -- misses ------------------------------------------------------------------------------------------------------
    def miss(self, function: FunctionType, arguments: tuple[Any, ...]) -> Entry | None:
        """The callable itself has no entry for these arguments."""
        if function.__code__.co_flags & SUSPENDS:
            return None
        if under_active_modes():
            return None
        is_continuation = function.__code__ in self._layouts
        if is_continuation and saved_tensor_hooks_active():
            return None
        return self._in_turn(function, arguments, under_the_hook=is_continuation)

    def observe(self, function: FunctionType, arguments: tuple[Any, ...]) -> None:
        """Note the sizes and numbers of a call that runs eagerly: what differs at the next call becomes symbolic."""
        layout = self._layouts.get(function.__code__) or Layout(function.__code__, 0)
        history = self._state(layout).history
        for name, value in zip(parameters_of(function.__code__), arguments, strict=True):
            history.note(LocalSource(name), value)

    def frame_miss(self, function: FunctionType, arguments: tuple[Any, ...]) -> Entry | bool | None:
        """A frame under the callable has no entry: compile it, let it run this time (False), or always (None)."""
        code = function.__code__
        if code is _IMPORTS:  # what a module does when it is imported is done once
            return Entry(None, Unhooked(function))
        is_continuation = code in self._layouts
        if not is_continuation and (self.options.fullgraph or code in self._own_codes or is_skipped(code)):
            return None
        if under_active_modes() or saved_tensor_hooks_active():
            return False
        entry = self._in_turn(function, arguments, under_the_hook=True)
        if entry is None:
            return False
        if not is_continuation and entry.info is not None and entry.info.is_empty:
            return None
        return entry

    def _in_turn(
        self, function: FunctionType, arguments: tuple[Any, ...], *, under_the_hook: bool = False
    ) -> Entry | None:
        """The entry that another thread made while this one waited, if it fits; else a new one."""
        before = len(self._made)
        self._waiting += 1
        try:
            with self._lock:
                return self._made_meanwhile(before, function, arguments) or self._entry(
                    function, arguments, under_the_hook
                )
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._made.clear()

    def _made_meanwhile(self, before: int, function: FunctionType, arguments: tuple[Any, ...]) -> Entry | None:
        for code, guards, entry in self._made[before:]:
            if code is function.__code__:
                named = dict(zip(parameters_of(code), arguments, strict=True))
                if check(guards, named, function) is None:
                    return entry
        return None

    def _entry(self, function: FunctionType, arguments: tuple[Any, ...], under_the_hook: bool) -> Entry | None:
        if skip_reason(function):
            return Entry(compile_guards([], function.__code__), function.__code__, (), True, None)
        layout = self._layouts.get(function.__code__) or Layout(function.__code__, 0)
        if layout.plain:
            return Entry(compile_guards([], function.__code__), function.__code__, (), True, None)
        state = self._state(layout)
        named = dict(zip(parameters_of(function.__code__), arguments, strict=True))
        reason = recompile_reason(state, named, function)
        if not may_compile(state, self.options, named, function, reason):
            return None
        started = time.perf_counter()
        result = self._compile(layout, function, named, state)
        self._keep_profile(layout, state)
        if result.raises and not state.may_remember_error(self.options):
            return None
        if under_the_hook:  # hooks on saved tensors that are installed in the callable would see what graphs save
            result.guards.append(Guard("mode", None, ("saved_tensor_hooks", False)))
        result.guards = filtered(result.guards, self.options.guard_filter_fn, named, function)
        record = FrameRecord(
            f"{layout.origin.co_qualname}+{layout.position}",
            result.graph_module,
            result.guards,
            result.break_reason,
            time.perf_counter() - started,
            reason,
            result.raises,
        )
        if result.raises:
            return Entry(compile_guards(result.guards, function.__code__), function.__code__, (), False, record)
        return self._make_entry(state, function, result, record)

    def _state(self, layout: Layout) -> FrameState:
        state = self._states.get(layout)
        if state is None:
            state = self._states[layout] = FrameState()
            if self.options.profile is not None:
                state.history.recall(self.options.profile.load(frame_name(layout)))
                state.kept = state.history.varied()
        return state

    def _keep_profile(self, layout: Layout, state: FrameState) -> None:
        if self.options.profile is not None:
            varied = state.history.varied()
            if varied != state.kept:
                state.kept = varied
                self.options.profile.save(frame_name(layout), varied)

    def _compile(
        self, layout: Layout, function: FunctionType, named: dict[str, Any], state: FrameState
    ) -> CompiledFrame:
        """Compile a frame; a fault of the tracer is an error or a warning, as the options say."""
        try:
            return self._compiler(function).compile(layout, function, named, lambda: self._shapes(state))
        except TracerFault as fault:
            if self.options.on_error != "eager":
                raise
            first, _, _ = str(fault).partition("\n")
            warnings.warn(f"{first}; the frame runs eagerly", stacklevel=4)
            return CompiledFrame(None)

    def _make_entry(
        self, state: FrameState, function: FunctionType, result: CompiledFrame, record: FrameRecord
    ) -> Entry:
        self.records.append(record)
        self._tell(function, result, record)
        state.guards.append(result.guards)
        program = compile_guards(result.guards, function.__code__)
        if result.code is None:
            entry = Entry(program, function.__code__, (), True, record)
        else:
            entry = Entry(program, result.code, result.cells, result.break_reason is not None, record)
        self._made.append((function.__code__, result.guards, entry))
        return entry

    def _tell(self, function: FunctionType, result: CompiledFrame, record: FrameRecord) -> None:
        log_frame(function.__code__, result, record)
        hooks = self.hooks
        if hooks.on_guards:
            hooks.on_guards(result.guards)
        if hooks.on_bytecode and result.code is not None:
            hooks.on_bytecode(function.__code__, result.code)
        if hooks.on_recompile and record.recompile_reason:
            hooks.on_recompile(record.recompile_reason)
        if hooks.on_break and result.break_reason is not None:
            hooks.on_break(result.break_reason)

    def _shapes(self, state: FrameState) -> Shapes:
        return Shapes(self.options.dynamic, state.history, self._declared)

    # -- graphs and continuations ------------------------------------------------------------------------------------
    def _compiler(self, function: FunctionType) -> FrameCompiler:
        resume, own_code = self.continuations.resume, self._own_codes.add
        return FrameCompiler(self.options, self._compile_graph, resume, own_code, self._failed)

    def _compile_graph(self, module: fx.GraphModule) -> Callable[..., Any]:
        inputs = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
        if self.hooks.on_graph:
            self.hooks.on_graph(module, inputs)
        compiled = self.backend(module, inputs)
        if not callable(compiled):
            raise TypeError(f"the backend returned {type(compiled).__name__}, not a callable")
        return compiled

    def _failed(self, error: Exception) -> None:
        """A compiled graph raised in a call that the program itself got through."""
        if self.options.on_error != "eager":
            raise error
        text = f"{type(error).__name__}: {error}"
        if self.hooks.on_failure:
            self.hooks.on_failure(text)
        if text not in self._failures:
            self._failures.add(text)
            warnings.warn(f"a compiled graph failed where the program does not; it ran eagerly: {text}", stacklevel=2)

    def forget(self) -> None:
        """Forget what was compiled (the callables forget their entries themselves)."""
        self._states.clear()
        self.records.clear()
