"""Sizes of 0 and 1 under `dynamic=True`: one compile for all sizes, where the program does not branch on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triptych
from torch.nn import functional as F

from tests.dynamic.rows import assert_same, outcome, over_backends

SIZES = (2, 5, 1, 0, 7)


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7 - 1


WEIGHT, KERNEL, TABLE = numbers(4, 3), numbers(6, 3, 3, 3), numbers(10, 4)


def filled(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 1.0
    return y


def heads(x: torch.Tensor) -> torch.Tensor:
    """A copy that is a view at size 1, seen by nobody."""
    return x.view(-1, 2, 2).transpose(0, 1).reshape(2, -1) * 2


PROGRAMS = {
    "elementwise": lambda x: (x.sin() + 1) * x,
    "flip": lambda x: x + x.flip(0),
    "reshape": lambda x: x.reshape(x.shape[0], 2, 2) + 1,
    "reshape-rest": lambda x: (x.reshape(-1, 2) * 2, x.flatten() + 1, x.view(-1)),
    "broadcast-pairs": lambda x: x[:, None] * x[None],
    "broadcast-row": lambda x: x + numbers(1, 4),
    "broadcast-sum": lambda x: x + x.sum(1, keepdim=True),
    "broadcast-mean": lambda x: x - x.mean(0, keepdim=True),
    "expand": lambda x: x.unsqueeze(1).expand(-1, 3, -1) + 1,
    "product": lambda x: x @ WEIGHT,
    "products": lambda x: (x @ x.t(), x.t() @ x),
    "einsum": lambda x: torch.einsum("bi,ij->bj", x, WEIGHT),
    "linear": lambda x: F.gelu(F.linear(x, WEIGHT.t())),
    "conv": lambda x: F.conv2d(x.reshape(-1, 1, 1, 4).expand(-1, 3, 4, 4), KERNEL, padding=1),
    "pool": lambda x: F.max_pool1d(x[:, None], 2),
    "softmax": lambda x: (x.softmax(1), x.softmax(0)),
    "cat": lambda x: (torch.cat([x, x * 2]), torch.cat([x, x * 2], 1), torch.stack([x, x + 1])),
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(1)),
    "mean": lambda x: (x.mean(), x.var(0), x.std(1)),
    "scan": lambda x: x.cumsum(0),
    "sort": lambda x: (x.sort(0)[0], x.topk(2, 1)[0], x.argmax(1)),
    "layer-norm": lambda x: F.layer_norm(x, (4,)),
    "embedding": lambda x: F.embedding(torch.arange(x.shape[0]), TABLE),
    "factories": lambda x: (torch.zeros(x.shape[0], 3) + 1, torch.arange(x.shape[0]) * 2, torch.ones_like(x)),
    "number": lambda x: (x * len(x), x.sum(0) / max(x.shape[0], 1), x.numel()),
    "slice": lambda x: (x[1:], x[:, 1:], x[:-1] * 2),
    "split": lambda x: (x.split(2, 1), x.repeat(2, 1), F.pad(x, (1, 1))),
    "loss": lambda x: (F.mse_loss(x, x * 2), F.cross_entropy(x, torch.zeros(len(x)).long(), reduction="sum")),
    "heads": heads,
    "written": filled,
    "masked": lambda x: (torch.where(x > 0, x, 0.0), (x @ x.t()).tril(), (x > 0).any(0)),
}


@over_backends
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compile_serves_all_sizes(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = triptych.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for n in SIZES:
        assert_same(compiled(numbers(n, 4)), program(numbers(n, 4)))
    assert len(triptych.report(compiled).graphs) == 1


@over_backends
def test_one_compile_trains_all_sizes(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.linear(x, WEIGHT.t()).relu(), (3,)).tanh()

    compiled = triptych.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for n in SIZES:
        call = (numbers(n, 4).requires_grad_(),)
        for got, expected in zip(outcome(compiled, call, True), outcome(program, call, True), strict=True):
            assert_same(got, expected)
    assert len(triptych.report(compiled).graphs) == 1


def written_copy(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().add_(1)


def written_base(x: torch.Tensor) -> Any:
    y = x + 0
    z = y.t().reshape(-1)
    y.mul_(2)
    return z


def seen_copy(x: torch.Tensor) -> torch.Tensor:
    return x.t().flatten()


@over_backends
@pytest.mark.parametrize("program", [written_copy, written_base, seen_copy])
def test_a_copy_that_is_a_view_at_size_one_is_decided(program: Any, backend: str) -> None:
    compiled = triptych.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for n in (3, 1, 0, 5):
        x, y = numbers(n, 4), numbers(n, 4)
        expected, got = program(x), compiled(y)
        assert_same(got, expected)
        assert_same(y, x)
        assert (got.data_ptr() == y.data_ptr()) == (expected.data_ptr() == x.data_ptr())
    assert len(triptych.report(compiled).graphs) == 3
