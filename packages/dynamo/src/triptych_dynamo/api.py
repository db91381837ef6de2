"""`optimize` and the functions that steer it."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

import torch

from triptych_dynamo import stances
from triptych_dynamo._eval_frame import CompiledCallable
from triptych_dynamo.backends import Backend, lookup_backend
from triptych_dynamo.options import Options
from triptych_dynamo.region_handle import RegionHandle

if TYPE_CHECKING:
    from triptych_dynamo.guards.filters import GuardFilter
    from triptych_dynamo.hooks import Hooks

_regions: weakref.WeakSet[RegionHandle] = weakref.WeakSet()
REGION_ATTRIBUTE = "__triptych_region__"


def optimize(
    backend: str | Backend = "eager",
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Options | None = None,
    recompile_limit: int | None = None,
    on_limit: str | None = None,
    guard_filter_fn: GuardFilter | None = None,
    shapes_spec: Any = None,
    hooks: Hooks | None = None,
) -> Callable[[Any], Any]:
    """A decorator that compiles a function, method or module with `backend` when it is called.

    Args:
        backend: a name (see `list_backends`) or a callable `(gm, example_inputs) -> callable`.
        fullgraph: a graph break raises `GraphBreakError`.
        dynamic: None: sizes that change become symbolic; True: all sizes are; False: none.
        options: all of these in one record; the keywords here take precedence.
        recompile_limit: how often one frame is compiled.
        on_limit: what happens then: "generalise" (the default), "error" or "eager"; see `Options`.
        guard_filter_fn: says which guards to keep; see `guards.filters`.
        shapes_spec: which sizes and integers of the parameters vary: `{"x": [Dim("batch"), None]}`; see `shape_specs`.
        hooks: callbacks.

    Raises:
        InvalidBackend: at once, for an unknown name.

    Example:
        >>> @optimize("eager")
        ... def f(x):
        ...     return x + 1
    """
    function = lookup_backend(backend)
    given = {
        "fullgraph": fullgraph or None,
        "dynamic": dynamic,
        "recompile_limit": recompile_limit,
        "on_limit": on_limit,
        "guard_filter_fn": guard_filter_fn,
        "shapes_spec": shapes_spec,
    }
    named = {name: value for name, value in given.items() if value is not None}
    chosen = dataclasses.replace(options or Options(), **named)  # type: ignore[arg-type]

    def decorate(target: Any) -> Any:
        region = RegionHandle(function, chosen, hooks)
        _regions.add(region)
        return compile_target(target, region)

    return decorate


def compile_target(target: Any, region: RegionHandle) -> Any:
    """The compiled form of a function, bound method, module or other callable."""
    if isinstance(target, CompiledCallable):
        target = target.fn
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        return MethodType(compile_target(target.__func__, region), target.__self__)
    if isinstance(target, torch.nn.Module):
        return compile_target(target.__call__, region)
    function = target if isinstance(target, FunctionType) else _as_function(target)
    compiled = region.callable_for(function)
    setattr(compiled, REGION_ATTRIBUTE, region)
    return compiled


def _as_function(target: Any) -> FunctionType:
    """A Python function around a callable object."""
    if isinstance(target, type) or not callable(target):
        raise TypeError(f"only functions, methods, modules and callable objects are compiled, not {target!r}")

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    functools.update_wrapper(call, target, updated=())
    return cast(FunctionType, call)


def region_of(compiled: Any) -> RegionHandle:
    """The region of a compiled callable: its records of graphs, guards and breaks."""
    return getattr(getattr(compiled, "__func__", compiled), REGION_ATTRIBUTE)  # type: ignore[no-any-return]


def reset() -> None:
    """Forget everything that was compiled in this process."""
    stances.forget()
    for region in list(_regions):
        region.clear()
