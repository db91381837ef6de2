"""A graph that fails at run time leaves what eager leaves: effects before it, the error, its place, its context."""

from __future__ import annotations

import gc
import traceback
import warnings
import weakref
from typing import Any

import failing_programs
import pytest
import torch
import triptych_dynamo
from failing_programs import EFFECTS, FRAMES, OPERATIONS, new_state

BAD, GOOD = 9, 1


def places(error: BaseException) -> list[tuple[str, int | None]]:
    """Where the error passed, in the programs' file."""
    found = traceback.extract_tb(error.__traceback__)
    return [(row.name.rpartition(".")[2], row.lineno) for row in found if row.filename == failing_programs.__file__]


def outcome(fn: Any, operation: str, effect: str, number: int, capsys: Any) -> Any:
    """All that one call does."""
    torch.manual_seed(0)
    state, x = new_state(), torch.linspace(0.5, 0.9, 4, requires_grad=True)
    text: Any
    try:
        text = repr(fn(x, torch.tensor(number), OPERATIONS[operation], EFFECTS[effect], state))
    except Exception as error:
        text = (type(error), str(error), repr(error.__context__), repr(error.__cause__), places(error)[-2:])
    assert torch.is_grad_enabled()
    return text, state.look(), capsys.readouterr().out, torch.rand(1).item()


def check(frame: str, operation: str, effect: str, capsys: Any) -> None:
    compiled = triptych_dynamo.optimize("eager")(FRAMES[frame])
    for number in (GOOD, BAD, GOOD, BAD):
        expected = outcome(FRAMES[frame], operation, effect, number, capsys)
        assert outcome(compiled, operation, effect, number, capsys) == expected, number


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("frame", FRAMES)
def test_operations(frame: str, operation: str, capsys: Any) -> None:
    check(frame, operation, "append", capsys)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("frame", FRAMES)
def test_effects(frame: str, effect: str, capsys: Any) -> None:
    check(frame, "index", effect, capsys)


def test_the_graph_did_run() -> None:
    """What is tested above is not a program that runs plainly in any case."""
    graphs: list[Any] = []
    hooks = triptych_dynamo.Hooks(on_graph=lambda module, inputs: graphs.append(module))
    compiled = triptych_dynamo.optimize("eager", fullgraph=True, hooks=hooks)(FRAMES["whole"])
    for number in (GOOD, BAD, BAD, GOOD):
        state = new_state()
        try:
            compiled(torch.ones(4), torch.tensor(number), OPERATIONS["gather"], EFFECTS["append"], state)
        except RuntimeError:
            assert state.log == ["before"]
    assert len(graphs) == 1


# -- writes ------------------------------------------------------------------------------------------------------------
def write_behind(x: torch.Tensor, index: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """The failure comes before the write."""
    log.append(1)
    picked = x[index]
    x.add_(1)
    return picked


def write_before(x: torch.Tensor, index: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """The failure comes behind a write, which cannot be taken back."""
    log.append(1)
    x.add_(1)
    return x[index]


def test_a_write_that_was_not_reached() -> None:
    compiled, x, log = triptych_dynamo.optimize("eager")(write_behind), torch.ones(3), []
    with pytest.raises(IndexError):
        compiled(x, torch.tensor(9), log)
    assert log == [1]
    assert (x.tolist(), x._version) == ([1, 1, 1], 0)


def test_a_write_is_done_once() -> None:
    compiled, x = triptych_dynamo.optimize("eager")(write_before), torch.ones(3)
    with pytest.raises(IndexError):
        compiled(x, torch.tensor(9), [])
    assert (x.tolist(), x._version) == ([2, 2, 2], 1)


# -- faults of the backend ---------------------------------------------------------------------------------------------
def failing_backend(module: Any, inputs: Any) -> Any:
    """A graph that fails whatever it is given."""

    def run(*args: Any) -> Any:
        raise ZeroDivisionError("of the backend")

    return run


def noting(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
    """A program without fault."""
    log.append("noted")
    return x + 1


def test_a_fault_is_shown() -> None:
    compiled, log = triptych_dynamo.optimize(failing_backend)(noting), []
    with pytest.raises(ZeroDivisionError, match="of the backend"):
        compiled(torch.ones(2), log)


def test_a_fault_is_announced() -> None:
    told: list[str] = []
    options = triptych_dynamo.Options(on_error="eager")
    hooks = triptych_dynamo.Hooks(on_failure=told.append)
    compiled = triptych_dynamo.optimize(failing_backend, options=options, hooks=hooks)(noting)
    log: list[Any] = []
    with pytest.warns(UserWarning, match="ZeroDivisionError: of the backend"):
        assert compiled(torch.ones(2), log).tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(torch.ones(2), log).tolist() == [2, 2]
    assert log == ["noted"] * 2
    assert told == ["ZeroDivisionError: of the backend"] * 2


def test_interrupts_pass() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise KeyboardInterrupt

        return run

    with pytest.raises(KeyboardInterrupt):
        triptych_dynamo.optimize(backend)(noting)(torch.ones(2), [])


def test_nothing_is_kept() -> None:
    """Neither the failed graph's error nor the frames of it stay alive."""
    compiled, x = triptych_dynamo.optimize("eager")(write_behind), torch.ones(3)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor(9), [])
    gone = weakref.ref(x)
    gc.collect()
    gc.disable()
    try:
        try:
            compiled(x, torch.tensor(9), [])
        except IndexError:
            pass
        del x
        assert gone() is None
    finally:
        gc.enable()
