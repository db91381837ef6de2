"""`triptych.compile` and `triptych.explain`: what a user calls."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

import triptych_dynamo
from torch import nn
from triptych_dynamo.lazy import LazyModule

from triptych import backends, configuration, logs, modules, profiles, support
from triptych.errors import InvalidOptionError
from triptych.reports import ATTRIBUTE, Report
from triptych.settings import Backend, Keywords, Settings

_aot = LazyModule("triptych.aot")
F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(model: F, **settings: Unpack[Keywords]) -> F: ...
@overload
def compile(model: None = None, **settings: Unpack[Keywords]) -> Callable[[F], F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = True,
    on_recompile_limit: str | None = None,
    on_error: str | None = None,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """A faster form of a function, method or module, which behaves as the original does.

    Compilation happens at the first call, and again when a call differs in something that the compiled code relies on
    (dtype, number of dimensions, a Python value that the program branched on). A size that changes becomes symbolic.

    model: a function, bound method, module or other callable; None makes a decorator. A module gives a compiled module
        of the same class that shares its parameters, attributes and `state_dict`; `model` itself stays as it was. A
        class of the program is given back itself, and calls of its instances are compiled.
    fullgraph: a part that cannot be captured is an error with its place and reason, instead of running eagerly.
    dynamic: True makes sizes symbolic from the first call, False never; None when a size changed.
    backend: a name (`triptych.compiler.list_backends()`) or a callable `(gm, example_inputs) -> callable`.
    mode: a named set of options of the code generator. options: single ones. Not both.
    disable: gives `model` back unchanged, as does the environment variable TRIPTYCH_DISABLE=1.
    name: how reports, logs and profiles call the compiled callable; its qualified name when not given.
    recompile_limit: number of versions kept of one piece of code.
    isolate_recompiles: accepted, and always so: no two compiled callables share versions or limits.
    on_recompile_limit: "generalise" makes symbolic what differed, "error" raises, "eager" runs the code eagerly.
    on_error: "eager" runs a graph eagerly, with a warning, where the compiler itself fails; "raise" shows the failure.
    shapes_spec: which sizes and integers of the parameters vary: `{"x": [triptych_dynamo.Dim("batch"), None]}`.
        dynamic_shapes: the same, by its newer name. Not both.

    What is None comes from `triptych.compiler.config`. `options` may hold `guard_filter_fn`, a function that says which
    guards to keep, and `use_aoti`: True runs each graph from a self-contained package, as `aot_compile` writes it.

    Returns: a callable with the signature, name and documentation of `model`; under `model=None` a decorator.
    Raises: UnsupportedVersionError, InvalidBackendError, InvalidModeError, InvalidOptionError (all RuntimeErrors);
        TypeError when `model` is not callable.

    Example:
        >>> @triptych.compile
        ... def gelu(x):
        ...     return 0.5 * x * (1 + torch.erf(x / 2**0.5))
        >>> model = triptych.compile(model, fullgraph=True)
    """
    if shapes_spec is not None and dynamic_shapes is not None:
        raise InvalidOptionError("shapes_spec and dynamic_shapes are one argument with two names: give one of them")
    settings = Settings(
        *(fullgraph, dynamic, backend, mode, options, disable, name, recompile_limit, on_error, on_recompile_limit),
        shapes_spec=shapes_spec if dynamic_shapes is None else dynamic_shapes,
    )
    if model is None:
        return functools.partial(_compile, settings=settings)
    return _compile(model, settings)


def _compile(model: Any, settings: Settings) -> Any:
    support.check_python()
    logs.configure()
    kind = next((kind for kind in (classmethod, staticmethod) if isinstance(model, kind)), None)
    if kind is not None:
        return kind(_compile(model.__func__, settings))
    if not callable(model) or (isinstance(model, type) and not _has_calls_to_compile(model)):
        raise TypeError(f"triptych.compile takes a function, method, module or other callable, not {model!r}")
    if settings.disable:
        return model
    if isinstance(model, type):  # as a decorator: calls of its instances
        model.__call__ = _compile(model.__call__, settings)  # type: ignore[method-assign]
        return model
    report = Report(settings.name or _name_of(model))
    optimize = _optimizer(settings, report)
    if isinstance(model, nn.Module):
        original = modules.original_of(model)
        again = functools.partial(_compile, settings=settings)
        forward = functools.partial(_aot_compile_method, original.forward, settings)
        return modules.twin(original, optimize(original.__call__), again, report, forward)
    return optimize(model)


def _has_calls_to_compile(cls: type) -> bool:
    """Whether instances can be called; classes of torch itself, which other code uses, are not changed."""
    return cls.__module__.partition(".")[0] != "torch" and any("__call__" in vars(base) for base in cls.__mro__)


def _name_of(model: Any) -> str:
    return getattr(model, "__qualname__", type(model).__qualname__)


def _optimizer(settings: Settings, report: Report) -> Callable[[Any], Any]:
    """What makes a compiled callable of a function or a bound method."""
    optimize = triptych_dynamo.optimize(
        backends.compiling_backend(settings, report),
        options=capture_options(settings),
        hooks=triptych_dynamo.Hooks(
            on_break=lambda reason: report.breaks.append(str(reason)),
            on_recompile=report.recompiles.append,
            on_failure=report.failures.append,
        ),
    )

    def make(fn: Any) -> Any:
        if isinstance(fn, types.MethodType):
            return types.MethodType(make(fn.__func__), fn.__self__)
        if not isinstance(fn, types.FunctionType):
            fn = _as_function(fn)
        compiled = optimize(fn)
        setattr(compiled, ATTRIBUTE, report)
        compiled.aot_compile = functools.partial(_aot_compile, fn, settings)
        return compiled

    return make


def _aot_compile(fn: Any, settings: Settings, example: tuple[tuple, dict[str, Any]]) -> Any:
    """`aot.aot_compile`, imported when it is used."""
    return _aot.aot_compile(fn, settings, example)


def _aot_compile_method(method: Any, settings: Settings, example: tuple[tuple, dict[str, Any]]) -> Any:
    """The same for a bound method: the result takes the object first."""
    args, kwargs = example
    return _aot.aot_compile(method.__func__, settings, ((method.__self__, *args), kwargs))


def capture_options(settings: Settings) -> triptych_dynamo.Options:
    """What the front end is asked for."""
    assert settings.recompile_limit is not None and settings.on_error is not None  # taken from the configuration
    assert settings.on_recompile_limit is not None
    return triptych_dynamo.Options(
        fullgraph=settings.fullgraph,
        dynamic=settings.dynamic,
        recompile_limit=settings.recompile_limit,
        on_error=settings.on_error,
        on_limit=settings.on_recompile_limit,
        guard_filter_fn=settings.guard_filter_fn,
        shapes_spec=settings.shapes_spec,
        dynamic_sources=profiles.sources_of(settings.dynamic_sources or ""),
        dynamic_values=configuration.integers_of(settings.dynamic_values or ""),
        unbacked_sources=profiles.sources_of(settings.unbacked_sources or ""),
        profile=profiles.profile_of(settings),
    )


def _as_function(fn: Any) -> Callable[..., Any]:
    """A Python function that calls `fn`:

    for callable objects and functions of extension modules, which have no code.
    """

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


def explain(fn: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """What capturing `fn` gives: `explain(fn)(*args)` -> graphs, breaks with place, reason and hint, guards, times.

    Nothing is compiled. See `triptych_dynamo.explain`, which this is.

    Example:
        >>> print(triptych.explain(model)(x))
    """
    return triptych_dynamo.explain(fn, **settings)
