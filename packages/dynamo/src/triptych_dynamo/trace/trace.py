"""`Trace`: everything that belongs to one attempt at capturing one root frame."""

from __future__ import annotations

import linecache
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import saved_tensor_hooks_message
from triptych_dynamo.errors import TracedException, Unsupported
from triptych_dynamo.guards.facts import KINDS, Guard
from triptych_dynamo.interpreter.frame import Frame
from triptych_dynamo.logs import logger
from triptych_dynamo.sources import PinnedSource, Source
from triptych_dynamo.steering import BREAKS_ARE_ERRORS
from triptych_dynamo.trace.attributes import TensorAttributes
from triptych_dynamo.trace.autograd_facts import relax_autograd
from triptych_dynamo.trace.classes import MadeClasses
from triptych_dynamo.trace.differentiation import Differentiation
from triptych_dynamo.trace.effects import Effects
from triptych_dynamo.trace.function_modes import FunctionModes
from triptych_dynamo.trace.graph import GraphBuilder
from triptych_dynamo.trace.inputs import Inputs
from triptych_dynamo.trace.memory_facts import guard_apart, guard_memory
from triptych_dynamo.trace.mode_facts import relax_modes
from triptych_dynamo.trace.plan import Plan, first_of_call
from triptych_dynamo.trace.scopes import GlobalScope
from triptych_dynamo.trace.shapes import Shapes
from triptych_dynamo.trace.unbacked import Unbacked
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import ListValue, TupleValue
from triptych_dynamo.values.objects.exceptions import ExceptionValue
from triptych_dynamo.values.registry import find_rule

if TYPE_CHECKING:
    from triptych_dynamo.options import Options
    from triptych_dynamo.values.atoms.symbolic import SymbolicValue
    from triptych_dynamo.values.base import Value
    from triptych_dynamo.values.callables.cells import CellValue
    from triptych_dynamo.values.callables.generators import GeneratorValue

_SOURCE_LINES = logger("trace_source")
_current: ContextVar[Trace | None] = ContextVar("triptych_trace", default=None)
MAX_DEPTH = 90  # inlined calls; each takes several Python frames of the tracer


