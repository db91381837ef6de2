"""Context managers of torch that change a mode: autocast, inference mode; and those that change nothing a graph sees.

A mode is really entered while tracing, so that fake results have the right types, and entered again by a node of the
graph. `no_grad` and its like are Python over `torch._C._set_grad_enabled` and are inlined (see `torch_state`);
generator-based managers, `ExitStack`, `nullcontext` and managers of the program are inlined as any code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._device import DeviceContext

from triptych_dynamo._torch_compat import (
    enter_autocast,
    enter_inference_mode,
    exit_autocast,
    exit_inference_mode,
)
from triptych_dynamo.polyfills.managers import decorated
from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.steering import error_on_graph_break
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import constant_of
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_PROTOCOL = ("__enter__", "__exit__")


class ContextValue(Value):
    """Base: an object with `__enter__` and `__exit__`."""

    cls: type = object

    def python_type(self) -> type:
        return self.cls

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        return BuiltinMethodValue(self, name) if name in _PROTOCOL else super().get_attr(tx, name)

    def enter(self, tx: Frame) -> Value:
        """`__enter__`."""
        raise NotImplementedError

    def leave(self, tx: Frame) -> None:
        """`__exit__`, whatever ended the block."""
        raise NotImplementedError

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__enter__":
            return self.enter(tx)
        if name == "__exit__":
            self.leave(tx)
            return tx.constant(False)
        return super().call_method(tx, name, args, kwargs)


def manager_of(tx: Frame, value: Value) -> Value:
    """What a `with` statement over `value` enters: of a device the mode that gives it to tensors that are made."""
    if value.python_type() is not torch.device:
        return value
    return tx.call(tx.wrap(DeviceContext, None), [value], {})


class NullContextValue(ContextValue):
    """A manager that no result depends on, such as a profiler's range."""

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls

    def enter(self, tx: Frame) -> Value:
        return self

    def leave(self, tx: Frame) -> None:
        pass


class ModeValue(ContextValue):
    """A mode with a pair of graph functions: `enter_function(*args) -> token`, `exit_function(token)`."""

    enter_function: Any = None
    exit_function: Any = None

    def __init__(self, cls: type, args: tuple[Any, ...], source: Source | None = None) -> None:
        super().__init__(source)
        self.cls, self.args = cls, args
        self.entered: list[tuple[fx.Node, Any]] = []

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "clone":
            return BuiltinMethodValue(self, name)
        if name == "mode" and self.args:
            return tx.constant(self.args[0])
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "clone":
            return type(self)(self.cls, self.args)
        return super().call_method(tx, name, args, kwargs)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """As a decorator: the function runs in the mode."""
        return tx.call(tx.wrap(decorated, None), [self, *args], kwargs)

    def enter(self, tx: Frame) -> Value:
        token = type(self).enter_function(*self.args)
        self.entered.append((self._record(tx, type(self).enter_function, self.args, token), token))
        tx.trace.open_modes.append((type(self).exit_function, token))
        return self

    def _record(self, tx: Frame, function: Any, args: tuple[Any, ...], result: Any) -> fx.Node:
        node = tx.trace.graph.graph.call_function(function, args)
        node.meta.update(val=result, effect=True, stack_trace=tx.trace.graph.stack_trace())
        return node

    def leave(self, tx: Frame) -> None:
        if not self.entered:
            tx.unsupported("context-manager", f"leaving a {self.cls.__name__} that was entered before the graph began")
        node, token = self.entered.pop()
        tx.trace.open_modes.remove((type(self).exit_function, token))
        type(self).exit_function(token)
        self._record(tx, type(self).exit_function, (node,), None)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.cls)
        for arg in self.args:
            cg.load_const(arg)
        cg.call(len(self.args))


class BreakPolicyValue(ContextValue):
    """`error_on_graph_break(error)`: what a graph break means while it is entered."""

    cls = error_on_graph_break

    def __init__(self, error: bool, source: Source | None = None) -> None:
        super().__init__(source)
        self.error = error
        self.entered: list[bool | None] = []

    def enter(self, tx: Frame) -> Value:
        self.entered.append(tx.trace.breaks_are_errors)
        tx.trace.breaks_are_errors = self.error
        return tx.constant(None)

    def leave(self, tx: Frame) -> None:
        if not self.entered:
            tx.unsupported("context-manager", "leaving an error_on_graph_break that was entered before the graph began")
        tx.trace.breaks_are_errors = self.entered.pop()

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """As a decorator."""
        return tx.call(tx.wrap(decorated, None), [self, *args], kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.cls)
        cg.load_const(self.error)
        cg.call(1)


