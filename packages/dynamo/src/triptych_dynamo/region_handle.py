"""`RegionHandle`: a compiled region that is built when its callable is first called, so that decorating is cheap."""

from __future__ import annotations

import functools
import operator
import sys
import warnings
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo import stances
from triptych_dynamo._eval_frame import CompiledCallable, Entry, Region
from triptych_dynamo.lazy import LazyModule
from triptych_dynamo.options import Options

if TYPE_CHECKING:
    from triptych_dynamo.hooks import Hooks
    from triptych_dynamo.region import CompiledRegion, FrameRecord

_region = LazyModule("triptych_dynamo.region")
_compat = LazyModule("triptych_dynamo._torch_compat")


def foreign_trace(owner: object) -> bool:
    """Whether the program runs under somebody else's trace, which wants to see the original and not compiled code."""
    if torch.compiler.is_exporting():
        if owner is not None and owner not in _told_exporting:
            _told_exporting.add(owner)
            warnings.warn(f"{owner} is called while a program is exported: its original is used", stacklevel=3)
        return True
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or _compat.is_symbolic_tracing()


def _shown_call(self: CompiledCallable, *args: Any, **kwargs: Any) -> Any:
    """The call, as torch's own front end reads it: it inlines the original, as we do what it compiled."""
    if torch.compiler.is_compiling():
        return self.fn(*args, **kwargs)
    return operator.call(self, *args, **kwargs)


def _shown_get(self: CompiledCallable, instance: Any, owner: Any = None) -> Any:
    """The binding of a method, as torch's own front end reads it."""
    if torch.compiler.is_compiling():
        return self.fn if instance is None else functools.partial(self.fn, instance)
    return self if instance is None else MethodType(self, instance)


CompiledCallable.show("__call__", _shown_call)
CompiledCallable.show("__get__", _shown_get)
_told_exporting: weakref.WeakSet[object] = weakref.WeakSet()


def _unobserved(compile_frame: Callable[..., Any], *args: Any) -> Any:
    """Run our compiler out of sight of torch's own frame hook, which would take it for a program to compile."""
    if "torch._dynamo" in sys.modules:
        compile_frame = torch.compiler.disable(compile_frame)
    return compile_frame(*args)


def _is_comprehension(function: FunctionType) -> bool:
    """Whether a frame is the loop of a comprehension whose function runs as it is (Python 3.11; later ones inline it).

    It consumes an iterator that the function made, which no code compiled for this frame could hand back; what the loop
    calls is compiled frame by frame.
    """
    return function.__code__.co_varnames[:1] == (".0",)


class RegionHandle:
    """What a compiled callable holds on to.

    Args:
        backend: compiles graphs.
        options: fullgraph, dynamic, limits.
        hooks: callbacks, or None.
    """

    def __init__(self, backend: Callable[..., Any], options: Options, hooks: Hooks | None) -> None:
        self.backend = backend
        self.options = options
        self.hooks = hooks
        self.native = Region(self._frame_miss)
        self.callables: weakref.WeakSet[CompiledCallable] = weakref.WeakSet()
        self._built: CompiledRegion | None = None

    @property
    def built(self) -> CompiledRegion:
        """The region itself."""
        if self._built is None:
            self._built = _region.CompiledRegion(self)
        return self._built

    @property
    def records(self) -> list[FrameRecord]:
        """What was compiled so far, in order."""
        return self._built.records if self._built is not None else []

    def callable_for(self, function: FunctionType) -> CompiledCallable:
        """The compiled callable of a function."""
        made = CompiledCallable(function, self._miss, self.native)
        self.callables.add(made)
        return made

    def _miss(self, owner: CompiledCallable, function: FunctionType, arguments: tuple[Any, ...]) -> Entry | None:
        if foreign_trace(owner):
            return None
        if not stances.on_miss(self, owner, lambda: self.built.observe(function, arguments)):
            return None
        return _unobserved(self.built.miss, function, arguments)

    def _frame_miss(self, native: Region, function: FunctionType, arguments: tuple[Any, ...]) -> Entry | bool | None:
        if _is_comprehension(function):
            return None
        if foreign_trace(None) or not stances.on_miss(self, function.__code__, lambda: None):
            return False
        return _unobserved(self.built.frame_miss, function, arguments)

    def with_backend(self, backend: Callable[..., Any]) -> RegionHandle:
        """A region like this one, with nothing compiled yet, for another backend."""
        return RegionHandle(backend, self.options, self.hooks)

    def clear(self) -> None:
        """Forget everything that was compiled."""
        self.native.clear()
        for made in list(self.callables):
            made.clear()
        if self._built is not None:
            self._built.forget()
