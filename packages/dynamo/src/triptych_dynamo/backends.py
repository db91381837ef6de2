"""Backends by name: those registered here, and those that other packages offer as entry points.

A backend is `backend(gm, example_inputs, **kwargs) -> callable`: the captured graph and fake inputs in, a callable
that takes the graph's inputs and returns a tuple out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from torch import fx

from triptych_dynamo.errors import InvalidBackend

Backend = Callable[..., Callable[..., Any]]
ENTRY_POINT_GROUP = "torch_dynamo_backends"


@dataclass(frozen=True)
class _Row:
    function: Backend
    tags: tuple[str, ...]


_TABLE: dict[str, _Row] = {}


def register_backend(
    compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable[..., Any]:
    """Make a backend known by name; usable as a decorator.

    Args:
        compiler_fn: `backend(gm, example_inputs, **kwargs) -> callable`.
        name: its name; that of the function when None.
        tags: "debug" and "experimental" ones are left out of `list_backends()`.

    Example:
        >>> @register_backend
        ... def printing(gm, example_inputs):
        ...     gm.print_readable()
        ...     return gm.forward
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    _TABLE[name or compiler_fn.__name__] = _Row(compiler_fn, tuple(tags))
    return compiler_fn


def _entry_points() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names of all backends, sorted, without those that carry one of `exclude_tags`."""
    hidden = set(exclude_tags or ())
    known = {name for name, row in _TABLE.items() if not hidden & set(row.tags)}
    return sorted(known | (_entry_points().keys() - _TABLE.keys()))


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend of a name; a callable is its own backend.

    Raises:
        InvalidBackend: no backend has that name; the message suggests near ones.
    """
    if callable(backend):
        return backend
    if backend not in _TABLE:
        point = _entry_points().get(backend)
        if point is None:
            near = difflib.get_close_matches(backend, list_backends(()), n=1)
            suggestion = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidBackend(f"unknown backend {backend!r}{suggestion} (known: {', '.join(list_backends(()))})")
        register_backend(point.load(), backend)
    return _TABLE[backend].function


@register_backend(tags=("debug",))
def eager(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Run the captured graph as it is."""
    return gm.forward
