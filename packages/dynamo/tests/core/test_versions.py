"""What versions of CPython do in their own way: instructions and texts of errors. Plain Python is the oracle."""

import functools
from collections import deque

import pytest
import torch
import triptych_dynamo as td
from error_texts import texts

X = torch.arange(6.0).reshape(2, 3)


def unhashable_keys(x):
    table, lists, nested = {}, [], ([],)
    return texts(
        lambda: table[lists], lambda: {nested: 1}, lambda: lists in {1: 2}, lambda: {1: 2}.setdefault({}, 1)
    ), x


def unhashable_members(x):
    lists = []
    return texts(
        lambda: {lists}, lambda: lists in {1}, lambda: {1}.add({}), lambda: set([lists]), lambda: hash(lists)
    ), x


def missing_items(x):
    return texts(lambda: [1].index(5), lambda: (1,).index(5), lambda: deque([1]).index(5), lambda: [1].remove(2)), x


def wrong_lengths(x):
    def unpack(values):
        first, second = values
        return first, second

    cases = ([1, 2, 3], (1, 2, 3), {1: 1, 2: 2, 3: 3}, iter([1, 2, 3]), "abc", [1])
    return texts(*(functools.partial(unpack, case) for case in cases)), x


class OnlyEnter:
    def __enter__(self):
        return self


def no_managers(x):
    def enter(value):
        with value:
            return 1

    return texts(lambda: enter(OnlyEnter()), lambda: enter(3)), x


def cells_of_comprehensions(x):
    k = 5
    late = [lambda: k for k in range(3)]  # noqa: B023
    return [fn() for fn in late], k, x * k


def unset_after_a_comprehension(x):
    late = [lambda: n for n in range(3)]  # noqa: B023
    if x.shape[0] == 7:
        n = 1
    return texts(lambda: late[0]() + n), late[0]() * x


def annotations_of_a_made_function(x):
    def fn(a: int, *, b: "float" = 2.0) -> torch.Tensor:
        return a

    fn.extra = 1
    return fn.__annotations__, vars(fn), functools.wraps(fn)(lambda a: a).__annotations__, x


def parts(values):
    yield from (value for value in values if value)
    yield -1


def dropped_generators(x):
    for value in parts([1, 2]):
        if value:
            break
    first = next(parts([squared for squared in (v * v for v in range(3))]))
    return value, first, x + value


class Base:
    def leave(self, x):
        td.graph_break()
        return x + 1


class Derived(Base):
    def leave(self, x):
        y = x * 2
        td.graph_break()
        return super().leave(y) + super().leave(x)


def super_behind_a_break(x):
    return Derived().leave(x)


def with_behind_a_break(x):
    with torch.no_grad():
        y = x + 1
        td.graph_break()
        z = y * torch.is_grad_enabled()
    for value in (y, z):
        td.graph_break()
        x = x + value
    return x, torch.is_grad_enabled()


def keyword_dictionaries(x, *args, scale=1, **more):
    def callee(*args, **kwargs):
        td.graph_break()
        return args, kwargs

    return callee(*args, 1, **more, scale=scale), callee(*args), callee(**more), x * scale


def constants(x):
    found = [1, 255, 256, -1, True, 1.0, any(v > 2 for v in range(4)), all(v for v in (1, 2)), tuple(v for v in (1, 2))]
    return found, x[1:, 0:2], found[2:4], x[0]


PROGRAMS = [
    *(unhashable_keys, unhashable_members, missing_items, wrong_lengths, no_managers, cells_of_comprehensions),
    *(unset_after_a_comprehension, annotations_of_a_made_function, dropped_generators, super_behind_a_break),
    *(with_behind_a_break, keyword_dictionaries, constants),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program):
    compiled, expected = td.optimize("eager")(program), program(X)
    for _ in range(2):
        assert repr(compiled(X)) == repr(expected)
