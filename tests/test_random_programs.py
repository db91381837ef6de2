"""Random programs, plain against compiled: those whose differences were bugs once, and a few new ones."""

import pytest
import torch

from tools.random_programs import __main__, programs, runner, shrink
from tools.random_programs.runner import Case

ONCE_WRONG = [
    *((seed, 1) for seed in (80, 145, 431, 703, 2399, 30330)),
    *(
        (seed, 2)
        for seed in (1000, 1085, 1132, 1141, 1144, 1222, 1238, 1278, 1307, 1411, 1423, 1466, 402162, 404046, 404865)
    ),
    *(
        (seed, 2)
        for seed in (400533, 403185, 403374, 403299)  # graphs that fail at run time
    ),
    (501104, 2),  # operands that overlap, of symbolic sizes
    (404156, 2),  # two suspended generators at a frame's end
    (700217, 2),  # reversed lists at their end, over a break
    (701915, 2),  # a handler that fails ends a generator whose end breaks
    (831251, 3),  # the least of nothing
    (760978, 2),  # a generator in a frame that an exception leaves behind a break
    (850628, 3),  # the same, with a `finally`
    (850678, 3),  # an assignment whose types the kernel refuses, in a graph that writes its input
    (840034, 3),  # an array over a tensor that is written behind a break
    (800128, 3),  # an exception's traceback kept a suspended generator of the caller
]
NEW = [*((seed, 1) for seed in range(7000, 7006)), *((seed, 2) for seed in range(7000, 7008))]
NEW += [(seed, 3) for seed in range(7000, 7006)]


@pytest.mark.parametrize(("seed", "edition"), [*ONCE_WRONG, *NEW])
def test_compiled_is_plain(seed, edition):
    assert runner.difference(Case(seed, edition)) == ""


@pytest.mark.parametrize("seed", [9000, 9001])
def test_whole_stack(seed):
    assert runner.difference(Case(seed, 1, "triptych")) == ""


@pytest.mark.parametrize("edition", [1, 2, 3])
def test_a_program_is_its_seed(edition):
    write = programs.write_program
    assert write(5, edition) == write(5, edition) != write(6, edition)


def test_a_wrong_compiler_is_seen_and_shrunk(monkeypatch):
    def compiler(backend, tally):
        return lambda fn: lambda log, **given: [log.append("extra"), fn(log=log, **given)][1]

    monkeypatch.setattr(runner, "compiler", compiler)
    case = Case(3, 1)
    assert "call 0, state" in runner.difference(case)
    prelude, _ = programs.split(case.text)
    small = shrink.shrink(case.text, lambda candidate: bool(runner.difference(case, candidate)))
    assert small.count("\n") < 8
    assert "call 0, state" in runner.difference(case, prelude + small + "\n")


def test_wrong_gradients_are_seen(monkeypatch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def compiler(backend, tally):
        def run(log, x, **given):
            log.append(Wrong.apply(x))
            return x

        return lambda fn: run

    text = programs.split(Case(3, 1).text)[0] + "def main(x, y, log):\n    log.append(x.clone())\n    return x\n"
    monkeypatch.setattr(runner, "compiler", compiler)
    assert "gradients" in runner.difference(Case(3, 1), text)


def test_a_program_that_does_not_end_is_no_difference(monkeypatch):
    monkeypatch.setattr(runner, "PLAIN_SECONDS", 0.2)
    tally = runner.Tally()
    text = programs.split(Case(3, 1).text)[0] + "def main(x, y, log):\n    while True:\n        pass\n"
    assert runner.difference(Case(3, 1), text, tally) == "" and tally.too_long


def test_a_run_that_was_stopped_goes_on(monkeypatch, tmp_path, capsys):
    ran = []
    monkeypatch.setattr(__main__, "difference", lambda case, tally: ran.append(case.seed) or "wrong" * (case.seed == 7))
    monkeypatch.setattr(__main__.record, "PART", 5)
    command = ["random_programs", "--first", "0", "--log", str(tmp_path / "log"), "--count"]
    for count in ("10", "15"):
        monkeypatch.setattr("sys.argv", [*command, count])
        assert __main__.main() == 1
    assert ran == list(range(15)) and "15 programs" in capsys.readouterr().out.splitlines()[-1]
