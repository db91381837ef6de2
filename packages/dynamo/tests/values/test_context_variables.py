"""Tokens of context variables that were made before the frame, as behind a graph break."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import torch
import triptych_dynamo as td

X = torch.arange(3.0)
SETTING: ContextVar[Any] = ContextVar("setting")
LEVEL: ContextVar[int] = ContextVar("level", default=1)


def over_a_break(x: torch.Tensor) -> Any:
    token = LEVEL.set(5)
    try:
        y = x * LEVEL.get()
        td.graph_break()
        return y + LEVEL.get()
    finally:
        LEVEL.reset(token)


def back_to_nothing(x: torch.Tensor) -> Any:
    token = SETTING.set([x])
    td.graph_break()
    SETTING.reset(token)
    return SETTING.get("none"), x + 1


def set_again(x: torch.Tensor) -> Any:
    token = LEVEL.set(7)
    td.graph_break()
    LEVEL.reset(token)
    again = LEVEL.set(LEVEL.get() + 2)
    seen = LEVEL.get()
    LEVEL.reset(again)
    LEVEL.set(LEVEL.get() + 10)
    return x * seen


def used_twice(x: torch.Tensor) -> Any:
    token = LEVEL.set(3)
    td.graph_break()
    LEVEL.reset(token)
    try:
        LEVEL.reset(token)
    except RuntimeError:
        return x + 1
    return x


def run(fn: Any) -> tuple[Any, Any, Any]:
    return fn(X), LEVEL.get(), SETTING.get("none")


@pytest.mark.parametrize("program", [over_a_break, back_to_nothing, set_again, used_twice])
def test_a_token_from_before_a_break(program: Any) -> None:
    compiled = td.optimize("eager")(program)
    for _ in range(3):
        got, expected = copy_context().run(run, compiled), copy_context().run(run, program)
        assert str(got) == str(expected)


@pytest.mark.parametrize("program", [over_a_break, back_to_nothing, set_again])
def test_it_is_given_back_without_a_break(program: Any) -> None:
    breaks = copy_context().run(td.explain(program), X).breaks
    assert [row.kind for row in breaks] == ["explicit"]


def test_a_token_as_argument() -> None:
    def program(token: Any, x: torch.Tensor) -> torch.Tensor:
        LEVEL.reset(token)
        return x * LEVEL.get()

    compiled = td.optimize("eager")(program)

    def calls(fn: Any) -> list[Any]:
        found = []
        for before in (4, 4, 6):
            LEVEL.set(before)
            token = LEVEL.set(99)
            found += [fn(token, X).tolist(), LEVEL.get()]
            with pytest.raises(RuntimeError, match="already been used"):
                fn(token, X)
        return found

    assert copy_context().run(calls, compiled) == copy_context().run(calls, program)
