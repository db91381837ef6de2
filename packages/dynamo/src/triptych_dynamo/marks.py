"""Marks on tensors that say which of their sizes are symbolic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

# Where torch's own marking functions and ours leave their marks on a tensor.
_DYNAMIC_MARKS = ("_triptych_dynamic_dims", "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
_STATIC_MARKS = ("_triptych_static_dims", "_dynamo_static_indices")


def user_marks(tensor: torch.Tensor) -> tuple[frozenset[int], frozenset[int]]:
    """The dimensions that the user marked as dynamic, and as static."""
    dynamic: set[int] = set()
    static: set[int] = set()
    if tensor.__dict__:
        for name in _DYNAMIC_MARKS:
            dynamic.update(tensor.__dict__.get(name, ()))
        for name in _STATIC_MARKS:
            static.update(tensor.__dict__.get(name, ()))
    return frozenset(dynamic), frozenset(static)


def _mark(tensor: torch.Tensor, dims: int | Sequence[int] | None, name: str) -> None:
    chosen = range(tensor.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    marks = set(tensor.__dict__.get(name, ()))
    marks.update(dim % max(tensor.ndim, 1) for dim in chosen)
    setattr(tensor, name, marks)


def mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int]) -> None:
    """Make dimensions of `tensor` symbolic from the first compile on."""
    _mark(tensor, index, _DYNAMIC_MARKS[0])


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int]) -> None:
    """Like `mark_dynamic`, without complaint where a size turns out to be fixed."""
    _mark(tensor, index, _DYNAMIC_MARKS[0])


def mark_static(tensor: torch.Tensor, index: int | Sequence[int] | None = None) -> None:
    """Keep dimensions of `tensor` (all of them with None) fixed."""
    _mark(tensor, index, _STATIC_MARKS[0])
