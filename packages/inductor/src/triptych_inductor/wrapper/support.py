"""Functions that generated wrapper modules call."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def laid_out(tensor: torch.Tensor | None, stride: Sequence[int]) -> torch.Tensor | None:
    """The tensor with the strides that kernels were compiled for; copied where a library call gave others.

    Shape propagation does not know the layout of every library result (LAPACK's are column-major, for instance).
    Strides of dimensions of size 1 do not matter, nor any of a tensor without elements: that keeps the library's own.
    None stays None: some attention kernels leave out results that nobody reads.
    """
    if tensor is None or tensor.stride() == stride or not tensor.numel():
        return tensor
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True)):
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