class Trace:
    """Graph, guards, effects, symbolic sizes and wrapped objects of one attempt.

    Args:
        options: what the user asked for.
        plan: what earlier attempts at this frame learned (where to cut).
        history: sizes and numbers seen at earlier compiles of the same callable.
    """

    def __init__(self, options: Options, plan: Plan, shapes: Shapes) -> None:
        self.options = options
        self.plan = plan
        self.shapes = shapes
        self.unbacked = Unbacked(self)
        self.graph = GraphBuilder(self)
        self.effects = Effects()
        self.inputs = Inputs(self)
        self.tensor_attributes = TensorAttributes(self)
        self.differentiation = Differentiation(self)
        self.function_modes = FunctionModes()
        self.made_classes = MadeClasses()
        self.real_functions: dict[Value, FunctionType] = {}  # stand-ins of functions and cells in made classes
        self.real_cells: dict[Value, CellType] = {}
        self.breaks_are_errors = BREAKS_ARE_ERRORS.get()  # None: as the options say
        self.generators: list[GeneratorValue] = []  # all that the trace made
        self.open_modes: list[
            tuple[Any, Any]
        ] = []  # (exit function, token) of the modes entered and not left, outermost first
        self.final_modes: dict[str, Any] = {}
        self.seed: Value | None = None  # what the region seeded torch's generator with
        self.saved_tensor_hooks_message = saved_tensor_hooks_message()  # why there may be none, where that is so
        self.number_inputs: dict[Source, SymbolicValue] = {}
        self.guards: dict[Any, Guard] = {}
        self.frames: list[Frame] = []
        self.scopes: dict[int, GlobalScope] = {}
        self.root: Frame | None = None
        self.last_line = ""
        self.logs_lines = _SOURCE_LINES.isEnabledFor(logging.INFO)
        self._logged_line = ""
        self.failure: tuple[BaseException, list[Frame]] | None = None  # the last graph break, and the frames at it
        self.modes_read: set[str] = set()  # modes that it depends on; "autocast": the program asked
        self.autograd_read = False  # the program asked what gradients a tensor or the mode has
        self.undo: list[tuple[Callable[[Any], Any], Any]] = []  # (setter, value before) of switches set while tracing
        self.held: list[dict[str, Any]] = []  # parameters' objects by name, emptied at the end
        self._wrapped: dict[int, tuple[Any, Value]] = {}
        self._by_source: tuple[int, dict[Source, Any]] = (0, {})  # made when first asked for

    # -- the current trace -------------------------------------------------------------------------------------------
    @staticmethod
    def current() -> Trace | None:
        """The trace that runs in this context, if any."""
        return _current.get()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the current trace."""
        token = _current.set(self)
        try:
            yield
        finally:
            for pending in (self.open_modes, self.undo):
                while pending:
                    restore, before = pending.pop()
                    restore(before)
            _current.reset(token)

    # -- guards and wrapping -----------------------------------------------------------------------------------------
    def guard(self, kind: str, source: Source | None, value: Any = None, line: str = "") -> None:
        """Add a guard once. Guards without a source (constants of the trace) are dropped, except the sourceless
        kinds. `line`: the user's that asked for it, if not the one that runs now.
        """
        if source is None and not KINDS[kind].sourceless:
            return
        if isinstance(source, PinnedSource) and kind in ("is", "is_weak", "type_is"):
            return
        if self.made_classes and source is not None and getattr(source.root, "value", None) in self.made_classes:
            return  # a class of the trace itself
        try:
            key = (kind, source, type(value), value)
            known = key in self.guards
        except TypeError:
            key = (kind, source, type(value), id(value))
            known = key in self.guards
        if not known:
            self.guards[key] = Guard(kind, source, value, line or self.user_line())

    def wrap(self, tx: Frame, obj: Any, source: Source | None) -> Value:
        """The one value of `obj`; a second way to the same object is guarded."""
        if type(obj) in ConstantValue.ATOMS:
            rule = find_rule(obj)
            assert rule is not None
            return rule(tx, obj, source)
        known = self._wrapped.get(id(obj))
        if known is not None:
            self._guard_second_way(known[1], obj, source)
            return known[1]
        rule = find_rule(obj)
        if rule is None:
            tx.unsupported("call", f"object of type {type(obj).__qualname__}")
        value = rule(tx, obj, source)
        self._wrapped[id(obj)] = (obj, value)
        return value

    def _guard_second_way(self, value: Value, obj: Any, source: Source | None) -> None:
        if source is None or source == value.source:
            return
        if value.source is None or isinstance(value.source, PinnedSource):
            self.guard("is", source, obj)
        else:
            self.guard("same_as", source, value.source)

    def remember(self, obj: Any, value: Value) -> None:
        """Make `value` the one of `obj` (rules that wrap recursive structures call this before they descend)."""
        self._wrapped[id(obj)] = (obj, value)

    def source_of(self, obj: Any) -> Source | None:
        """Where `obj` was read first, if it was."""
        known = self._wrapped.get(id(obj))
        return known[1].source if known is not None else None

    def object_at(self, source: Source) -> Any:
        """The real object that was wrapped at `source` during this trace, or None."""
        count, known = self._by_source
        if count != len(self._wrapped):
            known = {value.source: obj for obj, value in self._wrapped.values() if value.source is not None}
            self._by_source = (len(self._wrapped), known)
        return known.get(source)

    def wrapped_values(self) -> list[tuple[Any, Value]]:
        """Every wrapped object with its value."""
        return list(self._wrapped.values())

    def make_tuple(self, items: list[Value]) -> Value:
        """A new tuple value."""
        return TupleValue(list(items))

    def make_sequence(self, cls: type, items: list[Value]) -> Value:
        """A new list, tuple, `torch.Size`, named tuple or result tuple of torch."""
        return ListValue(items) if cls is list else TupleValue(items, cls=cls)

    def make_exception(self, exc_type: type[BaseException], args: list[Value]) -> Value:
        """`exc_type(*args)`, for classes without an initialiser in Python."""
        return ExceptionValue(exc_type, args)

    def make_dict(self, pairs: list[tuple[Value, Value]]) -> Value:
        """A new dict value."""
        return DictValue(pairs)

    def pin(self, obj: Any) -> Source:
        """A source for an object that the compiled code holds on to itself."""
        return PinnedSource(obj, f"constant_{type(obj).__name__}_{len(self._wrapped)}")

    # -- frames ------------------------------------------------------------------------------------------------------
    def scope_of(self, namespace: dict[str, Any]) -> GlobalScope:
        """The scope of a globals dictionary, one for the whole trace."""
        scope = self.scopes.get(id(namespace))
        if scope is None:
            label = "G" if not self.scopes else f"G({namespace.get('__name__', '?')})"
            scope = self.scopes[id(namespace)] = GlobalScope(namespace, label)
        return scope

    def new_frame(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        local_values: dict[str, Value],
        cells: dict[str, CellValue],
        parent: Frame | None,
    ) -> Frame:
        """A frame ready to run."""
        return Frame(self, code, self.scope_of(namespace), local_values, cells, parent)

    def log_line(self, frame: Frame) -> None:
        """Log the line at which `frame` stands, when it is another one than before."""
        place = self.user_line()
        if place != self._logged_line:
            self._logged_line = place
            name, _, number = place.rpartition(":")
            text = linecache.getline(name, int(number)).strip()
            _SOURCE_LINES.info("%s in %s: %s", place, frame.code.co_qualname, text)

    def enter_frame(self, frame: Frame) -> None:
        """A frame starts to run (or a generator resumes)."""
        if len(self.frames) >= MAX_DEPTH:
            frame.unsupported("recursion", f"{len(self.frames)} calls deep")
        self.frames.append(frame)

    def leave_frame(self, frame: Frame) -> None:
        """A frame stops."""
        error = sys.exc_info()[1]
        if error is not None and not self.last_line and not isinstance(error, (TracedException, Unsupported)):
            self.last_line = self.user_line()  # a fault of the tracer itself comes from here
        if isinstance(error, Unsupported) and (self.failure is None or self.failure[0] is not error):
            self.failure = (error, list(self.frames))
        popped = self.frames.pop()
        assert popped is frame

    def follow(self, caller: Frame, callee: Frame) -> None:
        """A call is direct: its instruction gives what `callee` returns, and does nothing else."""
        caller.awaited = None
        self.plan.follow(caller, callee)

    def step_of_root(self) -> int:
        """The step of the root at which the call that it runs now begins; 0 before it runs."""
        return first_of_call(self.root) if self.root is not None else 0

    def handled_exception(self, frame: Frame) -> Value | None:
        """The exception that the running code handles: the innermost one of this frame or of its callers."""
        for candidate in reversed(self.frames):
            if candidate.handled:
                return candidate.handled[-1]
        return None

    # -- the end -----------------------------------------------------------------------------------------------------
    def close_modes(self, modes: dict[str, Any]) -> None:
        """Leave, in the graph, the modes that the trace is in, so that the graph gives back those that it began with.

        The state that the program leaves behind is set by the code after the graph (`final_modes`).
        """
        for exit_function, token in reversed(self.open_modes):
            node = next(node for node in self.graph.graph.nodes if node.meta.get("val") is token)
            self._close(exit_function, (node,))
            exit_function(token)
        self.open_modes.clear()
        self.final_modes["grad_mode"] = torch.is_grad_enabled()
        if self.final_modes["grad_mode"] != modes["grad_mode"]:
            self._close(torch._C._set_grad_enabled, (modes["grad_mode"],))
            torch._C._set_grad_enabled(modes["grad_mode"])  # what compiles the graph sees the mode that it begins with
        else:
            del self.final_modes["grad_mode"]
        if self.saved_tensor_hooks_message != saved_tensor_hooks_message():
            self.final_modes["saved_tensor_hooks_message"] = self.saved_tensor_hooks_message

    def _close(self, function: Any, args: tuple[Any, ...]) -> None:
        node = self.graph.graph.call_function(function, args)
        node.meta.update(val=None, effect=True, stack_trace="")

    def finish_guards(self) -> None:
        """Add the guards that only the whole trace shows: symbolic sizes, and memory that written inputs may share.

        Tensors that modules own are taken as they are now relative to each other; pairs with another input are guarded.
        """
        self.unbacked.before_node(finished=True)
        self.shapes.add_guards(self)
        relax_autograd(self)
        relax_modes(self)
        self._guard_distinct()
        guard_memory(self)

    def release(self) -> None:
        """Drop everything that holds an object of the program."""
        frames = [self.root, *(generator.frame for generator in self.generators)]
        held: list[Any] = [*(frame for frame in frames if frame is not None), *self.generators]
        held += [value for _, value in self._wrapped.values()]
        for item in held:  # they refer to each other in circles
            vars(item).clear()
        for objects in self.held:
            objects.clear()
        self._wrapped.clear()
        self._by_source = (0, {})
        self.inputs.release()
        self.generators.clear()
        self.frames.clear()
        self.scopes.clear()
        self.failure = None
        self.root = None

    def _guard_distinct(self) -> None:
        """Objects that the program changed are none of the others of their type that it read."""
        changed: dict[type, list[Source]] = {}
        read: dict[type, list[Source]] = {}
        for obj, value in self._wrapped.values():
            if value.source is not None and not isinstance(value.source, PinnedSource):
                read.setdefault(type(obj), []).append(value.source)
                if value in self.effects:
                    changed.setdefault(type(obj), []).append(value.source)
        for cls, sources in changed.items():
            guard_apart(self, "distinct", sources, read[cls])

    # -- places in the user's code -----------------------------------------------------------------------------------
    def user_line(self) -> str:
        """'file:line' of what runs now."""
        if not self.frames:
            return ""
        frame = self.frames[-1]
        return f"{frame.code.co_filename}:{frame.line_number()}"

    def user_stack(self) -> list[str]:
        """The traced call stack, outermost first."""
        return [f"{frame.code.co_filename}:{frame.line_number()} in {frame.code.co_qualname}" for frame in self.frames]
