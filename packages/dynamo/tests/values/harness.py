"""Runs a function once under capture and once as plain Python, and compares all that a program can see."""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from triptych_dynamo.compile_frame import FrameCompiler
from triptych_dynamo.emit.continuation import Layout
from triptych_dynamo.errors import GraphBreakError
from triptych_dynamo.options import Options
from triptych_dynamo.trace.shapes import Shapes


def compile_once(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Compile `fn` for these arguments as one graph: (a callable without arguments, the compiled frame)."""
    bound = inspect.signature(fn).bind(*args, **(kwargs or {}))
    bound.apply_defaults()
    compiler = FrameCompiler(Options(fullgraph=True), lambda gm: gm, lambda layout, is_root: [])
    frame = compiler.compile(Layout(fn.__code__, 0), fn, dict(bound.arguments), Shapes)
    if frame is None:
        return None, None
    code = FunctionType(frame.code, fn.__globals__, closure=fn.__closure__)
    return lambda: code(*bound.arguments.values()), frame


def outcome(thunk: Callable[[], Any]) -> tuple[str, Any]:
    """What a call gives: its value, or the exception."""
    try:
        return "value", thunk()
    except Exception as error:
        return "error", (type(error), str(error))


def assert_same(got: Any, expected: Any) -> None:
    """Equal in value and type, through containers and objects."""
    assert type(got) is type(expected), f"{type(got)} is not {type(expected)}: {got!r} for {expected!r}"
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
        assert got.requires_grad == expected.requires_grad
        return
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
        return
    if isinstance(expected, (list, tuple, deque)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            assert_same(a, b)
    elif hasattr(expected, "__dict__") and not callable(expected):
        assert_same(vars(got), vars(expected))
    elif type(expected).__eq__ is not object.__eq__:
        assert got == expected


def check(fn: FunctionType, *args: Any, **kwargs: Any) -> Any:
    """Run both ways on copies of the arguments; compare results, exceptions and the arguments afterwards."""
    eager_args, eager_kwargs = copy.deepcopy((args, kwargs))
    traced_args, traced_kwargs = copy.deepcopy((args, kwargs))
    expected = outcome(lambda: fn(*eager_args, **eager_kwargs))
    run, frame = compile_once(fn, traced_args, traced_kwargs)
    if run is None:
        assert expected[0] == "error", f"the trace raised, eager gave {expected[1]!r}"
        return None
    got = outcome(run)
    assert got[0] == expected[0], f"{got} for {expected}"
    assert_same(got[1], expected[1])
    assert_same(traced_args, eager_args)
    assert_same(traced_kwargs, eager_kwargs)
    return frame


__all__ = ["GraphBreakError", "assert_same", "check", "compile_once", "outcome"]
