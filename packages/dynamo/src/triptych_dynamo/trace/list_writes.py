"""Writes that fake tensors do not count: operators that write lists of tensors (`torch._foreach_add_`, the fused steps
of optimisers, a list that is given as `out`).

A trace finds writes by the version counters of fake tensors. Autograd counts the tensors of a list on their way through
it, and not at all for some operators, so here they are counted from the operator's schema.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from triptych_dynamo._torch_compat import tensor_version

_Place = tuple[int, str]  # an argument: by position, by name


@functools.cache
def _written(target: Any) -> tuple[_Place, ...]:
    """The arguments that a function writes, when it writes a list among them."""
    places: dict[_Place, bool] = {}
    for overload in _overloads(target):
        for position, argument in enumerate(overload._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                key = (-1 if argument.kwarg_only else position, argument.name)
                places[key] = places.get(key, False) or str(argument.type).startswith("List")
    return tuple(places) if any(places.values()) else ()


def _overloads(target: Any) -> list[Any]:
    if isinstance(target, torch._ops.OpOverload):
        return [target]
    if not isinstance(target, torch._ops.OpOverloadPacket):
        name = getattr(target, "__name__", "")
        if not name.endswith("_") or name.endswith("__") or getattr(torch, name, None) is not target:
            return []
        target = getattr(torch.ops.aten, name, None)
    return [getattr(target, name) for name in target.overloads()] if target is not None else []


def _tensors(value: Any) -> list[torch.Tensor]:
    items = value if isinstance(value, (list, tuple)) else (value,)
    return [item for item in items if isinstance(item, torch.Tensor)]


class CountedWrites:
    """Counts, in one call of `target` on fake tensors, the writes that autograd does not count.

    `before` the call it notes the versions; `after` it whatever should have been written and has the same version is
    counted.
    """

    def __init__(self, target: Any, args: Any, kwargs: Any) -> None:
        self._tensors: list[torch.Tensor] = []
        places = _written(target) if not isinstance(target, str) else ()
        if isinstance(kwargs.get("out"), (list, tuple)):
            self._tensors += _tensors(kwargs["out"])
        for position, name in places:
            self._tensors += _tensors(args[position] if 0 <= position < len(args) else kwargs.get(name))
        self._versions = [tensor_version(tensor) for tensor in self._tensors]

    def count(self) -> None:
        for tensor, version in zip(self._tensors, self._versions, strict=True):
            if tensor_version(tensor) == version and not tensor.is_inference():
                torch.autograd.graph.increment_version(tensor)
