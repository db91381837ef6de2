"""Runs a function under capture and as plain Python on equal arguments, and compares all that a program can see."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import numpy
import torch
import triptych_dynamo


def outcome(thunk: Callable[[], Any]) -> tuple[str, Any]:
    """What a call gives: its value, or type and text of the exception."""
    try:
        return "value", thunk()
    except triptych_dynamo.GraphBreakError:
        raise
    except Exception as error:
        return "error", (type(error), str(error))


def assert_same(got: Any, expected: Any) -> None:
    """Equal in value and type, through containers and objects."""
    if isinstance(expected, numpy.ndarray):
        numpy.testing.assert_array_equal(got, expected)
        return
    assert type(got) is type(expected), f"{type(got)} is not {type(expected)}: {got!r} for {expected!r}"
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, equal_nan=True)
        assert got.requires_grad == expected.requires_grad
        return
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    if isinstance(expected, (list, tuple, deque)):
        assert len(got) == len(expected), f"{got!r} for {expected!r}"
        for a, b in zip(got, expected):
            assert_same(a, b)
    if isinstance(expected, torch.nn.Module):
        assert_same(got.state_dict(), expected.state_dict())
    if hasattr(expected, "__dict__") and not isinstance(expected, (type, FunctionType, MethodType)):
        assert_same(vars(got), vars(expected))
    elif not isinstance(expected, (dict, list, tuple, deque)) and type(expected).__eq__ is not object.__eq__:
        assert got == expected


def check(fn: FunctionType, *args: Any, calls: int = 2, **kwargs: Any) -> Any:
    """Call both ways on copies of the arguments, twice; compare results, exceptions and the arguments afterwards.

    The function must be one whole graph.
    """
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    for _ in range(calls):
        eager_args, eager_kwargs = copy.deepcopy((args, kwargs))
        traced_args, traced_kwargs = copy.deepcopy((args, kwargs))
        torch.manual_seed(0)
        expected = outcome(lambda: fn(*eager_args, **eager_kwargs))
        torch.manual_seed(0)
        got = outcome(lambda: compiled(*traced_args, **traced_kwargs))
        assert got[0] == expected[0], f"{got} for {expected}"
        assert_same(got[1], expected[1])
        assert_same(traced_args, eager_args)
        assert_same(traced_kwargs, eager_kwargs)
        assert compiled.entries or expected[0] == "error", "the trace raised where eager does not"
    return compiled


def check_broken(fn: FunctionType, *args: Any) -> None:
    """As `check` for a function that has graph breaks."""
    compiled = triptych_dynamo.optimize("eager")(fn)
    for _ in range(2):
        eager_args, traced_args = copy.deepcopy((args, args))
        expected = outcome(lambda: fn(*eager_args))
        got = outcome(lambda: compiled(*traced_args))
        assert got[0] == expected[0], f"{got} for {expected}"
        assert_same(got[1], expected[1])
        assert_same(traced_args, eager_args)
