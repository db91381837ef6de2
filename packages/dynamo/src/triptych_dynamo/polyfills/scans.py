"""A Python model of torch's associative scan of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def associative_scan(
    combine: Callable[..., Any], leaves: Sequence[torch.Tensor], extra: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Running combinations along the first dimension: of pairs of neighbours, and from them of everything between.

    combine: (leaves of the left, leaves of the right, extra) -> leaves; it works on all places at once.
    """
    count = leaves[0].shape[0]
    if count < 2:
        return list(leaves)
    pairs = _leaves(combine(*[x[0:-1:2] for x in leaves], *[x[1::2] for x in leaves], *extra))
    odd = associative_scan(combine, pairs, extra)
    if count == 2:
        even = [x[:1] for x in leaves]
    else:
        before = [x[: (count - 1) // 2] for x in odd]
        later = _leaves(combine(*before, *[x[2::2] for x in leaves], *extra))
        even = [torch.cat([x[:1], y]) for x, y in zip(leaves, later, strict=True)]
    return [_interleaved(x, y) for x, y in zip(even, odd, strict=True)]


def _leaves(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _interleaved(even: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
    """Elements of both in turn, `even` first."""
    count = odd.shape[0]
    mixed = torch.stack([even[:count], odd], 1).flatten(0, 1)
    return mixed if even.shape[0] == count else torch.cat([mixed, even[count:]])
