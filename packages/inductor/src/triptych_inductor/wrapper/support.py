"""Functions that generated wrapper modules call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch


def laid_out(tensor: torch.Tensor | None, stride: Sequence[int]) -> torch.Tensor | None:
    """The tensor with the strides that kernels were compiled for; copied where a library call gave others.

    Shape propagation does not know the layout of every library result (LAPACK's are column-major, for instance).
    Strides of dimensions of size 1 do not matter. None stays None: some attention kernels leave out results that nobody
    reads.
    """
    if tensor is None or tensor.stride() == stride:
        return tensor
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True)):
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


PIECES = 8
"""Pieces of rows in which a product with odd rows is made: the memory beside the result is this part of it."""


def mm_in_pieces(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None:
    """The first columns of `a @ b`, as many as `out` has: made a piece of rows at a time, and copied.

    Libraries take several times as long to write results whose rows do not start at multiples of sixteen bytes.
    """
    for place, made in _pieces(a, b, out):
        out[place].copy_(made)


def addmm_in_pieces(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None:
    """The first columns of `bias + a @ b`, as `mm_in_pieces`; the bias is added by the copy."""
    for place, made in _pieces(a, b, out):
        given = bias[place] if bias.dim() == 2 and bias.size(0) > 1 else bias
        torch.add(made, given, out=out[place])


def _pieces(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Slices of rows with their part of the product, each in the same memory."""
    rows, columns = out.shape
    step = -(-rows // PIECES)
    memory = torch.empty((step, b.size(1)), dtype=out.dtype, device=out.device)
    for start in range(0, rows, step):
        place, made = slice(start, start + step), memory[: min(step, rows - start)]
        torch.mm(a[place], b, out=made)
        yield place, made[:, :columns]
