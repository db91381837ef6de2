"""Graph breaks as numbered data and texts; logs; both name the user's line."""

from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo import logs
from triptych_dynamo.breaks import BREAKS

SOURCES = Path(td.__file__).parent
HERE = __file__


@td.disable
def speak(x: torch.Tensor) -> torch.Tensor:
    return x


def callee(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    speak(y)
    return y * 2


def program(x: torch.Tensor) -> torch.Tensor:
    return callee(x * 3) - 1


LINE = callee.__code__.co_firstlineno + 2


@pytest.fixture
def quiet() -> Iterator[None]:
    """Levels of the loggers as they were."""
    names = [logs.ROOT, *(f"{logs.ROOT}.{name}" for name in logs.ARTIFACTS)]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def kinds_in_use() -> set[str]:
    """The kinds that the sources name as constants."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("unsupported", "Unsupported", "cannot_rebuild") and isinstance(node.args[0].value, str):
                    found.add(node.args[0].value)
    return found


def test_every_break_has_a_number_an_explanation_and_a_hint() -> None:
    assert kinds_in_use() <= BREAKS.keys() and len(kinds_in_use()) > 15
    assert [kind.id for kind in BREAKS.values()] == [f"DYN{number:04}" for number in range(1, len(BREAKS) + 1)]
    for kind in BREAKS.values():
        assert kind.explanation.endswith(".") and kind.hint and not kind.hint.endswith("."), kind


def test_numbers_are_stable() -> None:
    known = {"opcode": 1, "call": 2, "truth": 6, "data-dependent": 12, "explicit": 13, "disabled": 14, "loop": 34}
    assert {name: int(BREAKS[name].id[3:]) for name in known} == known


def test_error_says_what_where_why_and_what_to_do() -> None:
    with pytest.raises(td.GraphBreakError) as caught:
        td.optimize("eager", fullgraph=True)(program)(torch.ones(2))
    lines = str(caught.value).splitlines()
    assert lines[0] == "DYN0014 disabled: speak is disabled"
    assert lines[1] == f"  at {HERE}:{LINE}: speak(y)"
    assert lines[2].startswith("  why: ") and lines[3].startswith("  hint: ")
    assert f"    {HERE}:{LINE} in callee" in lines and caught.value.id == "DYN0014"


def test_explanation_is_data() -> None:
    found = td.explain(program)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 4)
    assert found.ops_per_graph == [["mul", "add"], ["mul", "sub"]]
    (reason,) = found.break_reasons
    assert (reason.id, reason.kind, reason.reason) == ("DYN0014", "disabled", "speak is disabled")
    assert reason.place == f"{HERE}:{LINE}" and reason.source_line == "speak(y)"
    assert [line.rsplit(" ", 1)[1] for line in reason.user_stack] == ["program", "callee"]
    assert len(found.guards) == len(found.frames) == 2 and found.compile_seconds > 0
    assert torch.equal(found.result, program(torch.ones(2)))
    assert str(found).startswith("2 graphs, 1 graph breaks, 4 operations\n  break 1: ")


@pytest.mark.parametrize("artifact", logs.ARTIFACTS)
def test_each_artifact_is_logged_and_only_when_asked(
    artifact: str, caplog: pytest.LogCaptureFixture, quiet: None
) -> None:
    box = [0]

    def noted(x: torch.Tensor) -> torch.Tensor:
        box[0] = 7
        return program(x)

    def run() -> None:
        compiled = td.optimize("eager")(noted)
        compiled(torch.ones(2))
        compiled(torch.ones(3))

    def names() -> set[str]:
        return {record.name for record in caplog.records if record.name.startswith("triptych")}

    run()
    assert not names()
    td.set_logs(artifact)
    run()
    assert names() == {f"triptych_dynamo.{artifact}"}
    expected = {
        "graphs": r"def forward\(self",
        "graph_breaks": rf"DYN0014 .*\n  at {re.escape(HERE)}:{LINE}",
        "guards": r"Tensor\(torch.float32, cpu",
        "recompiles": rf"noted\+0 is compiled again: .*size mismatch .*\(from {re.escape(HERE)}:\d+\)",
        "frames": r"noted\+0: \d+ nodes, \d+ guards",
        "bytecode": r"LOAD_CONST",
        "trace_source": rf"{re.escape(HERE)}:{LINE} in callee: speak\(y\)",
        "side_effects": r"replayed: ",
        "dynamic": r"is a tensor of shape \(s\d+,?\)",
    }
    assert re.search(expected[artifact], caplog.text), caplog.text


def test_set_logs_by_keyword(quiet: None) -> None:
    td.set_logs(guards=logging.DEBUG, graphs=True, recompiles=False)
    assert logs.logger("guards").level == logging.DEBUG and logs.logger("graphs").level == logging.INFO
    assert not logs.logger("recompiles").isEnabledFor(logging.ERROR)
    with pytest.raises(ValueError, match="no artifact grafs; known: graphs"):
        td.set_logs(grafs=True)


def test_names_of_other_stages_are_left_alone(quiet: None) -> None:
    td.set_logs("kernels,+all,-guards,dynamo")
    assert logs.logger("graphs").level == logging.DEBUG and logs.logger("guards").level == logging.CRITICAL
    assert logging.getLogger("triptych_dynamo").level == logging.INFO


def run_with(variables: dict[str, str]) -> str:
    """What a program with one break writes to stderr under these variables."""
    code = (
        "import triptych_dynamo as td, torch\n"
        "def f(x):\n    y = x + 1\n    td.graph_break('here')\n    return y\n"
        "td.optimize('eager')(f)(torch.ones(2))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **variables}, check=True
    )
    return done.stderr


def test_environment_variable(tmp_path: Path) -> None:
    assert "[triptych_dynamo.graph_breaks] DYN0013 explicit: here" in run_with({"TRIPTYCH_LOGS": "graph_breaks"})
    text = run_with({"TRIPTYCH_LOGS": "help"})
    assert all(f"  {name} " in text for name in logs.ARTIFACTS) and "DYN0013" not in text
    path = tmp_path / "log.txt"
    assert run_with({"TRIPTYCH_LOGS": "graphs", "TRIPTYCH_LOGS_OUT": str(path)}) == ""
    assert "def forward" in path.read_text()
