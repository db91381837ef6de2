"""Iterators from outside of the frame: arguments, and those of loops that a graph break cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych_dynamo as td
from torch.utils import _pytree as pytree

X = torch.arange(3.0)


def two(it: Any, x: torch.Tensor) -> Any:
    return next(it), x + 1, next(it, "none")


def all_of(it: Any, x: torch.Tensor) -> Any:
    return [x * 2 if item is None else (item, x) for item in it]


def some(it: Any, x: torch.Tensor) -> Any:
    found = []
    for item in it:
        found.append(item)
        if len(found) == 2:
            break
    return found, x + len(found)


def past_the_end(it: Any, x: torch.Tensor) -> Any:
    items = list(it)
    return items, next(it, None), x + 1


def zipped_with_itself(it: Any, x: torch.Tensor) -> Any:
    return [pair for pair in zip(it, it)], x + 1  # noqa: B905, C416


def enumerated(it: Any, x: torch.Tensor) -> Any:
    first = next(it)
    for index, item in enumerate(it, 5):
        return first, index, item, x * index
    return first, x


PROGRAMS = [two, all_of, some, past_the_end, zipped_with_itself, enumerated]


def started(iterator: Any, count: int) -> Any:
    for _ in range(count):
        next(iterator, None)
    return iterator


ITEMS = [1, "two", (3.5,), None]
MAKERS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter(ITEMS),
    "list-started": lambda: started(iter(ITEMS), 2),
    "list-ended": lambda: started(iter(ITEMS), 9),
    "tuple": lambda: started(iter(tuple(ITEMS)), 1),
    "range": lambda: started(iter(range(3, 30, 4)), 2),
    "reversed": lambda: started(reversed(ITEMS), 1),
    "text": lambda: started(iter("h\u00e9llo"), 1),
    "bytes": lambda: iter(b"xyz"),
    "set": lambda: started(iter({3, 5}), 1),
    "keys": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "values": lambda: started(iter({"a": 1, "b": X}.values()), 1),
    "items": lambda: iter({"a": 1, "b": X}.items()),
    "enumerate": lambda: started(enumerate(ITEMS, 7), 1),
    "enumerate-twice": lambda: enumerate(enumerate(ITEMS)),
    "zip": lambda: started(zip(ITEMS, [X, X + 1, X + 2, X + 3], strict=False), 1),
    "zip-strict": lambda: zip(ITEMS, [X] * 4, strict=True),
    "zip-uneven": lambda: zip(ITEMS, [X, X + 1], strict=True),
    "zip-empty": lambda: zip(),
    "zip-enumerate": lambda: zip(enumerate([X, X + 1]), reversed(ITEMS), strict=False),
    "enumerate-zip": lambda: started(enumerate(zip(ITEMS, enumerate("abc"), strict=False)), 1),
    "map": lambda: map(lambda a, b: (a, b), ITEMS, [X, X + 1, X + 2]),
    "generator": lambda: (item for item in ITEMS),
    "chain": lambda: itertools.chain([1], [2, 3]),
}


def outcome(fn: Callable[..., Any], iterator: Any) -> tuple[Any, Any]:
    """The result or exception, and what the iterator still gives."""
    try:
        result = fn(iterator, X)
    except Exception as error:
        result = type(error), str(error)
    try:
        return result, list(iterator)
    except Exception as error:
        return result, (type(error), str(error))


def assert_same(got: Any, expected: Any) -> None:
    mine, tree = pytree.tree_flatten(got)
    theirs, other = pytree.tree_flatten(expected)
    assert tree == other, (got, expected)
    for one, two_ in zip(mine, theirs, strict=True):
        if isinstance(two_, torch.Tensor):
            torch.testing.assert_close(one, two_)
        else:
            assert type(one) is type(two_) and one == two_


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_iterator_as_argument(program: Any, kind: str) -> None:
    compiled = td.optimize("eager")(program)
    for _ in range(2):
        assert_same(outcome(compiled, MAKERS[kind]()), outcome(program, MAKERS[kind]()))


WHOLE = [kind for kind in MAKERS if kind not in ("generator", "chain", "zip-uneven")]


@pytest.mark.parametrize("kind", WHOLE)
def test_one_graph(kind: str) -> None:
    assert not td.explain(all_of)(MAKERS[kind](), X).breaks


def test_one_entry_for_every_place_in_a_list() -> None:
    graphs: list[Any] = []
    compiled = td.optimize(lambda gm, inputs: (graphs.append(gm), gm.forward)[1])(lambda it, x: next(it) * x)
    iterator = iter([X + n for n in range(4)])
    assert [compiled(iterator, X).tolist() for _ in range(4)] == [((X + n) * X).tolist() for n in range(4)]
    with pytest.raises(StopIteration):
        compiled(iterator, X)
    assert len(graphs) == 1


def test_a_list_that_changes_under_its_iterator() -> None:
    def program(it: Any, items: list[Any], x: torch.Tensor) -> Any:
        found = [next(it)]
        items.append(x + 1)
        items[1] = "new"
        return found + list(it)

    for _ in range(2):
        mine, theirs = [1, 2], [1, 2]
        got = td.optimize("eager")(program)(iter(mine), mine, X)
        assert_same(got, program(iter(theirs), theirs, X))
        assert_same(mine, theirs)


class Layers(torch.nn.Module):
    """A branch on a number in every layer."""

    def __init__(self, count: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(count))

    def run(self, layer: Any, x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        return y + 1 if y.sum() > 0 else y - 1

    def forward(self, x: torch.Tensor) -> Any:
        seen = []
        for index, layer in enumerate(self.layers):
            x = self.run(layer, x)
            seen.append(x * index)
        return x, seen


def paired(x: torch.Tensor) -> Any:
    found = []
    for name, (index, item) in zip("abcd", enumerate([x, -x, x * 2, x - 1]), strict=True):
        if item.sum() > 0:
            found.append((name, item * index))
        else:
            found.append((name, index))
    return found, x + 1


def mapped(x: torch.Tensor) -> Any:
    total = x
    for item in map(lambda a, b: a * b, [x, -x, x], reversed([1, 2, 3])):
        total = total + item if total.sum() > 1 else total - item
    return total


def counted_pairs(x: torch.Tensor) -> Any:
    found = []
    for index, (a, b) in enumerate(zip([x, -x, x], (1, 2, 3), strict=True)):
        if a.sum() > 0:
            found.append(a * b + index)
    return found, x + 1


def over_a_dictionary(x: torch.Tensor) -> Any:
    table = {"a": x, "b": -x, "c": x + 1}
    for key, item in table.items():
        if item.sum() > 0:
            table[key] = item * 2
    return table


def stopped(x: torch.Tensor) -> Any:
    rest = iter([x, -x, x + 5, x * 2])
    for item in rest:
        if item.sum() < 0:
            break
    return list(rest), x * 3


@pytest.mark.parametrize(
    ("program", "breaks"), [(paired, 4), (mapped, 3), (counted_pairs, 3), (over_a_dictionary, 3), (stopped, 2)]
)
def test_a_loop_goes_on_behind_a_break(program: Any, breaks: int) -> None:
    assert len(td.explain(program)(X).breaks) == breaks
    compiled = td.optimize("eager")(program)
    for scale in (1.0, -1.0, 1.0):
        assert_same(compiled(X * scale), program(X * scale))


@pytest.mark.parametrize("count", [3, 20])
def test_layers_with_a_break_in_each(count: int) -> None:
    layers = Layers(count)
    assert len(td.explain(layers)(X).breaks) <= 5  # as many as there are pieces of code
    graphs: list[Any] = []
    compiled = td.optimize(lambda gm, inputs: (graphs.append(gm), gm.forward)[1])(layers)
    for x in (X, X - 9, X * 2):
        assert_same(compiled(x), layers(x))
    assert len(graphs) <= 12  # not one for each layer
