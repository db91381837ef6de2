"""What is known of a real iterator without moving it: its parts, and the items that it gives next.

C's iterators tell both through `__reduce__`. The functions here are read steps of sources (`DerivedSource`), so they
are compared by what they read.
"""

from __future__ import annotations

import ast
import gc
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Iterators over what they hold: (function that remakes them, (container,), position or nothing).
_LIST: list[Any] = []
_DICT: dict[Any, Any] = {}
_SAMPLES: tuple[Iterator[Any], ...] = (
    *(iter(_LIST), iter(()), iter(range(0)), reversed(_LIST), iter(_DICT), iter(_DICT.values()), iter(_DICT.items())),
    *(iter(""), iter("\u00e9"), iter(b""), iter(set[Any]())),
    *(reversed(_DICT), reversed(_DICT.values()), reversed(_DICT.items())),
)
LEAVES: tuple[type, ...] = tuple(dict.fromkeys(map(type, _SAMPLES)))
_BACKWARDS: type = type(reversed(_LIST))


def left(iterator: Any) -> int:
    """How many items a leaf still gives."""
    return operator.length_hint(iterator)


@dataclass(frozen=True)
class Upcoming:
    """The item that a leaf gives after `number` others; raises LookupError where there is none."""

    number: int

    def __call__(self, iterator: Any) -> Any:
        if self.number >= left(iterator):
            raise LookupError(f"the iterator ends before item {self.number}")
        _, (container,), *position = iterator.__reduce__()
        start = (position[0] if position else 0) or 0  # None: since 3.12 an iterator of a range moves the range itself
        return container[start - self.number if type(iterator) is _BACKWARDS else start + self.number]

    def __str__(self) -> str:
        return f"upcoming item {self.number}"


@dataclass(frozen=True)
class Part:
    """An iterator inside of an `enumerate`, `zip` or `map`, the function of a `map`, the number of an `enumerate`."""

    number: int

    def __call__(self, iterator: Any) -> Any:
        return iterator.__reduce__()[1][self.number]

    def __str__(self) -> str:
        return f"part {self.number}"


@dataclass(frozen=True)
class CountPart:
    """The number that an `itertools.count` gives next (0), and its step (1); its text alone tells without moving it."""

    number: int

    def __call__(self, counter: Any) -> Any:
        parts = ast.literal_eval(f"({repr(counter).removeprefix('count(').removesuffix(')')},)")
        return (*parts, 1)[self.number]

    def __str__(self) -> str:
        return ("next number", "step")[self.number]


@dataclass(frozen=True)
class Viewed:
    """The dictionary of a view of its keys, values or items."""

    def __call__(self, view: Any) -> Any:
        (mapping,) = gc.get_referents(view)
        return mapping

    def __str__(self) -> str:
        return "dictionary"


@dataclass(frozen=True)
class GivesMore:
    """A test: the leaf gives more than `number` items, or (not `more`) no more."""

    number: int
    more: bool

    def __call__(self, iterator: Any) -> bool:
        return (left(iterator) > self.number) is self.more


@dataclass(frozen=True)
class HasParts:
    """A test: a `zip` or `map` of so many parts."""

    count: int
    strict: bool

    def __call__(self, iterator: Any) -> bool:
        return len(iterator.__reduce__()[1]) == self.count and is_strict(iterator) is self.strict


def is_strict(zipped: Any) -> bool:
    """Whether a `zip` is one of equal lengths."""
    return len(zipped.__reduce__()) > 2


def advance(iterator: Iterator[Any], count: int) -> None:
    """Take so many items; one more than there are ends the iterator."""
    for _ in range(count):
        next(iterator, None)
