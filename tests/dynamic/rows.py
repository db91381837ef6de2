"""Rows of the tables of dynamic shapes and numbers, and how one is run: every call against eager, compiles counted."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import triptych
import triptych_dynamo
from torch.utils import _pytree as pytree

BACKENDS = ("eager", "inductor")


@dataclass(frozen=True)
class Row:
    """A program and its calls.

    Attributes:
        make: gives the program: a fresh one for each run, since programs keep state.
        calls: the arguments of each call.
        graphs: how many graphs are compiled in all.
        breaks: how many graph breaks are met while compiling.
        dynamic: as for `compile`.
        texts: whether exceptions have eager's texts too.
        train: also run a backward of the sum of the floating results, with gradients compared.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Sequence[tuple[Any, ...]] = field(repr=False)
    graphs: int = 1
    breaks: int = 0
    dynamic: bool | None = None
    train: bool = False
    texts: bool = True


def rows(table: list[Row]) -> Any:
    """Parameters of a test."""
    return pytest.mark.parametrize("row", table, ids=[row.name for row in table])


def over_backends(test: Any) -> Any:
    """The test under capture alone, and under the whole stack."""
    return pytest.mark.parametrize("backend", BACKENDS)(test)


def run(row: Row, backend: str) -> Any:
    """Run the row's calls compiled and eagerly, compare all, and hold the number of graphs to the row's."""
    plain, compiled = row.make(), triptych.compile(row.make(), backend=backend, dynamic=row.dynamic)
    for call in row.calls:
        expected, wanted = outcome(plain, call, row.train)
        got, given = outcome(compiled, call, row.train)
        if is_error(expected) and not row.texts:
            expected, got = expected[0], got[0]
        assert_same(got, expected)
        assert_same(given, wanted)
    report = triptych.report(compiled)
    assert (len(report.graphs), len(report.breaks)) == (row.graphs, row.breaks), report
    return report


def outcome(fn: Callable[..., Any], call: tuple[Any, ...], train: bool) -> tuple[Any, Any]:
    """What a call on copies of the arguments gives, and the arguments (and their gradients) afterwards."""
    args = copy.deepcopy(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("error", "(?s).*runs (without compilation|eagerly)")  # what is not compiled fails
        try:
            result = fn(*args)
        except Exception as error:  # compared like a result
            return (type(error), str(error)), args
    if train:
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        sum(leaf.double().square().sum() for leaf in tensors).backward()
        grads = [leaf.grad for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        return result, (args, grads)
    return result, args


def is_error(result: Any) -> bool:
    """Whether a result of `outcome` says what was raised."""
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], type)


def assert_same(got: Any, expected: Any) -> None:
    """Equal in type, structure, values, dtype, strides; numbers exactly."""
    assert type(got) is type(expected), (got, expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, equal_nan=True)
        strides = [(a, b) for n, a, b in zip(expected.shape, got.stride(), expected.stride(), strict=True) if n != 1]
        assert all(a == b for a, b in strides) or not expected.numel(), (got.stride(), expected.stride())
        assert got.requires_grad == expected.requires_grad
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(got)
    else:
        assert got == expected


def reset() -> None:
    """Forget what was compiled."""
    triptych_dynamo.reset()
