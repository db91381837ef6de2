"""Functions by which programs speak to the tracer. What they mean inside a trace is in `values.directives`.

Functions are marked by identity in one table; the tracer looks there before anything else.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from triptych_dynamo._eval_frame import Unhooked

# id of the function -> (the function, what it means, what that needs)
MARKED: dict[int, tuple[Any, str, Any]] = {}


def mark(fn: Any, meaning: str, payload: Any = None) -> None:
    """Say what `fn` means to the tracer; the last word counts."""
    MARKED[id(fn)] = (fn, meaning, payload)


def is_compiling() -> bool:
    """True while a compiler traces the program, False when it runs."""
    return False


def graph_break(message: str = "") -> None:
    """End the graph here. Does nothing when the program runs uncompiled."""


def step_unsupported(message: str = "") -> None:
    """End the graph here and let the rest of this function run as it is, as well as that of the functions that wait
    for it; what they call from then on is compiled. Does nothing when the program runs uncompiled.
    """


mark(is_compiling, "is_compiling")
mark(graph_break, "graph_break")
mark(step_unsupported, "step_unsupported")


def allow_in_graph(fn: Any) -> Any:
    """Put calls of `fn` into the graph as they are, without looking inside. Gives `fn` back.

    Args:
        fn: a function of tensors that runs on fake tensors, or a list of such functions.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(item) for item in fn]
    _check_function("allow_in_graph", fn)
    mark(fn, "in_graph")
    return fn


def _check_function(what: str, fn: Any) -> None:
    if not callable(fn):
        raise TypeError(f"{what} takes a function, not {fn!r}")


def disallow_in_graph(fn: Any) -> Any:
    """Keep calls of `fn` out of graphs: a trace breaks before one, and it runs as it is. Gives `fn` back.

    Args:
        fn: a function of the program, of torch or written in C, or a list of such functions.
    """
    return _keep_out(fn, "forbidden", "is kept out of graphs by disallow_in_graph")


def forbid_in_graph(fn: Any) -> Any:
    """A call of `fn` in a trace is a `GraphBreakError`, also where graph breaks are not errors. Gives `fn` back."""
    return _keep_out(fn, "never", "is forbidden in compiled code by forbid_in_graph")


def _keep_out(fn: Any, meaning: str, text: str) -> Any:
    if isinstance(fn, (list, tuple)):
        return [_keep_out(item, meaning, text) for item in fn]
    if not callable(fn):
        raise TypeError(f"a function is expected, not {fn!r}")
    mark(fn, meaning, f"{getattr(fn, '__qualname__', fn)} {text}")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Take the result of `fn` for a constant: it is called once, while tracing, with constant arguments.

    Gives `fn` back.
    """
    _check_function("assume_constant_result", fn)
    mark(fn, "constant_result")
    return fn


def substitute_in_graph(
    original: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Any], Any]:
    """A decorator: traces run the decorated Python function in place of `original` (a function written in C).

    Args:
        original: the function; calls of it outside a trace stay what they are.
        can_constant_fold_through: `original` has no effects and its result depends on its arguments alone, so that a
            call with constants is done while tracing.
        skip_signature_check: the two need not take the same parameters.

    Raises:
        TypeError: `original` is no function, or the parameters of the two differ.
        ValueError: `original` has a substitute already.

    Example:
        >>> @substitute_in_graph(library.index_of)
        ... def index_of(items, wanted, /):
        ...     for index, item in enumerate(items):
        ...         if item is wanted or item == wanted:
        ...             return index
        ...     raise ValueError("not found")
    """
    if isinstance(original, type) or not callable(original):
        raise TypeError(f"substitute_in_graph takes a function, not {original!r}")

    def register(replacement: Any) -> Any:
        if MARKED.get(id(original), (None, ""))[1] == "substitute":
            raise ValueError(f"{original!r} has a substitute already: {MARKED[id(original)][2][0]!r}")
        if not skip_signature_check:
            _check_same_parameters(original, replacement)
        mark(original, "substitute", (replacement, can_constant_fold_through))
        return replacement

    return register


def _check_same_parameters(original: Any, replacement: Any) -> None:
    try:
        wanted = inspect.signature(original).parameters.values()
    except (TypeError, ValueError):  # a function in C that does not tell
        return
    found = inspect.signature(replacement).parameters.values()
    if [(p.name, p.kind, p.default) for p in wanted] != [(p.name, p.kind, p.default) for p in found]:
        raise TypeError(
            f"{replacement!r} takes {inspect.signature(replacement)}, but {original!r}, which it is to replace, takes "
            f"{inspect.signature(original)}; pass skip_signature_check=True if that is meant"
        )


def is_exporting() -> bool:
    """True while `capture` traces the program, or torch.export does; False when it runs or is compiled."""
    return torch.compiler.is_exporting()


mark(is_exporting, "is_exporting")


def nonstrict_trace(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Put calls of `fn` into the graph without looking at its Python code; later stages see the operators it runs.

    Arguments are tensors, constants, modules (whose parameters get their gradients), and nests of these in lists,
    tuples, dictionaries and classes registered with pytree; the result is a nest of tensors. What else `fn` reads
    (globals, closures, attributes that are no parameters) is taken as it is at the first call. Outside a trace the
    function is what it was.

    Example:
        >>> @nonstrict_trace
        ... def attention(module, x):
        ...     return module(x) if x.shape[0] > 1 else x
    """
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(f"nonstrict_trace takes a function, not {fn!r}")

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    mark(run, "nonstrict", fn)
    return run


