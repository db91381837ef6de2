"""What a program lets its surroundings see: result, exception, changed arguments, shared objects, output."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import logging
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_leaves

_HERE = Path(__file__).parent


class _Recorder(logging.Handler):
    """Writes log records as lines, between the lines that are printed."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__()
        self.stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        self.stream.write(f"log {record.levelname} {record.getMessage()}\n")


class Seen:
    """The outcome of one call."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.args = copy.deepcopy(args)
        self.value: Any = None
        self.error: BaseException | None = None
        torch.manual_seed(0)
        with output() as stream:
            try:
                self.value = fn(*self.args)
            except Exception as error:
                self.error = error
        self.text = stream.getvalue()
        self.backward_error: str = ""
        self._run_backward()

    def _run_backward(self) -> None:
        """Gradients flow from the results back to the arguments, or fail to."""
        leaves = [leaf for leaf in tree_leaves(self.value) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        roots = [leaf.sum() for leaf in leaves if not leaf.is_leaf]
        if roots:
            try:
                torch.autograd.backward(roots)
            except RuntimeError as error:
                self.backward_error = str(error)[:60]


@contextlib.contextmanager
def output() -> Iterator[io.StringIO]:
    """Everything printed, logged and warned about, in order."""
    stream = io.StringIO()
    recorder = _Recorder(stream)
    root = logging.getLogger()
    root.addHandler(recorder)

    def show(message: Any, category: type, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if Path(filename).parent == _HERE:  # the program's own; libraries warn once a process
            stream.write(f"warning {category.__name__} {message}\n")

    try:
        with contextlib.redirect_stdout(stream), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield stream
    finally:
        root.removeHandler(recorder)


def assert_same_outcome(got: Seen, expected: Seen) -> None:
    """Two calls looked the same from outside."""
    if (got.error is None) != (expected.error is None):
        raise AssertionError(f"got {got.error or got.value!r} for {expected.error or expected.value!r}") from got.error
    if expected.error is not None:
        assert_same_error(got.error, expected.error)
    assert_same(got.value, expected.value)
    assert_same(got.args, expected.args)
    assert shared_objects((got.args, got.value)) == shared_objects((expected.args, expected.value)), "identities differ"
    assert got.text == expected.text
    assert got.backward_error == expected.backward_error


def assert_same_error(got: BaseException | None, expected: BaseException | None) -> None:
    """Equal type, text and, for groups, members."""
    assert type(got) is type(expected), f"{got!r} for {expected!r}"
    assert str(got) == str(expected)
    for a, b in zip(getattr(got, "exceptions", ()), getattr(expected, "exceptions", ()), strict=True):
        assert_same_error(a, b)


def shared_objects(nest: Any) -> list[int]:
    """For each mutable object met in a walk, the number of its first meeting: equal lists mean equal sharing."""
    first: dict[int, int] = {}
    pattern = []
    for item in _objects(nest, set()):
        pattern.append(first.setdefault(id(item), len(first)))
    return pattern


def _objects(nest: Any, open_ids: set[int]) -> Iterator[Any]:
    if id(nest) in open_ids:
        return
    if isinstance(nest, (list, dict, deque, bytearray, torch.Tensor, torch.nn.Module)):
        yield nest
    open_ids.add(id(nest))
    if isinstance(nest, dict):
        for item in nest.values():
            yield from _objects(item, open_ids)
    elif isinstance(nest, (list, tuple, deque)):
        for item in nest:
            yield from _objects(item, open_ids)
    open_ids.discard(id(nest))


def _assert_same_key(got: Any, expected: Any) -> None:
    if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(expected)):
        assert_same(got, expected)
    else:
        assert got == expected, f"{got!r} for {expected!r}"


def assert_same(got: Any, expected: Any) -> None:
    """Equal in value and type, through containers and objects."""
    if isinstance(expected, numpy.ndarray):
        assert isinstance(got, numpy.ndarray) and got.dtype == expected.dtype, f"{got!r} for {expected!r}"
        numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        return
    if isinstance(expected, BaseException):
        assert_same_error(got, expected)
        return
    if isinstance(expected, weakref.ref):
        return
    if isinstance(expected, itertools.count):
        assert repr(got) == repr(expected)
        return
    if isinstance(expected, numpy.floating) and type(got) is type(expected):
        numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)  # libraries round their own way
        return
    assert type(got) is type(expected), f"{type(got)} is not {type(expected)}: {got!r} for {expected!r}"
    if isinstance(expected, torch.Tensor):
        _assert_same_tensor(got, expected)
        return
    if isinstance(expected, dict):
        assert len(got) == len(expected)
        for (key, value), (expected_key, expected_value) in zip(got.items(), expected.items(), strict=True):
            _assert_same_key(key, expected_key)
            assert_same(value, expected_value)
    if isinstance(expected, (list, tuple, deque)):
        assert len(got) == len(expected), f"{got!r} for {expected!r}"
        for a, b in zip(got, expected, strict=True):
            assert_same(a, b)
    if isinstance(expected, torch.nn.Module):
        assert_same(got.state_dict(), expected.state_dict())
        assert_same([p.grad for p in got.parameters()], [p.grad for p in expected.parameters()])
    if hasattr(expected, "__dict__") and not isinstance(expected, (type, FunctionType, MethodType)):
        assert_same(vars(got), vars(expected))
    elif not isinstance(expected, (dict, list, tuple, deque)) and type(expected).__eq__ is not object.__eq__:
        assert got == expected or (got != got and expected != expected), f"{got!r} for {expected!r}"


def _assert_same_tensor(got: torch.Tensor, expected: torch.Tensor) -> None:
    if expected.layout is not torch.strided:
        got, expected = got.to_dense(), expected.to_dense()
    torch.testing.assert_close(got, expected, equal_nan=True)
    assert got.requires_grad == expected.requires_grad and got.stride() == expected.stride()
    assert got.is_leaf == expected.is_leaf
    if expected.is_leaf:
        assert_same(got.grad, expected.grad)
