"""`nested_compile_region`: functions that a program calls many times, such as the layers of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import triptych_dynamo

from triptych.errors import InvalidOptionError

F = TypeVar("F", bound=Callable[..., Any])


def nested_compile_region(
    fn: F | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable[..., int] | None = None,
) -> Any:
    """Mark a function or method that is called many times inside a compiled region, such as a layer of a model.

    The captured graph has one subgraph for all calls that do the same; autograd traces it once, forward and backward,
    and stamps the result at each call; equal kernels are built once. A call that differs in a size, a constant or a
    branch has a subgraph of its own. Fusion and the choice of what is kept for the backward see no borders, so the
    compiled code is that of the program without the mark. Called eagerly the function is what it was.

    fn: the function; None makes a decorator. options: options of the code generator for this region alone; there are
    none (InvalidOptionError): give them to `compile`. max_reuse_entries: subgraphs kept of this region; a call that
    would need another one is compiled in place. reuse_hash_fn: of a call's arguments: calls for which it gives
    different integers share nothing; it is traced, and gives a constant.

    Example:
        >>> @triptych.compiler.nested_compile_region
        ... def layer(x, weight):
        ...     return torch.relu(x @ weight)
    """
    if options:
        raise InvalidOptionError(
            f"nested_compile_region has no options of its own, but got {sorted(options)}: give them to triptych.compile"
        )
    mark = functools.partial(
        triptych_dynamo.nested_compile_region, max_reuse_entries=max_reuse_entries, reuse_hash_fn=reuse_hash_fn
    )
    return mark(fn)