@dataclass(frozen=True, eq=False)
class RegionMark:
    """What `nested_compile_region` was told. name: of the function."""

    name: str
    max_reuse_entries: int
    reuse_hash_fn: Callable[..., int] | None


def nested_compile_region(
    fn: Callable[..., Any] | None = None,
    *,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable[..., int] | None = None,
) -> Any:
    """Mark a function that a program calls many times, such as a layer: its calls share one subgraph.

    In the captured graph each call is a call of a module, and calls that do the same to other values call the same
    one; what differs (a size, a constant, a branch taken) makes a module of its own. Later stages treat a module that
    is called many times once. Called eagerly the function is what it was.

    Args:
        fn: the function or method; a decorator is returned when None.
        max_reuse_entries: modules kept of this region in one graph; a call that would need more is part of the graph.
        reuse_hash_fn: of a call's arguments: calls for which it gives different integers share nothing. It is traced.

    Example:
        >>> @nested_compile_region
        ... def layer(x, weight):
        ...     return torch.relu(x @ weight)
    """
    if not isinstance(max_reuse_entries, int) or max_reuse_entries < 1:
        raise ValueError(f"max_reuse_entries must be a positive integer, not {max_reuse_entries!r}")
    if reuse_hash_fn is not None and not callable(reuse_hash_fn):
        raise TypeError(f"reuse_hash_fn must be a function that gives an integer, not {reuse_hash_fn!r}")
    if fn is None:
        return functools.partial(
            nested_compile_region, max_reuse_entries=max_reuse_entries, reuse_hash_fn=reuse_hash_fn
        )
    if isinstance(fn, type) or not callable(fn):
        raise TypeError(f"nested_compile_region takes a function, not {fn!r}")

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    mark(run, "region", RegionMark(region_name(fn), max_reuse_entries, reuse_hash_fn))
    return run


def region_name(fn: Any) -> str:
    """What the modules of a region are called after."""
    return str(getattr(fn, "__qualname__", type(fn).__qualname__)).split(".<locals>.")[-1]


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A callable that runs eagerly; a trace breaks before it.

    Args:
        fn: the callable; a decorator is returned when None. A class of the program is given back itself: its instances
            are made and called eagerly.
        recursive: what it calls runs eagerly too. False: only its own frame does, as with `skip_frame`.
        reason: shown in the graph break.

    Raises:
        TypeError: `recursive` is False and `fn` is no Python function.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, type) and fn.__flags__ & _KINDS == _OPEN and fn.__module__.partition(".")[0] != "torch":
        for name in ("__init__", "__call__"):
            method = next((vars(base)[name] for base in fn.__mro__[:-1] if name in vars(base)), None)
            if method is not None:
                setattr(fn, name, disable(method, recursive, reason=reason))
        return fn
    if not recursive:
        return skip_frame(fn, reason=reason)
    wrapper = Unhooked(fn)
    wrapper.__triptych_disabled__ = reason or f"{getattr(fn, '__qualname__', fn)} is disabled"
    return wrapper


_KINDS, _OPEN = 1 << 9 | 1 << 8, 1 << 9  # flags of classes: made at run time, immutable; of those that can be changed
SKIPPED = "__triptych_skipped__"


def skip_frame(fn: Any, *, reason: str | None = None) -> Any:
    """Let a Python function run as it is, while what it calls is compiled. Gives `fn` back.

    A trace breaks before it. Other than `disable`, it does not keep its callees from being compiled.
    """
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, FunctionType):
        raise TypeError(f"skip_frame (disable with recursive=False) takes a Python function, not {fn!r}")
    setattr(function, SKIPPED, (function.__code__, reason or f"{function.__qualname__} is skipped"))
    return fn


def skip_reason(function: Any) -> str:
    """Why a function's own frame is not compiled; "" when it is."""
    code, reason = getattr(function, SKIPPED, (None, ""))
    return reason if code is function.__code__ else ""  # wrappers inherit the attributes of what they wrap


class error_on_graph_break:  # named as a function is: it is used as one
    """While it is entered, a graph break is a `GraphBreakError` (True), or just a break, even under fullgraph (False).

    A context manager and a decorator, inside compiled code or around its calls; the innermost one counts. Other than
    `fullgraph=True`, it does not promise one graph: breaks outside of it go on.

    Example:
        >>> with error_on_graph_break(True):
        ...     y = block(x)
    """

    __slots__ = ("error", "_before")

    def __init__(self, error: bool) -> None:
        if not isinstance(error, bool):
            raise TypeError(f"error_on_graph_break takes True or False, not {error!r}")
        self.error = error
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(BREAKS_ARE_ERRORS.set(self.error))

    def __exit__(self, *exception: object) -> None:
        BREAKS_ARE_ERRORS.reset(self._before.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run with this setting."""
        error = self.error

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with error_on_graph_break(error):
                return fn(*args, **kwargs)

        return run


BREAKS_ARE_ERRORS: ContextVar[bool | None] = ContextVar("triptych_breaks_are_errors", default=None)
