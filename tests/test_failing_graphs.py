"""Graphs of the whole stack that fail at run time: what was done before, and what the program catches, is eager's."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych


@triptych.compiler.disable
def stop(log: list[Any]) -> None:
    """A graph break."""
    log.append("stop")


def picks(x: torch.Tensor, number: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """A kernel of ours that checks an index."""
    log.append("before")
    return (x.sin() + 1)[number] * 2


def looks_up(x: torch.Tensor, number: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """An embedding behind a break, with gradients."""
    log.append("before")
    stop(log)
    log.append("behind")
    return torch.nn.functional.embedding(number, x.reshape(-1, 1) * 2).sum()


def factors(x: torch.Tensor, number: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """An operator of the library that fails; the program handles that."""
    try:
        log.append("before")
        return torch.linalg.cholesky(torch.eye(2) * (3 - number)) + x[0]
    except torch.linalg.LinAlgError as error:
        log.append(str(error)[:30])
        return x * 2


def drops(x: torch.Tensor, number: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """Random numbers before the failure."""
    log.append("before")
    return torch.nn.functional.dropout(x, 0.5)[number] + torch.rand(1)


def meets_itself(x: torch.Tensor, number: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """A write that reads a part of what it writes, in a form of which functional graphs know nothing."""
    log.append("before")
    made = x.detach().reshape(2, 2) * number
    made += made[0]
    return made


def outcome(fn: Callable[..., Any], number: int) -> Any:
    """What one call does."""
    torch.manual_seed(0)
    log: list[Any] = []
    x = torch.linspace(0.5, 0.9, 4, requires_grad=True)
    result: Any = None
    try:
        result = fn(x, torch.tensor(number), log)
        failure = None
    except Exception as error:
        rows = traceback.extract_tb(error.__traceback__)
        failure = (type(error), str(error), [row.lineno for row in rows if row.filename == __file__][-1])
    return result, failure, log, torch.is_grad_enabled(), torch.rand(1)


@pytest.mark.parametrize("fn", [picks, looks_up, factors, drops, meets_itself])
def test_like_eager(fn: Callable[..., Any]) -> None:
    compiled = triptych.compile(fn)
    for number in (1, 9, 1, 9):
        expected, got = outcome(fn, number), outcome(compiled, number)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1:4] == expected[1:4]
        assert torch.equal(got[4], expected[4])
