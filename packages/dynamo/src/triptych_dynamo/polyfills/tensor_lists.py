"""Python models of functions of torch, written in C, over lists of tensors."""

from __future__ import annotations

from typing import Any

import torch

_Lists = list[list[torch.Tensor | None]]


def group_by_device_and_dtype(
    tensorlistlist: _Lists, with_indices: bool = False
) -> dict[Any, tuple[_Lists, list[int]]]:
    """Columns of the lists (some may be empty), grouped by what the tensor in the first of them is."""
    first = tensorlistlist[0]
    if any(len(tensors) not in (0, len(first)) for tensors in tensorlistlist):
        raise RuntimeError("the lists of tensors to be grouped differ in length")
    groups: dict[Any, tuple[_Lists, list[int]]] = {}
    for index, leader in enumerate(first):
        assert leader is not None
        group = groups.setdefault((leader.device, leader.dtype), ([[] for _ in tensorlistlist], []))
        for column, tensors in zip(group[0], tensorlistlist, strict=True):
            if tensors:
                column.append(tensors[index])
        if with_indices:
            group[1].append(index)
    return groups
