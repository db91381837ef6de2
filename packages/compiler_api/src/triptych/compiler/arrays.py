"""`wrap_numpy`: functions of numpy arrays as functions of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.utils._pytree import tree_map
from triptych_dynamo.runtime_arrays import array_as_tensor, tensor_as_array


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors made of a function of numpy arrays; arrays in nests of containers too.

    Compiled, numpy's functions become tensor operators, and gradients flow through them. Called eagerly it runs numpy
    itself on the tensors' memory, for tensors on the CPU that need no gradient.

    Example:
        >>> @triptych.compile
        ... @triptych.compiler.wrap_numpy
        ... def fn(a):
        ...     return np.sum(a * a)
    """

    if not callable(fn):
        raise TypeError(f"wrap_numpy takes a function, not {fn!r}")

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(tensor_as_array, (args, kwargs))
        return tree_map(array_as_tensor, fn(*args, **kwargs))

    return wrapped
