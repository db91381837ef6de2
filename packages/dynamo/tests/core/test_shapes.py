"""Symbolic sizes and numbers: what becomes symbolic, how often it compiles, what the guards say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych_dynamo as td


def compiles(fn: Callable[..., Any], calls: list[tuple[Any, ...]], dynamic: bool | None = None) -> int:
    """How often `fn` compiles over the calls; every result is compared."""
    compiled = td.optimize("eager", fullgraph=True, dynamic=dynamic)(fn)
    for args in calls:
        got, expected = compiled(*args), fn(*args)
        torch.testing.assert_close(got, expected)
        assert type(got) is type(expected)
    return len(td.region_of(compiled).records)


def sizes(*shapes: tuple[int, ...]) -> list[tuple[torch.Tensor]]:
    return [(torch.arange(float(torch.Size(shape).numel())).reshape(shape),) for shape in shapes]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1,
        lambda x: x.reshape(-1),
        lambda x: x.view(x.shape[0] * x.shape[1]),
        lambda x: x.sum() * x.shape[0] + x.size(1) // 2,
        lambda x: torch.cat([x, x]).reshape(2, -1),
        lambda x: x.mean(0) + torch.zeros(x.shape[1]),
        lambda x: x[: x.shape[0] // 2],
        lambda x: x.flatten() * x.numel(),
        lambda x: x.t().contiguous() @ x,
        lambda x: (x.shape[0], x.shape[0] * 2 + 1, len(x), x.numel()),
        lambda x: x.chunk(2, dim=0)[0],
        lambda x: torch.arange(x.shape[0]),
        lambda x: x.expand(3, *x.shape).sum(),
    ],
)
def test_changed_size_becomes_symbolic(fn: Callable[..., Any]) -> None:
    assert compiles(fn, sizes((4, 3), (6, 3), (8, 3), (10, 3))) == 2


def test_dynamic_true_compiles_once() -> None:
    assert compiles(lambda x: x.reshape(-1) * 2, sizes((4, 3), (5, 7), (9, 2)), dynamic=True) == 1


def test_zero_and_one_are_sizes_like_others() -> None:
    assert compiles(lambda x: x * 2, sizes((4,), (3,), (1,), (0,), (7,)), dynamic=True) == 1


def test_dynamic_false_specialises() -> None:
    assert compiles(lambda x: x * 2, sizes((4,), (5,), (6,)), dynamic=False) == 3


def test_branch_on_a_size_is_guarded() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 5 else x - 1

    assert compiles(fn, sizes((4,), (8,), (9,), (3,), (20,), (2,))) == 3


def test_equal_sizes_share_a_symbol_under_guard() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y]) * x.shape[0]

    calls = [(torch.ones(n), torch.ones(m)) for n, m in ((3, 3), (4, 4), (5, 5), (5, 6), (7, 8))]
    assert compiles(fn, calls) == 3


def test_int_argument_becomes_symbolic() -> None:
    def fn(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int, bool]:
        return x * n + n // 2, n * n - 1, n > 1

    assert compiles(fn, [(torch.ones(2), n) for n in (3, 5, 7, 100)]) == 2


def test_int_argument_as_size_and_offset() -> None:
    def fn(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        return torch.zeros(n) + 1, x.narrow(0, n, 2), [n] * 2

    assert compiles(fn, [(torch.arange(20.0), n) for n in (3, 5, 7)]) == 2


def test_loop_over_a_size_specialises() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        total = x[0] * 0
        for i in range(x.shape[0]):
            total = total + x[i]
        return total

    assert compiles(fn, sizes((3,), (4,), (5,))) == 3


def test_marks() -> None:
    x, y = torch.ones(4, 3), torch.ones(6, 3)
    td.mark_dynamic(x, 0)
    assert compiles(lambda x: x * 2, [(x,), (y,)]) == 1
    a, b, c = torch.ones(4), torch.ones(5), torch.ones(6)
    for item in (a, b, c):
        td.mark_static(item)
    assert compiles(lambda x: x * 2, [(a,), (b,), (c,)]) == 3


def test_training_with_symbolic_batch() -> None:
    weight = torch.randn(3, 2, requires_grad=True)
    compiled = td.optimize("eager", fullgraph=True)(lambda x, w: (x @ w).relu().sum())
    for rows in (2, 4, 6):
        x = torch.randn(rows, 3)
        (got,) = torch.autograd.grad(compiled(x, weight), weight)
        (expected,) = torch.autograd.grad((x @ weight).relu().sum(), weight)
        torch.testing.assert_close(got, expected)
    assert len(td.region_of(compiled).records) == 2


def test_strides_of_symbolic_inputs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous().view(-1) if not x.is_contiguous() else x.view(-1) * 2

    calls = [(torch.ones(4, 3),), (torch.ones(5, 3),), (torch.ones(3, 6).t(),), (torch.ones(3, 7).t(),)]
    compiles(fn, calls)


def test_views_as_symbolic_inputs() -> None:
    base = torch.arange(60.0)
    calls = [(base[3 : 3 + n],) for n in (4, 5, 6)] + [(base[: 2 * n : 2],) for n in (4, 5, 6)]
    compiles(lambda x: x * 2 + x.shape[0], calls)
