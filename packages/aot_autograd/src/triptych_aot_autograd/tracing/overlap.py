"""Inputs that share memory: found on the example inputs, to be held against what the function writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one-past-last byte that the tensor can reach, within its storage."""
    if tensor.numel() == 0:
        return (0, 0)
    item = tensor.element_size()
    start = tensor.storage_offset() * item
    reach = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return (start, start + (reach + 1) * item)


class OverlappingInputs:
    """Pairs of inputs whose memory may overlap."""

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = pairs

    def harmful(self, written: Sequence[int]) -> str:
        """Why the function cannot be compiled with these inputs, or '': an overlap that the function writes into."""
        for first, second in self.pairs:
            if first in written or second in written:
                return f"inputs {first} and {second} share memory, and the function writes into it"
        return ""


def overlapping_inputs(inputs: Sequence[Any]) -> OverlappingInputs:
    """All pairs of tensor inputs that may share memory (ranges compared where sizes are known)."""
    by_storage: dict[Any, list[int]] = {}
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            by_storage.setdefault(value.untyped_storage()._cdata, []).append(index)
    pairs = []
    for group in by_storage.values():
        for at, first in enumerate(group):
            pairs += [(first, second) for second in group[at + 1 :] if _may_overlap(inputs[first], inputs[second])]
    return OverlappingInputs(pairs)


def _may_overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    numbers = (*first.size(), *first.stride(), *second.size(), *second.stride())
    if not all(type(n) is int for n in numbers):
        return True
    (a, b), (c, d) = memory_range(first), memory_range(second)
    return a < d and c < b
