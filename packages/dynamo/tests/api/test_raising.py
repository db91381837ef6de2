"""Exceptions that leave a compiled callable: eager's own, and traced once for all calls that raise alike."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo.compile_frame import FrameCompiler

X = torch.ones(3)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the frames that were traced."""
    found: list[str] = []
    compile_frame = FrameCompiler.compile

    def counted(self: FrameCompiler, layout: Any, *rest: Any) -> Any:
        found.append(layout.origin.co_name)
        return compile_frame(self, layout, *rest)

    monkeypatch.setattr(FrameCompiler, "compile", counted)
    yield found


def run(fn: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The exception's type, text and the place where it was raised, or the result."""
    try:
        result = fn(*args)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return type(error), str(error), (place.name, place.lineno), type(error.__context__)
    return ("result", result.tolist())


def checked(x: torch.Tensor, limit: Any = 3) -> torch.Tensor:
    if x.shape[0] > limit:
        raise ValueError("too long")
    return x * 2


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.view(5)


def nested(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    try:
        return inner(y)
    except RuntimeError:
        return y[7]


def written(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
    seen.append(len(seen))
    x.add_(1)
    raise KeyError("after the effects")


def computed(x: torch.Tensor) -> torch.Tensor:
    return x @ x.reshape(1, -1) @ x


@pytest.mark.parametrize("program", [nested, computed, lambda x: checked(x, 2), lambda x: checked(x, None)])
def test_a_raising_call_is_traced_once(program: Any, traces: list[str]) -> None:
    compiled, first = td.optimize("eager")(program), 0
    for _ in range(4):
        assert run(compiled, X.clone()) == run(program, X.clone())
        first = first or len(traces)
    assert len(traces) == first  # the program, and what it calls


def test_calls_that_raise_and_calls_that_do_not_have_entries_of_their_own(traces: list[str]) -> None:
    compiled = td.optimize("eager")(checked)
    for n in (2, 5, 3, 6, 2, 5, 4, 1, 9):
        assert run(compiled, torch.ones(n)) == run(checked, torch.ones(n))
    assert len(traces) <= 4, traces  # size 2; longer ones; any that are short enough; 1


def test_effects_before_the_exception_happen_once() -> None:
    compiled = td.optimize("eager")(written)
    seen, x = [0, 1], torch.zeros(2)
    for number in range(3):
        with pytest.raises(KeyError, match="after the effects"):
            compiled(x, seen)
        assert seen == list(range(3 + number)) and x.tolist() == [number + 1.0] * 2


def test_what_is_raised_under_other_facts_is_not_taken_for_granted(traces: list[str]) -> None:
    limits = {"most": 2}

    def program(x: torch.Tensor) -> torch.Tensor:
        return checked(x, limits["most"])

    compiled = td.optimize("eager")(program)
    assert run(compiled, X)[0] is ValueError
    limits["most"] = 3
    assert run(compiled, X) == ("result", [2.0, 2.0, 2.0])
    limits["most"] = 2
    assert run(compiled, X)[0] is ValueError
    assert traces.count("program") == 2


def test_a_frame_behind_a_break_raises(traces: list[str]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        td.graph_break()
        return checked(x, 2)

    compiled = td.optimize("eager")(program)
    for _ in range(4):
        assert run(compiled, X)[:2] == (ValueError, "too long")
    assert traces == ["program", "program", "checked"]
    assert run(compiled, torch.ones(2)) == ("result", [2.0, 2.0])


def test_exceptions_have_a_limit_of_their_own(traces: list[str]) -> None:
    def program(x: torch.Tensor, key: str) -> torch.Tensor:
        return x * {"one": 1}[key]

    compiled = td.optimize("eager", recompile_limit=2)(program)
    for key in ("a", "b", "c", "d", "a", "b"):
        assert run(compiled, X, key)[:2] == (KeyError, repr(key))
    assert run(compiled, X, "one") == ("result", [1.0, 1.0, 1.0])
    assert len(traces) == 5 and len(td.explain(compiled)(X, "one").graphs) == 1
