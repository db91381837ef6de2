"""Marks on tensors that say what is known of their sizes: any, within bounds, or fixed.

Marks are attributes of the tensor object. Those that torch's own marking functions leave mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Predicate = Callable[[Any], Any]


@dataclass(frozen=True)
class Mark:
    """What the user said of one dimension.

    Attributes:
        kind: "dynamic" (any size, a size that turns out to be fixed is an error), "maybe" (no error), "unbacked" (no
            decision may depend on it) or "static".
        least, most: bounds of the size; None: none.
        hint: a typical size, for code generators.
        shape_id: dimensions with equal ids have equal sizes.
        specialize_on: conditions that are worth code of their own where they hold.
    """

    kind: str
    least: int | None = None
    most: int | None = None
    hint: int | None = None
    shape_id: Any = None
    specialize_on: tuple[Predicate, ...] = ()

    def allows(self, size: int) -> bool:
        """Whether the size is within the bounds."""
        return (self.least is None or size >= self.least) and (self.most is None or size <= self.most)


# kind -> the attributes that hold such dimensions: ours, and torch's
_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "maybe": ("_triptych_maybe_dims", "_dynamo_weak_dynamic_indices"),
    "dynamic": ("_triptych_dynamic_dims", "_dynamo_dynamic_indices"),
    "unbacked": ("_triptych_unbacked_dims", "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"),
    "static": ("_triptych_static_dims", "_dynamo_static_indices"),
}
_BOUNDS = ("_triptych_dynamic_bounds", "_triptych_unbacked_bounds", "_dynamo_unbacked_bounds")
_HINTS = ("_triptych_hints", "_dynamo_hint_overrides")
_IDS = ("_triptych_shape_ids", "_dynamo_shape_ids")
_SPECIAL = ("_triptych_specialize_on", "_specialize_on")
STATIC_ADDRESS = "_triptych_static_address"
STATIC_CLASS = "_triptych_static_numbers"


def marks_of(tensor: torch.Tensor) -> dict[int, Mark]:
    """The marks of a tensor by dimension; of several for one dimension, static goes first, then unbacked."""
    held = tensor.__dict__
    if not held:
        return {}
    bounds = _merged(held, _BOUNDS)
    bounds |= {row.dim: (row.min, row.max) for row in held.get("_dynamo_dynamic_range", ())}
    hints, ids, special = _merged(held, _HINTS), _merged(held, _IDS), _merged(held, _SPECIAL)
    marks: dict[int, Mark] = {}
    for kind, names in _DIMENSIONS.items():
        for dim in {dim for name in names for dim in held.get(name, ())}:
            least, most = bounds.get(dim, (None, None))
            marks[dim] = Mark(kind, least, most, hints.get(dim), ids.get(dim), tuple(special.get(dim, ())))
    return marks


def _merged(held: dict[str, Any], names: Sequence[str]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for name in names:
        found |= held.get(name) or {}
    return found


def _add(tensor: torch.Tensor, index: int | Sequence[int] | None, kind: str, **facts: tuple[str, Any]) -> None:
    """Mark dimensions. facts: what -> (attribute, value for each of the dimensions)."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a mark needs a tensor, not {type(tensor).__name__}")
    chosen = range(tensor.ndim) if index is None else [index] if isinstance(index, int) else list(index)
    for dim in chosen:
        if not -max(tensor.ndim, 1) <= dim < max(tensor.ndim, 1):
            raise IndexError(f"dimension {dim} is out of range for a tensor of {tensor.ndim} dimensions")
    dims = {dim % max(tensor.ndim, 1) for dim in chosen}
    name = _DIMENSIONS[kind][0]
    setattr(tensor, name, set(tensor.__dict__.get(name, ())) | dims)
    for attribute, value in facts.values():
        if value is not None:
            setattr(tensor, attribute, {**tensor.__dict__.get(attribute, {}), **dict.fromkeys(dims, value)})


def mark_dynamic(
    tensor: torch.Tensor,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Sequence[Predicate] | None = None,
) -> None:
    """Dimensions of `tensor` have any size: one compile serves all, 0 and 1 too where the program allows it.

    Args:
        index: one dimension or several.
        hint_override: a typical size, for cost estimates of code generators; the tensor's own when not given.
        min, max: bounds of the size. Calls outside of them compile anew; a program that needs narrower ones is an
            error.
        specialize_on: conditions on the size (functions of it); where one holds, the code is made for it.

    Raises (the compiled callable does): ConstraintViolationError where the program fixes or narrows the size; the
        message names the line that does.
    """
    bounds = None if min is None and max is None else (min, max)
    _add(
        *(tensor, index, "dynamic"),
        bounds=("_triptych_dynamic_bounds", bounds),
        hint=("_triptych_hints", hint_override),
        special=("_triptych_specialize_on", None if specialize_on is None else tuple(specialize_on)),
    )


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int]) -> None:
    """Like `mark_dynamic`, without complaint where a size turns out to be fixed."""
    _add(tensor, index, "maybe")


def mark_unbacked(
    tensor: torch.Tensor,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Sequence[Predicate] | None = None,
    shape_id: Any = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Dimensions of `tensor` whose size no decision may depend on: a program that branches on one is an error.

    Args:
        strict: has no further meaning here: facts that the program takes for granted are guards in any case.
        shape_id: sizes of dimensions with equal ids are equal.
        hint_override, specialize_on, min, max: as for `mark_dynamic`.
    """
    bounds = None if min is None and max is None else (min, max)
    _add(
        *(tensor, index, "unbacked"),
        bounds=("_triptych_unbacked_bounds", bounds),
        hint=("_triptych_hints", hint_override),
        ids=("_triptych_shape_ids", shape_id),
        special=("_triptych_specialize_on", None if specialize_on is None else tuple(specialize_on)),
    )


def mark_static(tensor: Any, index: int | Sequence[int] | None = None) -> None:
    """Keep dimensions of `tensor` (all of them with None) fixed; of a module class: the numbers of its instances."""
    if isinstance(tensor, type):
        setattr(tensor, STATIC_CLASS, True)
    else:
        _add(tensor, index, "static")


def mark_static_address(tensor: torch.Tensor, guard: bool = True) -> None:
    """The tensor stays where it is in memory; with `guard`, compiled code is for this tensor object alone."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a mark needs a tensor, not {type(tensor).__name__}")
    setattr(tensor, STATIC_ADDRESS, guard)


def is_pinned_by_guard(tensor: torch.Tensor) -> bool:
    """Whether `mark_static_address` asked for a guard on the object."""
    held = tensor.__dict__
    return bool(held) and (held.get(STATIC_ADDRESS) is True or held.get("_dynamo_static_input_type") == "guarded")
