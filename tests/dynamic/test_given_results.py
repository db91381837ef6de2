"""Sizes and strides that calls change in place: results written into tensors of other sizes, inputs turned round."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych
from torch.nn import functional as F

from tests.dynamic.rows import Row, over_backends, reset, rows, run

X = torch.arange(6.0).reshape(2, 3)
OTHER = torch.arange(20.0).reshape(4, 5)


def given(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Written into an input."""
    doubled = x * 2
    result = torch.add(doubled, 1, out=y)
    return result is y, result * 3, y.shape


def of_two(x: torch.Tensor, values: torch.Tensor, places: torch.Tensor) -> Any:
    torch.max(x, 1, out=(values, places))
    return values + 1, places + 1


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t_() + 1


def turned_late(x: torch.Tensor) -> Any:
    before = x * 2
    x.t_().mul_(3).unsqueeze_(0)
    return before, x + 1, x.shape


def written_piece(x: torch.Tensor) -> torch.Tensor:
    """A piece of memory that does not fit is left where it is; the result grows apart from it."""
    base = torch.zeros(10)
    return base.sum() + torch.add(x, 1, out=base[2:4])


def last(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).to(memory_format=torch.channels_last)


def make(fn: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: fn


def given_as(name: str, y: torch.Tensor, breaks: int, graphs: int) -> Row:
    return Row(f"given-{name}", make(given), [(X, y)], graphs, breaks)


GIVEN = [
    given_as("too-small", torch.empty(1), 1, 2),
    given_as("empty", torch.empty(0), 1, 2),
    given_as("too-large", torch.empty(9), 1, 2),
    given_as("other-dtype", torch.empty(2, 3, dtype=torch.float64), 0, 1),
    given_as("refused-dtype", torch.empty(2, 3, dtype=torch.int32), 0, 0),
    given_as("transposed", torch.empty(3, 2).t(), 0, 1),
    given_as("strided", torch.empty(4, 6)[::2, ::2], 0, 1),
    Row("given-two", make(of_two), [(X, torch.empty(5), torch.empty(2, dtype=torch.long))], 1, 1),
]
MADE = [
    Row("made-too-small", make(lambda x: torch.add(x * 2, 1, out=torch.empty(1)) * 3), [(X,)], 2, 1),
    Row("made-empty", make(lambda x: torch.add(x * 2, 1, out=torch.empty(0)) * 3), [(X,)]),
    Row("made-piece", make(written_piece), [(X,)], 2, 1),
]
TURNED = [
    Row("turned", make(turned), [(X,)]),
    Row("turned-late", make(turned_late), [(X,)]),
    Row("turned-any-size", make(turned), [(X,), (OTHER,)], dynamic=True),
    Row("turned-late-any-size", make(turned_late), [(X,), (OTHER,)], dynamic=True),
    # The pool gives its result the strides of channels last in place (`as_strided_`).
    Row(
        "pool-channels-last",
        make(lambda x: F.adaptive_avg_pool2d(x * 2, 1) + 1),
        [(last(2, 3, 8, 8),), (last(2, 3, 10, 12),), (last(2, 3, 9, 7),)],
        graphs=2,
    ),
    Row("unsqueezed", make(lambda x: x.unsqueeze_(1) + 1), [(X,)]),
    Row("swapped", make(lambda x: (x.transpose_(0, 1) @ x.clone().t(), x.squeeze_(0).sum(0))), [(X,)]),
    Row("resized-as", make(lambda x, y: torch.sin(x).resize_as_(y) * 2), [(X, X.reshape(3, 2).clone())], 2, 1),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    reset()


@over_backends
@rows(GIVEN + MADE + TURNED)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_as_in_eager(row: Row, backend: str) -> None:
    run(row, backend)


@over_backends
def test_says_what_eager_says(backend: str) -> None:
    compiled = triptych.compile(given, backend=backend)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compiled(X, torch.empty(1))
        assert sum("An output with one or more elements was resized" in str(w.message) for w in said) == 1


def test_backends_are_given_inputs_as_they_come() -> None:
    seen: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        values = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
        seen.extend((tuple(v.shape), v.stride(), v.requires_grad) for v in (*inputs, *values))
        return gm.forward

    weight = torch.ones(2, 3, requires_grad=True)
    result = triptych.compile(lambda w: (w * 1).t_() + w.detach().t_(), backend=backend)(weight)
    triptych.compile(turned, backend=backend)(X.clone())
    assert result.shape == (3, 2)
    assert seen == [((2, 3), (3, 1), True)] * 2 + [((2, 3), (3, 1), False)] * 2
