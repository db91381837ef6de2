"""Branches on what only the run knows, one way of which raises: the graph goes the other way and checks that."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych_dynamo as td
from raising_programs import BROKEN, WHOLE, if_any, if_not_all, that_wrote_an_input

GOOD, BAD = torch.tensor([0.5, 0.25]), torch.tensor([float("nan"), 3.0])
INPUTS = (GOOD, BAD, GOOD, torch.tensor([7.0, 2.0]), -GOOD)


def outcome(fn: Callable[..., Any], x: torch.Tensor, program: Callable[..., Any]) -> tuple[Any, ...]:
    """What a call gives or raises, at which line, and what it leaves behind."""
    torch.manual_seed(0)
    random.seed(0)
    x, log = x.clone().requires_grad_(program is not that_wrote_an_input), []
    with torch.set_grad_enabled(x.requires_grad):
        try:
            result = fn(x, log)
        except Exception as error:
            (*_, last) = traceback.extract_tb(error.__traceback__)
            found: Any = type(error), str(error), repr(error.__cause__), last.lineno, last.name
        else:
            gradient = torch.autograd.grad(result.sum(), x)[0].tolist() if x.requires_grad else None
            found = result.tolist(), gradient
    return found, log, repr(x.tolist()), torch.rand(1).item()


@pytest.mark.parametrize("program", [*WHOLE, *BROKEN], ids=lambda program: program.__name__)
def test_like_plain_python(program: Callable[..., Any]) -> None:
    compiled = td.optimize("eager", fullgraph=program in WHOLE)(program)
    for x in INPUTS:
        assert repr(outcome(compiled, x, program)) == repr(outcome(program, x, program))


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_breaks(program: Callable[..., Any]) -> None:
    assert td.explain(program)(GOOD.clone(), []).graph_break_count == BROKEN[program]


def test_one_graph_whatever_happens() -> None:
    graphs: list[Any] = []
    compiled = td.optimize(lambda module, inputs: graphs.append(module) or module.forward)(if_any)
    for x in INPUTS * 2:
        try:
            compiled(x, [])
        except ValueError:
            assert x is BAD
    assert len(graphs) == 1


def test_a_graph_that_leaves_the_program_has_no_such_check() -> None:
    with pytest.raises(td.GraphBreakError, match="DYN0006"):
        td.capture(if_not_all)(GOOD, [])


def _small(x: torch.Tensor) -> torch.Tensor:
    if (x > 2).any():
        raise ValueError("big")
    return (x * x).sum()


@pytest.mark.parametrize(
    "program",
    [
        torch.func.grad(_small),
        torch.func.hessian(_small),
        lambda x: torch.func.jvp(_small, (x,), (torch.ones(2),))[1],
        lambda x: torch.func.vjp(_small, x)[1](torch.ones(()))[0],
    ],
    ids=["grad", "hessian", "jvp", "vjp"],
)
def test_transforms_are_left(program: Callable[..., Any]) -> None:
    compiled = td.optimize("eager")(lambda x: program(x))
    for _ in range(2):
        assert torch.equal(compiled(GOOD), program(GOOD))
        with pytest.raises(ValueError, match="big"):
            compiled(GOOD + 9)
        assert torch._C._functorch.peek_interpreter_stack() is None
        with torch.autograd.forward_ad.dual_level():
            pass
