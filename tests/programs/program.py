"""The table of whole programs: what users write around a model, run plainly and compiled, and compared."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
import triptych
import triptych_dynamo
from torch.utils._pytree import tree_flatten

Compile = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A program is a function of `compile`, which it applies to what it wants compiled; it gives all that it computed.

    Attributes:
        run: the program.
        graphs: how many graphs its compiled callables have at its end, all together.
        breaks: how many graph breaks.
    """

    run: Callable[[Compile], Any]
    graphs: int
    breaks: int


PROGRAMS: dict[str, Program] = {}


def program(graphs: int, breaks: int = 0, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the decorated function to the table."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        key = name or run.__name__
        assert key not in PROGRAMS, f"two programs named {key}"
        PROGRAMS[key] = Program(run, graphs, breaks)
        return run

    return register


def as_it_is(fn: Any = None, **options: Any) -> Any:
    """Stands for `compile` in a plain run."""
    return fn if fn is not None else as_it_is


class Compiled:
    """Stands for `compile` in a compiled run; notes what it made."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, fn: Any) -> Any:
        self.made.append(triptych.compile(fn))
        return self.made[-1]

    def counts(self) -> tuple[int, int]:
        """Graphs and graph breaks so far."""
        reports = [triptych.report(made) for made in self.made]
        return sum(len(report.graphs) for report in reports), sum(len(report.breaks) for report in reports)


def outcome(run: Callable[[Compile], Any], compile_: Compile) -> tuple[Any, tuple[Any, ...]]:
    """What a program gives, and the next numbers of every random generator behind it."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (DeprecationWarning, UserWarning))  # of torch itself
        for category in (triptych_dynamo.RecompileLimitWarning, triptych_dynamo.StaticSizesWarning):
            warnings.simplefilter("error", category)
        result = run(compile_)
    return result, (torch.rand(2).tolist(), random.random(), float(numpy.random.rand()))


def assert_equal(got: Any, expected: Any) -> None:
    """Nests of the same form whose leaves are the same: tensors and floats but for rounding."""
    (leaves, form), (wanted, wanted_form) = tree_flatten(got), tree_flatten(expected)
    assert form == wanted_form
    for ours, plain in zip(leaves, wanted, strict=True):
        assert type(ours) is type(plain)
        if isinstance(plain, torch.Tensor):
            assert ours.requires_grad == plain.requires_grad
        if isinstance(plain, (torch.Tensor, float)):
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4, equal_nan=True)
        else:
            assert ours == plain


def data(*size: int, seed: int = 0) -> torch.Tensor:
    """Numbers that are the same in every run, whatever was drawn before."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed + sum(size)))


def gradients(module: torch.nn.Module) -> list[torch.Tensor | None]:
    """The gradients of all parameters."""
    return [parameter.grad for parameter in module.parameters()]
