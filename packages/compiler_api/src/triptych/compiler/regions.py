"""`nested_compile_region`: functions that a program calls many times, such as the layers of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from triptych.errors import InvalidOptionError

F = TypeVar("F", bound=Callable[..., Any])


def nested_compile_region(
    fn: F | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable[..., int] | None = None,
) -> Any:
    """Mark a function that is called many times inside a compiled region, so that its code is made once.

    Here equal loops of a graph are compiled to one kernel wherever they come from, and equal kernels of different
    graphs are built once, so the mark changes nothing: a program without it gains the same. What differs between two
    calls, a size or a constant, gives kernels of its own. `fn` is given back; called eagerly it is what it was.

    fn: the function; None makes a decorator. options: options of the code generator for this region alone; there are
    none (InvalidOptionError): give them to `compile`. max_reuse_entries, reuse_hash_fn: accepted and checked; what is
    reused is found by content.

    Example:
        >>> @triptych.compiler.nested_compile_region
        ... def layer(x, weight):
        ...     return torch.relu(x @ weight)
    """
    if options:
        raise InvalidOptionError(
            f"nested_compile_region has no options of its own, but got {sorted(options)}: give them to triptych.compile"
        )
    if not isinstance(max_reuse_entries, int) or max_reuse_entries < 1:
        raise ValueError(f"max_reuse_entries must be a positive integer, not {max_reuse_entries!r}")
    if reuse_hash_fn is not None and not callable(reuse_hash_fn):
        raise TypeError(f"reuse_hash_fn must be a function that gives an integer, not {reuse_hash_fn!r}")
    if fn is None:
        return functools.partial(nested_compile_region, max_reuse_entries=max_reuse_entries)
    if not callable(fn):
        raise TypeError(f"nested_compile_region takes a function, not {fn!r}")
    return fn
