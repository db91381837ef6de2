"""Texts of numbers that change: made by the compiled code, so that a message does not compile again for each."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import triptych

from tests.dynamic.rows import Row, run

X = torch.arange(1.0, 5.0)
FLOATS = [(X, number) for number in (1.5, 2.5, 3.25, 0.1, 1.0)]
INTS = [(X, number) for number in (3, 4, 5, 100, 7)]
SIZES = [(torch.ones(n, 2),) for n in (3, 4, 5, 9)]


def fixed(fn: Any) -> Any:
    return lambda: fn


def in_containers(x: torch.Tensor, s: float) -> Any:
    texts = {"text": f"{s:.3f}", "list": [f"<{s}>", str(s)]}
    return x * s, texts, f"{texts['text']}!"


def changed(x: torch.Tensor, s: float) -> Any:
    t = s * 2 + 1
    return x + t, f"{t!r} of {s:>8} and {format(t, '.1e')}"


def looked_into(x: torch.Tensor, n: int) -> Any:
    return x * n, {"3": 1, "4": 2}.get(f"{n}", 0), f"{n}".startswith("1"), "n" + f"{n}"


def sized(x: torch.Tensor) -> Any:
    return x + 1, f"{x.shape[0]} x {x.shape[1]}", str(x.numel())


def raising(x: torch.Tensor, s: float) -> Any:
    if x.sum().shape == ():
        raise ValueError(f"{s} is wrong")
    return x


class Stepper:
    def __init__(self) -> None:
        self.step, self.log = 0, []

    def __call__(self, x: torch.Tensor) -> Any:
        before = f"step {self.step}"
        self.step += 1
        self.log.append(before)
        self.last = f"now {self.step}"
        return x * self.step, self.last, list(self.log[-1:])


ROWS = [
    Row("float", fixed(lambda x, s: (x * s, f"{s:.2f}")), FLOATS, 2),
    Row("int", fixed(lambda x, n: (x * n, f"{n:>5} {n!r}")), INTS, 2),
    Row("containers", fixed(in_containers), FLOATS, 2),
    Row("computed", fixed(changed), FLOATS, 2),
    Row("sizes", fixed(sized), SIZES, 2),
    Row("looked-into", fixed(looked_into), INTS, 5),
    Row("dynamic-true", fixed(changed), FLOATS, 1, dynamic=True),
    Row("raising", fixed(raising), FLOATS, 0),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_texts(row: Row) -> None:
    run(row, "eager")


def test_texts_of_a_counter_are_those_of_their_time() -> None:
    plain, stepper = Stepper(), Stepper()
    compiled = triptych.compile(stepper, backend="eager")
    for _ in range(3):
        expected, got = plain(X), compiled(X)
        assert got[1:] == expected[1:] and torch.equal(got[0], expected[0])
    assert (stepper.last, stepper.log) == (plain.last, plain.log)


def test_printed_and_logged(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("triptych.tests")

    def program(x: torch.Tensor, rate: float) -> torch.Tensor:
        print(f"rate {rate:.2f}")
        logger.warning(f"rate {rate}")  # noqa: G004
        return x * rate

    compiled = triptych.compile(program, backend="eager")
    with caplog.at_level(logging.WARNING):
        for rate in (0.5, 0.25, 0.125, 2.0):
            compiled(X, rate)
    assert capsys.readouterr().out == "rate 0.50\nrate 0.25\nrate 0.12\nrate 2.00\n"
    assert [record.getMessage() for record in caplog.records] == ["rate 0.5", "rate 0.25", "rate 0.125", "rate 2.0"]
    assert len(triptych.report(compiled).graphs) == 2


def test_the_number_of_an_input_names_an_attribute() -> None:
    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.expert_0, self.expert_1 = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor, index: torch.Tensor) -> Any:
            return getattr(self, f"expert_{index[0]}")(x), f"{index[0]:03d}"

    experts = Experts()
    compiled = triptych.compile(experts, backend="eager", fullgraph=True)
    for number in (0, 1, 1, 0):
        (got, text), (expected, wanted) = (fn(torch.ones(2), torch.tensor([number])) for fn in (compiled, experts))
        assert torch.equal(got, expected) and text == wanted
    assert len(triptych.report(compiled).graphs) == 2

    def written(x: torch.Tensor) -> Any:
        x.add_(1)
        return f"{x[0]}", x * 2

    plain, mine = torch.tensor([1, 2]), torch.tensor([1, 2])
    assert triptych.compile(written, backend="eager")(mine)[0] == written(plain)[0] == "2"
