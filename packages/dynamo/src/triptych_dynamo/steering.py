"""Functions by which programs speak to the tracer. What they mean inside a trace is in `values.directives`.

Functions are marked by identity in one table; the tracer looks there before anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


mark(is_compiling, "is_compiling")
mark(graph_break, "graph_break")


def allow_in_graph(fn: Any) -> Any:
    """Put calls of `fn` into the graph as they are, without looking inside. Gives `fn` back.

    Args:
        fn: a function of tensors that runs on fake tensors, or a list of such functions.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(item) for item in fn]
    mark(fn, "in_graph")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Take the result of `fn` for a constant: it is called once, while tracing, with constant arguments.

    Gives `fn` back.
    """
    mark(fn, "constant_result")
    return fn


def substitute_in_graph(original: Any) -> Callable[[Any], Any]:
    """A decorator: traces run the decorated Python function in place of `original` (a function written in C)."""

    def register(replacement: Any) -> Any:
        mark(original, "substitute", replacement)
        return replacement

    return register


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A callable that always runs eagerly: neither it nor what it calls is compiled, and a trace breaks before it.

    Args:
        fn: the callable; a decorator is returned when None.
        recursive: only True: what it calls runs eagerly too.
        reason: shown in the graph break.

    Raises:
        ValueError: `recursive` is False.
    """
    if not recursive:
        raise ValueError("disable(recursive=False) is not supported: disable the callee's own callees one by one")
    if fn is None:
        return lambda function: disable(function, reason=reason)
    wrapper = Unhooked(fn)
    wrapper.__triptych_disabled__ = reason or f"{getattr(fn, '__qualname__', fn)} is disabled"
    return wrapper
