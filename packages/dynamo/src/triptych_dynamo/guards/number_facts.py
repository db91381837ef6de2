"""Facts about numbers that Python computes before the graph runs: checks of `ComputedSource`s, for both guard twins.

A check is an object that compares equal to another of the same fact, so that a trace keeps each fact once. It is
called with the values of its leaves: the sources that the guard program can read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import (
    ComputedSource,
    LiteralSource,
    Source,
    TensorOffsetSource,
    TensorSizeSource,
    TensorStrideSource,
)

Evaluate = Callable[[Sequence[Any]], Any]

_TENSOR_NUMBERS: dict[type, Callable[[Any, Any], Any]] = {
    TensorSizeSource: lambda tensor, source: tensor.size(source.dim),
    TensorStrideSource: lambda tensor, source: tensor.stride(source.dim),
    TensorOffsetSource: lambda tensor, source: tensor.storage_offset(),
}


class Leaves:
    """The leaves of some sources, in order of first use, and functions of their values."""

    def __init__(self) -> None:
        self.sources: dict[Source, int] = {}

    def evaluator(self, source: Source) -> Evaluate:
        """A function that computes `source` from the leaves' values."""
        if isinstance(source, LiteralSource):
            value = source.value
            return lambda values: value
        if isinstance(source, ComputedSource):
            function, parts = source.function, [self.evaluator(operand) for operand in source.operands]
            return lambda values: function(*[part(values) for part in parts])
        read = _TENSOR_NUMBERS.get(type(source))
        if read is not None:
            assert source.base is not None
            slot = self._slot(source.base)
            return lambda values: read(values[slot], source)
        slot = self._slot(source)
        return lambda values: values[slot]

    def _slot(self, source: Source) -> int:
        return self.sources.setdefault(source, len(self.sources))


@dataclass(frozen=True)
class NumberCheck:
    """`test(value of each source)` is true; what the computation raises makes the fact false."""

    test: Any  # Callable[..., bool]; of equal tests, one is enough
    sources: tuple[Source, ...]
    _evaluators: list[Evaluate] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, *values: Any) -> bool:
        try:
            return bool(self.test(*[evaluate(values) for evaluate in self._evaluators]))
        except Exception:  # the program's own arithmetic: ZeroDivisionError, OverflowError, ...
            return False

    def fact(self, label: str) -> PythonFact:
        """The fact as a guard's value."""
        leaves = Leaves()
        self._evaluators[:] = [leaves.evaluator(source) for source in self.sources]
        return PythonFact(self, label, tuple(leaves.sources))


@dataclass(frozen=True)
class IsType:
    """The number is of this type; an int is one that fits 64 bits."""

    cls: type

    def __call__(self, value: Any) -> bool:
        return type(value) is self.cls and (type(value) is not int or value.bit_length() < 64)


@dataclass(frozen=True)
class IsTrue:
    """The number's truth is as it was."""

    truth: bool

    def __call__(self, value: Any) -> bool:
        return bool(value) is self.truth


@dataclass(frozen=True)
class IsSame:
    """The number is this one, of this type; floats by sign and NaN too."""

    text: str
    cls: type

    @classmethod
    def of(cls, value: Any) -> IsSame:
        """The test for a number."""
        return cls(repr(value), type(value))

    def __call__(self, value: Any) -> bool:
        return type(value) is self.cls and repr(value) == self.text


def type_fact(source: Source, cls: type) -> PythonFact:
    """`source` can be computed and is of type `cls`."""
    return NumberCheck(IsType(cls), (source,)).fact(f"type({source}) is {cls.__name__}")


def truth_fact(source: Source, truth: bool) -> PythonFact:
    """`bool(source)` is `truth`."""
    return NumberCheck(IsTrue(truth), (source,)).fact(f"bool({source}) is {truth}")


def equality_fact(source: Source, value: Any) -> PythonFact:
    """`source` is `value`."""
    return NumberCheck(IsSame.of(value), (source,)).fact(f"{source} == {value!r}")
