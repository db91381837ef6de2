"""Random programs, plain against compiled: those whose differences were bugs once, and a few new ones."""

import pytest

from tools.random_programs import runner, shrink, writer

ONCE_WRONG = [80, 145, 431, 703, 2399]


@pytest.mark.parametrize("seed", [*ONCE_WRONG, *range(7000, 7012)])
def test_compiled_is_plain(seed):
    assert runner.difference(seed) == ""


@pytest.mark.parametrize("seed", [9000, 9001])
def test_whole_stack(seed):
    assert runner.difference(seed, "triptych") == ""


def test_a_program_is_its_seed():
    assert writer.write_program(5) == writer.write_program(5) != writer.write_program(6)


def test_a_wrong_compiler_is_seen_and_shrunk(monkeypatch):
    def compiler(backend):
        return lambda fn: lambda x, y, log: [log.append("extra"), fn(x, y, log)][1]

    monkeypatch.setattr(runner, "compiler", compiler)
    text = writer.write_program(3)
    assert "call 0, state" in runner.difference_of(text, "eager", False)
    small = shrink.shrink(text, lambda candidate: bool(runner.difference_of(candidate, "eager", False)))
    assert small.count("\n") < 8
