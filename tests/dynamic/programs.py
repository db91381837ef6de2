"""Programs with `assert` statements, which pytest rewrites in test modules."""

from __future__ import annotations

import torch


def asserted(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    u = n.item()
    assert u < 4, "small ones only"
    return x[:u] + u


def tensor_asserted(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    assert n < 4
    assert (x > 0).all(), "positive"
    return x * n
