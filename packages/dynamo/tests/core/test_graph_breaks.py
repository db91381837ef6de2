"""Programs with graph breaks give eager's values, identities, side effects in order, and exceptions."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
import triptych_dynamo
from nested_programs import GRAPHS
from nested_programs import PROGRAMS as NESTED
from programs import PROGRAMS

ALL = {**PROGRAMS, **{f"nested_{name}": fn for name, fn in NESTED.items()}}


def run(fn: Any, x: torch.Tensor) -> tuple[Any, list[Any]]:
    """The outcome of a program and what it noted."""
    log: list[Any] = []
    try:
        result = ("value", fn(x, log))
    except Exception as error:
        result = ("error", (type(error), str(error)))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    return result, log


def same(got: Any, expected: Any) -> None:
    """Equal through containers, types included."""
    assert type(got) is type(expected), f"{got!r} for {expected!r}"
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert got.requires_grad == expected.requires_grad
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), f"{got!r} for {expected!r}"
        for one, other in zip(got, expected):
            same(one, other)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            same(got[key], expected[key])
    elif type(expected).__eq__ is not object.__eq__:
        assert got == expected


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_like_eager(name: str, requires_grad: bool) -> None:
    fn = ALL[name]
    compiled = triptych_dynamo.optimize("eager")(fn)
    for shift in (0.0, 0.0, -10.0):
        x = (torch.arange(1.0, 4.0) + shift).requires_grad_(requires_grad)
        if name == "input_is_written" and requires_grad:
            x = x.detach()
        expected = run(fn, x)
        same(run(compiled, x), expected)


@pytest.mark.parametrize("name", GRAPHS)
def test_callers_go_on_in_the_callees_graph(name: str) -> None:
    assert triptych_dynamo.explain(NESTED[name])(torch.ones(3), []).graph_count == GRAPHS[name]


def test_breaks_are_reported_in_order() -> None:
    explanation = triptych_dynamo.explain(PROGRAMS["several"])(torch.ones(3), [])
    assert [item.id for item in explanation.breaks] == ["DYN0014"] * 3
    lines = [int(item.place.rsplit(":", 1)[1]) for item in explanation.breaks]
    first = PROGRAMS["several"].__code__.co_firstlineno
    assert [line - first for line in lines] == [3, 5, 6]
    assert explanation.graph_count == 3
    assert "say is disabled" in str(explanation)


def branched(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x.cos() * 2
    return x.sin() - 1


def in_a_loop(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 40:
        x = x * 2 + 1
    return x.exp()


def with_a_conjunction(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0 and x.max() > 8:
        return x.cos() * 2
    return x.sin() - 1


@pytest.mark.parametrize("program, wanted", [(branched, 3), (in_a_loop, 3), (with_a_conjunction, 4)])
def test_where_a_branch_leads_is_compiled_on_either_side(program: Any, wanted: int) -> None:
    graphs = []
    compiled = triptych_dynamo.optimize(lambda module, _: graphs.append(module) or module)(program)
    for value in (-1.0, 1.0, 10.0, -1.0):
        x = torch.full((3,), value) if program is not in_a_loop else torch.full((3,), abs(value))
        torch.testing.assert_close(compiled(x), program(x))
    assert len(graphs) == wanted


def test_second_call_compiles_nothing() -> None:
    compiled = triptych_dynamo.optimize("eager")(PROGRAMS["nested_with"])
    x = torch.arange(3.0)
    compiled(x, [])
    before = len(triptych_dynamo.region_of(compiled).records)
    compiled(x, [])
    assert len(triptych_dynamo.region_of(compiled).records) == before


def test_loops_do_not_grow_the_stack() -> None:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(400):
            x = x + 1
            triptych_dynamo.graph_break()
        return x

    compiled = triptych_dynamo.optimize("eager")(loop)
    assert compiled(torch.zeros(1)).item() == 400
    assert len(triptych_dynamo.region_of(compiled).records) < 8


def test_a_generator_alive_at_a_break_runs_by_itself() -> None:
    """A cut before the generator began: from there on it is a real one, whose end runs when plain Python runs it."""
    found = triptych_dynamo.explain(NESTED["generator_alive_at_break"])(torch.ones(3), [])
    assert [item.reason for item in found.breaks][:2] == ["say is disabled", "generator.__next__, written in C"]


def test_what_is_dead_at_a_break_is_freed() -> None:
    seen: list[Any] = []

    @triptych_dynamo.disable
    def alive() -> list[bool]:
        return [reference() is not None for reference in seen]

    @triptych_dynamo.disable
    def note(x: torch.Tensor) -> None:
        seen.append(weakref.ref(x))

    def fn(x: torch.Tensor) -> list[list[bool]]:
        y = x * 2
        note(y)
        y = y.sin() + 1
        triptych_dynamo.graph_break()
        first = alive()
        y = y * 3
        note(y)
        y = (y + 1) * 2
        triptych_dynamo.graph_break()
        return [first, alive(), [bool(y.sum() > 0)]]

    compiled = triptych_dynamo.optimize("eager")(fn)
    for _ in range(2):
        seen.clear()
        assert compiled(torch.ones(3)) == [[False], [False, False], [True]]
