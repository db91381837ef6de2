"""Python models of functions of torch, written in C, over lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_Tensors = list[torch.Tensor]
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


def addcdiv(self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, scalars: Any) -> tuple[torch.Tensor, ...]:
    """`torch._foreach_addcdiv` with factors that tensors hold; torch reads them out, this does not."""
    factors = _factors(self, scalars)
    columns = zip(self, tensor1, tensor2, factors, strict=True)
    return tuple([one + numerator / denominator * factor for one, numerator, denominator, factor in columns])


def addcdiv_(self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, scalars: Any) -> _Tensors:
    """`torch._foreach_addcdiv_` likewise."""
    factors = _factors(self, scalars)
    for one, numerator, denominator, factor in zip(self, tensor1, tensor2, factors, strict=True):
        one.add_(numerator / denominator * factor)
    return list(self)


def addcmul(self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, scalars: Any) -> tuple[torch.Tensor, ...]:
    """`torch._foreach_addcmul` likewise."""
    factors = _factors(self, scalars)
    columns = zip(self, tensor1, tensor2, factors, strict=True)
    return tuple([one + left * right * factor for one, left, right, factor in columns])


def addcmul_(self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, scalars: Any) -> _Tensors:
    """`torch._foreach_addcmul_` likewise."""
    factors = _factors(self, scalars)
    for one, left, right, factor in zip(self, tensor1, tensor2, factors, strict=True):
        one.add_(left * right * factor)
    return list(self)


def _factors(tensors: _Tensors, scalars: Any) -> Sequence[torch.Tensor]:
    """The factors, each without dimensions, so that it does not change what dtype the rest has."""
    if isinstance(scalars, (list, tuple)):
        if len(scalars) != len(tensors):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        return scalars
    if scalars.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
    if len(scalars) != len(tensors):
        text = f"Expected length of scalars to match input of length {len(tensors)} but got {len(scalars)} instead."
        raise RuntimeError(text)
    return scalars.unbind()