@constructs(error_on_graph_break)
def _break_policy(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = [*args, *kwargs.values()]
    return BreakPolicyValue(constant_of(tx, given[0], "the policy of graph breaks"))


@wraps(error_on_graph_break)
def wrap_break_policy(tx: Frame, obj: error_on_graph_break, source: Source | None) -> Value:
    """One that the program made before."""
    tx.guard("type_is", source, error_on_graph_break)
    if source is not None:
        tx.guard("equals", AttrSource(source, "error"), obj.error)
    return BreakPolicyValue(obj.error, source)


class InferenceModeValue(ModeValue):
    """`torch.inference_mode(mode)`."""

    enter_function = staticmethod(enter_inference_mode)
    exit_function = staticmethod(exit_inference_mode)


class AutocastValue(ModeValue):
    """`torch.autocast(device_type, dtype, enabled, cache_enabled)`."""

    enter_function = staticmethod(enter_autocast)
    exit_function = staticmethod(exit_autocast)


def _as_functions(value_class: type[ModeValue], cls: type) -> None:
    """The pair of functions as a captured graph calls them: what entering gives is the mode, and goes to the exit."""

    def enter(tx: Frame, *args: Value) -> Value:
        return value_class(cls, tuple(constant_of(tx, arg, f"an argument of {cls.__name__}") for arg in args)).enter(tx)

    def leave(tx: Frame, mode: Value, /) -> Value:
        if not isinstance(mode, ModeValue):
            tx.unsupported("context-manager", f"leaving a {cls.__name__} that was entered before the graph began")
        mode.leave(tx)
        return tx.constant(None)

    builtin(value_class.enter_function)(enter)
    builtin(value_class.exit_function)(leave)


_as_functions(InferenceModeValue, torch.inference_mode)
_as_functions(AutocastValue, torch.autocast)


@constructs(torch.inference_mode)
def _inference_mode(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = [*args, *kwargs.values()]
    mode = constant_of(tx, given[0], "the mode") if given else True
    if not isinstance(mode, bool):
        return tx.unsupported("context-manager", "inference_mode as a decorator inside the compiled region")
    return InferenceModeValue(torch.inference_mode, (mode,))


def autocast_value(obj: torch.autocast, source: Source | None = None) -> AutocastValue:
    """The value of a real autocast object."""
    args = (obj.device, obj.fast_dtype, obj._enabled, obj._cache_enabled)
    return AutocastValue(torch.autocast, args, source)


def _autocast(cls: type) -> None:
    def construct(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        plain = [constant_of(tx, arg, "an argument of autocast") for arg in args]
        named = {key: constant_of(tx, arg, key) for key, arg in kwargs.items()}
        try:
            obj = cls(*plain, **named)
        except Exception as error:
            return tx.raise_python(type(error), *error.args)
        return autocast_value(obj)

    constructs(cls)(construct)


for _cls in (torch.autocast, torch.cuda.amp.autocast, torch.cpu.amp.autocast):
    _autocast(_cls)


@wraps(torch.autocast, torch.cuda.amp.autocast, torch.cpu.amp.autocast)
def wrap_autocast(tx: Frame, obj: torch.autocast, source: Source | None) -> Value:
    """An autocast object of the program."""
    tx.guard("type_is", source, type(obj))
    for name in ("device", "fast_dtype", "_enabled", "_cache_enabled"):
        if source is not None:
            tx.guard("equals", AttrSource(source, name), getattr(obj, name))
    return autocast_value(obj, source)


@wraps(torch.inference_mode)
def wrap_inference_mode(tx: Frame, obj: torch.inference_mode, source: Source | None) -> Value:
    """An inference-mode object of the program."""
    tx.guard("type_is", source, type(obj))
    if source is not None:
        tx.guard("equals", AttrSource(source, "mode"), obj.mode)
    return InferenceModeValue(torch.inference_mode, (obj.mode,), source)


_TRANSPARENT: tuple[type, ...] = (torch.autograd.profiler.record_function, torch.autograd.profiler.emit_nvtx)


@constructs(*_TRANSPARENT)
def _transparent(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return NullContextValue(_TRANSPARENT[0])


@wraps(*_TRANSPARENT)
def wrap_transparent(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A profiler's range of the program."""
    tx.guard("type_is", source, type(obj))
    return NullContextValue(type(obj), source)
