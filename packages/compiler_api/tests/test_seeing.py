"""What a user sees: the command line, logs, the debug folder, profiles, progress."""

import io
import logging
import subprocess
import sys
import time

import pytest
import torch
import triptych
from triptych import __main__ as cli
from triptych import logs, progress
from triptych.compiler import config
from triptych.errors import ConfigError
from triptych_inductor.build.cache import Store, digest

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def softmax(x):
    return torch.softmax(x * 3, -1)


# -- the command line --------------------------------------------------------------------------------------------------
PROGRAM = """
import torch, triptych

def branches(x, by=1):
    x = x + by
    triptych.compiler.graph_break("between")
    return x * 2

def alone():
    return branches(torch.ones(2))

class Thing(torch.nn.Module):
    def forward(self, x):
        return x.relu()

thing = Thing()
number = 3
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shown_program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("branches", "torch.ones(2), 2"), ("alone", None), ("thing", "torch.ones(2)"), ("thing.forward", "torch.ones(3)")],
)
def test_explain(program, capsys, name, arguments):
    command = ["explain", f"{program}:{name}"] + (["--args", arguments] if arguments else [])
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "graphs" in text
    if name in ("branches", "alone"):
        assert "shown_program.py" in text and "2 graphs" in text


def test_report(program, capsys):
    assert cli.main(["report", f"{program}:thing", "--args", "torch.ones(2)", "--backend", "eager"]) == 0
    assert "1 graphs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("{}", "names no function"),
        ("{}:zzz", "has no 'zzz' (functions in it: branches, alone)"),
        ("{}:number", "is a int, not a function"),
        ("{}:branches", "needs x: give them with --args"),
        ("missing.py:f", "there is no file"),
    ],
)
def test_mistakes_on_the_command_line(program, capsys, target, text):
    assert cli.main(["explain", target.format(program)]) == 2
    assert text in capsys.readouterr().err


def test_cache_commands(capsys):
    keys = [digest("test", str(n)) for n in range(3)]
    for kind, key in zip(("graph", "graph", "cpp"), keys, strict=True):
        Store(kind).put(key, b"x" * 2000)
    assert cli.main(["cache", "info"]) == 0
    text = capsys.readouterr().out
    assert "3 records, 6.1 KiB" in text and "graph           2  4.1 KiB" in text
    assert cli.main(["cache", "verify"]) == 0
    Store("graph").path(keys[0]).write_bytes(b"damage")
    assert cli.main(["cache", "verify"]) == 1
    text = capsys.readouterr().out
    assert "3 records, 1 damaged" in text and keys[0][2:] in text
    assert cli.main(["cache", "clear", "--kind", "cpp"]) == 0
    assert cli.main(["cache", "clear", "--older-than", "1"]) == 0
    assert Store("graph").get(keys[1]) == b"x" * 2000
    assert cli.main(["cache", "clear"]) == 0
    capsys.readouterr()
    assert cli.main(["cache", "info"]) == 0
    assert "0 records" in capsys.readouterr().out


# -- logs --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def levels():
    """Levels of all loggers as they were."""
    names = [*(f"triptych.{name}" for name in logs.ARTIFACTS), "triptych", "triptych_dynamo.graphs"]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_each_artifact_is_logged_when_asked_for(levels, caplog):
    logs.set_logs("aten_graphs,schedule,output_code,kernel_code,times,+graphs")
    triptych.compile(softmax, name="shown")(X)
    texts = {record.name: record.getMessage() for record in caplog.records}
    assert "torch.ops.aten._softmax.default" in texts["triptych.aten_graphs"]
    assert "def call(args):" in texts["triptych.output_code"]
    assert "kernel_0" in texts["triptych.kernel_code"]
    assert texts["triptych.times"].startswith("shown, graph 0, inference: ")
    assert {"triptych.schedule", "triptych_dynamo.graphs"} <= texts.keys()


def test_nothing_is_logged_unasked(levels, caplog):
    triptych.compile(lambda x: torch.softmax(x * 4, -1))(X)
    assert [record.name for record in caplog.records if record.levelno < logging.WARNING] == []


def test_switches_of_logs(levels, capsys):
    logs.set_logs("all,-output_code", times=False)
    assert logging.getLogger("triptych.aten_graphs").level == logging.INFO
    assert logging.getLogger("triptych.output_code").level == logging.CRITICAL
    assert logging.getLogger("triptych.times").level == logging.CRITICAL
    logs.set_logs(all=False)
    logs.set_logs("help")
    text = capsys.readouterr().err
    assert all(name in text for name in (*logs.ARTIFACTS, "graph_breaks", "all"))
    with pytest.raises(ConfigError, match="no logs named 'output_cod': did you mean 'output_code'"):
        triptych.set_logs("output_cod")


@pytest.mark.slow
def test_the_environment_variable(tmp_path):
    program = "import torch, triptych; triptych.compile(lambda x: x + 1, name='seen')(torch.ones(2))"
    environment = {"TRIPTYCH_LOGS": "output_code", "TRIPTYCH_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert "[triptych.output_code] seen, graph 0, inference:" in done.stderr and "def call" in done.stderr
    environment["TRIPTYCH_LOGS"] = "output_cod"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "did you mean 'output_code'" in done.stderr


# -- the debug folder --------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_debug_folder(tmp_path):
    with config.patch(debug_directory=str(tmp_path / "debug")):
        one, two = (triptych.compile(lambda x, w: softmax(x @ w), name="my model") for _ in range(2))
    x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
    one(x, w).sum().backward()
    two(x, w)
    root = tmp_path / "debug" / "my_model_0" / "graph_0"
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {"captured.py", "forward_graph.py", "backward_graph.py", "forward/call.py", "forward/run.py"} <= names
    assert {"forward/kernels_cpu_0.cpp", "backward/call.py", "backward/schedule.txt"} <= names
    assert "softmax" in (root / "captured.py").read_text()
    assert "torch.ops.aten._softmax_backward_data" in (root / "backward_graph.py").read_text()
    assert (tmp_path / "debug" / "my_model_1" / "graph_0" / "forward" / "run.py").exists()
    for role in ("forward", "backward"):
        done = subprocess.run(
            [sys.executable, str(root / role / "run.py")], capture_output=True, text=True, check=True, cwd="/"
        )
        assert "output 0: (" in done.stdout and "ms a call" in done.stdout


def test_no_debug_folder_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIPTYCH_DEBUG", "0")
    triptych.compile(softmax)(X)
    assert not (tmp_path / "triptych_debug").exists() and not (tmp_path / "0").exists()


# -- profiles ----------------------------------------------------------------------------------------------------------
def test_regions_and_kernels_in_profiles():
    compiled = triptych.compile(softmax, name="hot")
    torch.testing.assert_close(compiled(X), softmax(X))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.testing.assert_close(compiled(X), softmax(X))
    names = {event.name for event in profile.events()}
    assert {"triptych: hot, graph 0, inference", "triptych: kernel_0"} <= names
    with config.patch(profiler_regions=False):
        quiet = triptych.compile(softmax, name="quiet")
    quiet(X)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        quiet(X)
    assert not any("quiet" in event.name for event in profile.events())


# -- progress ----------------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_late_and_on_terminals_alone(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.05)
    monkeypatch.setattr(progress, "STEP", 0.02)
    terminal, file = Terminal(), io.StringIO()
    for stream, seconds in ((file, 0.15), (terminal, 0.0)):
        with progress.shown("model, graph 0", stream):
            time.sleep(seconds)
        assert stream.getvalue() == ""
    with progress.shown("model, graph 0", terminal):
        time.sleep(0.2)
    assert "compiling model, graph 0" in terminal.getvalue()
    quiet = Terminal()
    with config.patch(progress=False), progress.shown("model", quiet):
        time.sleep(0.1)
    assert quiet.getvalue() == ""


def test_a_compilation_that_takes_long_is_shown(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.02)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def slow(gm, example_inputs):
        time.sleep(0.3)
        return gm.forward

    triptych.compile(softmax, backend=slow, name="the slow one")(X)
    assert "compiling the slow one, graph 0" in terminal.getvalue()


def test_progress_without_rich(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.02)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    with progress.shown("model", terminal):
        time.sleep(0.1)
    assert "compiling model" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[2K")


# -- reports -----------------------------------------------------------------------------------------------------------
def test_reports_tell_of_recompiles_and_failures():
    compiled = triptych.compile(softmax, backend="eager")
    compiled(X), compiled(X.double())
    (reason,) = triptych.report(compiled).recompiles
    assert "x" in reason and "compiled again" in str(triptych.report(compiled))

    def failing(gm, example_inputs):
        raise OSError("no such machine")

    with pytest.raises(OSError, match="no such machine"):
        triptych.compile(softmax, backend=failing)(X)
    compiled = triptych.compile(softmax, backend=failing, on_error="eager")
    with pytest.warns(triptych.errors.CompileFallbackWarning, match="runs eagerly.*no such machine"):
        torch.testing.assert_close(compiled(X), softmax(X))
    assert triptych.report(compiled).failures == ["OSError: no such machine"]


def test_reports_say_whether_graphs_are_replayed():
    compiled = triptych.compile(lambda x: x.sin() + 1, mode="reduce-overhead")
    compiled(torch.ones(3))
    assert "runs without CUDA graphs (tensors on cpu)" in str(triptych.report(compiled))
