"""How programs steer graph breaks: errors in parts of a program, frames that are skipped, breaks that are asked for."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
import triptych_dynamo as td

X = torch.ones(2)


@td.disable
def speak(x: torch.Tensor) -> torch.Tensor:
    return x


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    speak(y)
    return y * 2


def test_errors_inside_of_the_block_only() -> None:
    def fn(x: torch.Tensor, strict: bool) -> torch.Tensor:
        y = breaks(x)
        with td.error_on_graph_break(strict):
            y = breaks(y)
        return y - 1

    compiled = td.optimize("eager")(fn)
    assert torch.equal(compiled(X, False), fn(X, False))
    with pytest.raises(td.GraphBreakError, match="DYN0014"):
        compiled(X, True)
    assert torch.equal(compiled(X, False), fn(X, False))


def test_the_setting_holds_over_a_break_inside_of_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with td.error_on_graph_break(False):
            y = breaks(x)
            with td.error_on_graph_break(True):
                y = y + 1
            y = breaks(y)
        return y

    with td.error_on_graph_break(True):
        assert torch.equal(td.optimize("eager")(fn)(X), fn(X))

    def then_fails(x: torch.Tensor) -> torch.Tensor:
        y = fn(x)
        return breaks(y)

    with td.error_on_graph_break(True), pytest.raises(td.GraphBreakError):
        td.optimize("eager")(then_fails)(X)


def test_breaks_allowed_under_fullgraph() -> None:
    @td.error_on_graph_break(False)
    def allowed(x: torch.Tensor) -> torch.Tensor:
        return breaks(x)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return allowed(x) + 1

    assert torch.equal(td.optimize("eager", fullgraph=True)(fn)(X), fn(X))
    with pytest.raises(td.GraphBreakError):
        td.optimize("eager", fullgraph=True)(lambda x: allowed(x) + breaks(x))(X)
    with pytest.raises(td.GraphBreakError):  # the error left the block of the policy behind
        td.optimize("eager", fullgraph=True)(breaks)(X)


class Noting:
    """A manager that notes its exit."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> None:
        self.log.append(f"in {self.name}")

    def __exit__(self, kind: Any, *details: Any) -> None:
        self.log.append(f"out {self.name} {kind.__name__ if kind else None}")


def _in_blocks(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    with Noting(log, "block"), torch.no_grad(), td.error_on_graph_break(False):
        y = breaks(x)
        with td.error_on_graph_break(True):
            try:
                y = breaks(y)
            finally:
                log.append("finally")
    return y


def _behind_the_policy(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    try:
        with td.error_on_graph_break(False):
            y = breaks(x)
        log.append("between")
        return breaks(y)
    except RuntimeError as error:
        log.append(type(error).__name__)
        return x * 3


def _in_a_callee(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    with Noting(log, "outer"):
        y = _in_blocks(x, log) + 1
    return y


def _with_a_cell(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    kept = x + 1

    def inner() -> torch.Tensor:
        return kept * 2

    with Noting(log, "cell"):
        with td.error_on_graph_break(False):
            y = breaks(x)
        kept = breaks(y)
        return inner()


LEFT = {
    _in_blocks: ["in block", "finally", "out block GraphBreakError"],
    _behind_the_policy: ["between", "GraphBreakError"],
    _in_a_callee: ["in outer", "in block", "finally", "out block GraphBreakError", "out outer GraphBreakError"],
    _with_a_cell: ["in cell", "out cell GraphBreakError"],
}


@pytest.mark.parametrize("fn", LEFT)
def test_blocks_are_left_by_the_error(fn: Any) -> None:
    """An error behind a break comes from the frame itself, whose own code leaves what earlier pieces entered."""
    compiled = td.optimize("eager")(fn)
    for _ in range(2):
        log: list[str] = []
        with td.error_on_graph_break(True):
            try:
                compiled(X, log)
            except td.GraphBreakError as error:
                lines = [row.lineno for row in traceback.extract_tb(error.__traceback__) if row.filename == __file__]
                first = fn.__code__.co_firstlineno
                assert len(lines) > 1 and any(line is not None and line > first for line in lines[1:])
            else:
                assert fn is _behind_the_policy
            assert log == LEFT[fn] and torch.is_grad_enabled()
            with pytest.raises(td.GraphBreakError):
                td.optimize("eager")(breaks)(X)
    log, plain = [], []
    expected = fn(X, plain)
    if fn is not _in_blocks and fn is not _in_a_callee:
        assert torch.equal(compiled(X, log), expected) and log == plain


def test_around_the_call() -> None:
    compiled = td.optimize("eager")(breaks)
    with td.error_on_graph_break(True), pytest.raises(td.GraphBreakError):
        compiled(X)
    assert torch.equal(compiled(X), breaks(X))
    with pytest.raises(TypeError, match="True or False"):
        td.error_on_graph_break(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [td.skip_frame, td.disable(recursive=False)])
def test_a_skipped_frame_runs_plainly_and_its_callees_are_compiled(how: Any) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def middle(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2) * 3

    skipped = how(middle)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return skipped(x + 1) - 1

    found = td.explain(fn)(X)
    assert torch.equal(found.result, fn(X))
    assert found.ops_per_graph == [["add"], ["sin", "add"], ["sub"]]
    assert [item.reason.endswith("middle is skipped") for item in found.breaks] == [True]
    assert td.explain(skipped)(X).ops_per_graph == [["sin", "add"]]


def test_comprehensions_of_a_skipped_frame_are_no_breaks() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    @td.skip_frame
    def skipped(x: torch.Tensor, times: tuple[int, ...]) -> dict[int, torch.Tensor]:
        return {n: inner(x) for n in [m * 2 for m in times]}

    found = td.explain(skipped)(X, (1, 2))
    assert found.result.keys() == {2, 4} and all(torch.equal(value, inner(X)) for value in found.result.values())
    assert found.ops_per_graph == [["sin", "add"]]
    assert not found.breaks


def test_a_wrapper_of_a_skipped_function_is_not_skipped() -> None:
    import functools

    @td.skip_frame
    def middle(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @functools.wraps(middle)
    def wrapper(x: torch.Tensor) -> torch.Tensor:
        return middle(x * 2) * 2

    assert td.explain(wrapper)(X).ops_per_graph == [["mul"], ["mul"]]
    with pytest.raises(TypeError, match="takes a Python function"):
        td.skip_frame(torch.nn.Linear(1, 1))


def test_hooks_see_code_guards_graphs_breaks_and_recompiles() -> None:
    seen: dict[str, list[Any]] = {name: [] for name in ("graph", "guards", "bytecode", "recompile", "break")}
    hooks = td.Hooks(
        on_graph=lambda graph, inputs: seen["graph"].append((graph, inputs)),
        on_guards=lambda guards: seen["guards"].append(guards),
        on_bytecode=lambda old, new: seen["bytecode"].append((old, new)),
        on_recompile=lambda reason: seen["recompile"].append(reason),
        on_break=lambda reason: seen["break"].append(reason),
    )
    compiled = td.optimize("eager", hooks=hooks)(breaks)
    compiled(X)
    compiled(torch.ones(3))
    assert [len(graph.graph.nodes) for graph, _ in seen["graph"]] == [3, 3, 3, 3]
    assert len(seen["guards"]) == len(seen["bytecode"]) == 4 and len(seen["recompile"]) == 2
    assert seen["bytecode"][0][0] is breaks.__code__ and seen["bytecode"][0][1] is not breaks.__code__
    assert [reason.kind.name for reason in seen["break"]] == ["disabled", "disabled"]
    assert "size mismatch" in seen["recompile"][0]
