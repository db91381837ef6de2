"""What torch's functions warn of is said once by compiled code as well, with eager's text."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych
from torch.nn import functional as F

X = torch.arange(24.0).reshape(2, 3, 4)
PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "broadcast-loss": lambda x: F.mse_loss(x, x[:1]),
    "implicit-dimension": lambda x: F.softmax(x),
    "copy-of-a-tensor": lambda x: x.new_tensor(x),
    "mean-of-divergence": lambda x: F.kl_div(x, x.abs()),
    "deprecated-function": lambda x: torch.range(0, 3) + x.sum(),
}


def told(fn: Callable[[torch.Tensor], Any]) -> list[tuple[type, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn(X)
    return [(warning.category, str(warning.message)) for warning in caught]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_said_once(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    expected = told(program)
    assert len(expected) == 1
    assert told(triptych.compile(program, backend=backend)) == expected


def test_a_warning_that_the_program_makes_an_error_is_one() -> None:
    compiled = triptych.compile(PROGRAMS["implicit-dimension"], backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Implicit dimension choice"):
            compiled(X)


def test_what_others_warn_of_meanwhile_is_shown() -> None:
    class Loud(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.softmax(x, -1) * 2

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        warnings.warn("from a backend", UserWarning, stacklevel=1)
        return gm.forward

    assert told(triptych.compile(Loud(), backend=backend)) == [(UserWarning, "from a backend")]
    assert not torch.is_warn_always_enabled()
