"""Objects with a `__hash__` and an `__eq__` of their own as keys of dictionaries and members of sets."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych_dynamo as td


class ByClass:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash((self.number, "salt"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.number == other.number


class Small(ByClass):
    def __hash__(self) -> int:
        return self.number % 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int


@dataclasses.dataclass(unsafe_hash=True)
class Open:
    number: int


KINDS = [ByClass, Small, Frozen, Open]
PROGRAMS: dict[str, Callable[..., Any]] = {
    "subscript": lambda x, d, k, make: x + d[make(2)],
    "missing": lambda x, d, k, make: x + d[make(9)],
    "contains": lambda x, d, k, make: (x, make(1) in d, make(3) in d, k in d, make(1) in d.keys()),
    "get": lambda x, d, k, make: (x, d.get(make(1)), d.get(make(3), 7), d.get(k, 8)),
    "copy": lambda x, d, k, make: (x, {**d, make(1): 5}[make(1)], len(dict(d) | {make(2): 0, make(4): 1})),
    "sets": lambda x, d, k, make: (x, len(set(d) | {make(1), make(7)}), len({k, make(1), make(5)}), make(2) in set(d)),
    "nested": lambda x, d, k, make: (x, (make(1), 2) in {(k, 2): 1}, {frozenset((k,)): 3}.get(frozenset((make(1),)))),
    "store": lambda x, d, k, make: (d.__setitem__(make(1), x + 1), d.pop(make(2), None), d.setdefault(k, x))[1:],
}


def outcome(fn: Callable[..., Any], make: Any, key: Any) -> Any:
    table = {make(1): torch.ones(1), make(2): torch.full((1,), 2.0)}
    try:
        result: Any = repr(fn(torch.zeros(1), table, key, make))
    except KeyError as error:
        result = error.args[0].number
    return result, [(known.number, value) for known, value in table.items()]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_found_by_what_they_are(name: str, make: Any) -> None:
    program = PROGRAMS[name]
    compiled = td.optimize("eager")(program)
    for number in (1, 3, 2, 1):
        assert repr(outcome(compiled, make, make(number))) == repr(outcome(program, make, make(number)))


@pytest.mark.parametrize("make", [ByClass, Small, Open])
@pytest.mark.parametrize("name", ["contains", "get", "sets", "nested", "store"])
def test_changed_between_calls(name: str, make: Any) -> None:
    program = PROGRAMS[name]
    compiled, key = td.optimize("eager")(program), make(1)
    for number in (1, 2, 3, 1, 2):
        key.number = number
        expected, key.number = outcome(program, make, key), number
        assert repr(outcome(compiled, make, key)) == repr(expected)


def test_a_hash_that_is_no_number() -> None:
    class Wrong:
        def __hash__(self) -> Any:
            return "text"

    compiled = td.optimize("eager")(lambda x: {Wrong(): x})
    with pytest.raises(TypeError, match="__hash__ method should return an integer"):
        compiled(torch.ones(1))


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


@functools.lru_cache
def cached(*given: Any) -> tuple[Any, ...]:
    return given


@pytest.mark.parametrize(
    "program",
    [
        lambda x, o: x + len({o: 1}),
        lambda x, o: x + (o in {1, 2}),
        lambda x, o: x + len(cached(o)),
        lambda x, o: x + len(cached([x])),
        lambda x, o: x + len(cached(Unhashable())),
    ],
)
def test_what_has_no_hash(program: Callable[..., Any]) -> None:
    with pytest.raises(TypeError) as expected:
        program(torch.ones(1), Unhashable())
    with pytest.raises(TypeError, match=str(expected.value)):
        td.optimize("eager")(program)(torch.ones(1), Unhashable())


def test_a_cache_answers_equal_objects_with_the_first() -> None:
    def program(x: torch.Tensor, one: Any, two: Any) -> Any:
        return cached(one, x)[0] is cached(two, x)[0], cached(one, x) is cached(two, x)

    for make in (ByClass, Frozen):
        cached.cache_clear()
        expected = program(torch.ones(1), make(1), make(1))
        assert td.optimize("eager")(program)(torch.ones(1), make(1), make(1)) == expected == (True, True)
