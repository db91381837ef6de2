"""Profiles of sizes: what varied in one process is symbolic from the first call of the next; sources in settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triptych
import triptych_dynamo
from triptych.profiles import KIND, StoredProfile, key_of, profile_of, sources_of
from triptych.settings import Settings
from triptych_dynamo.profiles import Varied
from triptych_inductor.build.cache import Store

PROGRAM = """
import sys
import torch, triptych, triptych_dynamo

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.step = torch.nn.Parameter(torch.ones(4)), 0

    def forward(self, x, scale):
        self.step += 1
        y = x * self.weight * scale + self.step
        triptych_dynamo.graph_break()
        return y.sum(0) + x.shape[0]

layer = triptych.compile(Layer(), backend="eager")
for n, scale in eval(sys.argv[1]):
    layer.step = n
    assert torch.equal(layer(torch.ones(n, 4), scale), (torch.ones(n, 4) * scale + n + 1).sum(0) + n)
print(len(triptych.report(layer).graphs))
"""


def graphs(folder: Path, calls: str, job: str = "job", **more: str) -> int:
    """How many graphs a process compiles for the calls."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    environment = os.environ | {"TRIPTYCH_CACHE_DIR": str(folder / "cache"), "TRIPTYCH_JOB_ID": job} | more
    done = subprocess.run(
        [sys.executable, str(script), calls], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_second_process_starts_with_what_varied(tmp_path: Path) -> None:
    calls = "[(3, 0.5), (5, 0.25), (7, 2.0)]"
    assert graphs(tmp_path, calls) == 4
    assert graphs(tmp_path, calls) == 2  # before and behind the break
    assert graphs(tmp_path, calls, job="", TRIPTYCH_PROFILE_READ_KEY="job") == 2


def test_who_has_a_profile() -> None:
    assert profile_of(Settings()) is None
    assert profile_of(Settings(job_id="a", disk_cache=False)) is None
    assert profile_of(Settings(job_id="a", dynamic=False)) is None
    assert profile_of(Settings(job_id="a", profile_read_key="b")) == StoredProfile(("a", "b"), ("a",))
    assert profile_of(Settings(profile_write_key="c")) == StoredProfile((), ("c",))


def test_profiles_of_several_processes_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    one, other = StoredProfile(("a",), ("a", "b")), StoredProfile(("b", "c"), ("c",))
    one.save("f", Varied({"L['x']": [0]}, ["L['n']"]))
    one.save("f", Varied({"L['x']": [1], "L['y']": [2]}))
    assert one.load("f") == Varied({"L['x']": [0, 1], "L['y']": [2]}, ["L['n']"]) == other.load("f")
    assert not one.load("g") and not StoredProfile(("c",), ()).load("f")
    path = Store(KIND).path(key_of("a", "f"))
    path.write_bytes(path.read_bytes()[:-3])  # damaged: as if there were none
    assert not one.load("f") and other.load("f")


def test_the_text_of_sources() -> None:
    assert sources_of("L['x'], L['y']:0,,self\\..*weight") == ("L['x']", "L['y']:0", "self\\..*weight")
    assert sources_of("L['a, b'], G['f'](1, 2)") == ("L['a, b']", "G['f'](1, 2)")
    assert sources_of("") == ()


def pair(x: torch.Tensor, table: dict[str, Any], n: int) -> torch.Tensor:
    return torch.cat([x, table["y"]]) * n


SOURCES = [
    ("L['x'],L['table']['y'],L['n']", 1),
    ("L\\['.'\\]:0,L['table']['y']:0,L['n']", 1),
    (".*", 1),
    ("L['x']:-2,.*'y'.*,L['n']", 1),
    ("L['x']:1", 2),  # of no use: the other dimension varies
    ("", 2),
]


@pytest.mark.parametrize(("sources", "expected"), SOURCES)
def test_dynamic_sources(sources: str, expected: int) -> None:
    with triptych.compiler.config.patch(dynamic_sources=sources):
        compiled = triptych.compile(pair, backend="eager")
    for n in (3, 5, 1, 0):
        args = (torch.ones(n, 4), {"y": torch.ones(n, 4)}, n + 2)
        torch.testing.assert_close(compiled(*args), pair(*args))
    found = len(triptych.report(compiled).graphs)
    assert found == 1 if expected == 1 else found > 1


VALUES = [
    ((1111, 4, 2222), "1111, 2222", 1),  # the rows and the number
    ((1111, 4, 3), "1111", 2),  # the number is found to vary
    ((7, 4, 3), "1111", 2),
]


@pytest.mark.parametrize(("first", "values", "expected"), VALUES)
def test_dynamic_values(first: tuple[int, int, int], values: str, expected: int) -> None:
    with triptych.compiler.config.patch(dynamic_values=values):
        compiled = triptych.compile(lambda x, n: x.sin() * n, backend="eager", fullgraph=True)
    for rows, columns, n in (first, (5, 4, 8), (6, 4, 9), *([(1, 4, 10)] if expected == 1 else [])):
        x = torch.ones(rows, columns)
        torch.testing.assert_close(compiled(x, n), x.sin() * n)
    assert len(triptych.report(compiled).graphs) == expected


def test_dynamic_values_leave_modules_alone() -> None:
    model = torch.nn.Linear(4, 1111)
    model.register_buffer("shift", torch.ones(1111))
    shapes = []

    def backend(gm: Any, inputs: Any) -> Any:
        shapes.extend(node.meta["val"].shape for node in gm.graph.nodes if node.op == "placeholder")
        return gm.forward

    with triptych.compiler.config.patch(dynamic_values="1111"):
        compiled = triptych.compile(lambda x: model(x) + model.shift, backend=backend)
    compiled(torch.ones(1111, 4))
    assert [[type(n) is int for n in shape] for shape in shapes].count([False, True]) == 1
    assert sum(type(n) is not int for shape in shapes for n in shape) == 1


def test_dynamic_values_are_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(triptych.errors.ConfigError, match="integers with commas between, not '1,x'"):
        triptych.compiler.config.dynamic_values = "1,x"
    monkeypatch.setenv("TORCH_COMPILE_DYNAMIC_VALUES", "many")
    with pytest.raises(triptych.errors.ConfigError, match="TORCH_COMPILE_DYNAMIC_VALUES='many' is wrong"):
        triptych.compile(pair)


def test_unbacked_sources() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1

    with triptych.compiler.config.patch(unbacked_sources="L['x']:0"):
        compiled = triptych.compile(branching, backend="eager", fullgraph=True)
        fine = triptych.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    with pytest.raises(triptych_dynamo.GraphBreakError, match="torch._check"):
        compiled(torch.ones(4, 2))
    for n in (4, 1, 0):
        fine(torch.ones(n, 2))
    assert len(triptych.report(fine).graphs) == 1


def test_names_of_torch_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DYNAMIC_SOURCES", "L['x']")
    monkeypatch.setenv("TORCH_COMPILE_JOB_ID", "torch's")
    assert triptych.compiler.config.dynamic_sources == "L['x']" and triptych.compiler.config.job_id == "torch's"
