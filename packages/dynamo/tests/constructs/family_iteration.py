# ruff: noqa: UP033, E501
"""Iterators, `itertools`, generators over values, and the functions that consume them."""

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import math
import operator

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class ByIndex:
    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return index * 10

    def __len__(self):
        return 3


@construct(X)
def lazy_builtins(x):
    a = list(zip([1, 2, 3], "ab"))
    b = list(map(lambda u, v: u + v, [1, 2], [3, 4]))
    c = list(filter(None, [0, 1, "", "a"])) + list(filter(lambda v: v > 1, [1, 2, 3]))
    d = list(enumerate("ab", start=5))
    e = list(reversed([1, 2, 3]))
    return a, b, c, d, e, [t.sum() for t in x], list(zip(*[(1, 2), (3, 4)]))


@construct(X, raises=True)
def zip_strict(x):
    return list(zip([1, 2], [3], strict=True))


@construct(X)
def next_and_sentinel(x):
    it = iter([1, 2])
    got = [next(it), next(it), next(it, "end")]
    counter = Countdown(5)
    return got, list(iter(lambda: next(counter), 2)), list(it)


@construct(X, raises=True)
def next_at_the_end(x):
    return next(iter([]))


@construct(X)
def user_iterators(x):
    total = 0
    for i in Countdown(3):
        total += i
    return (
        total,
        list(Countdown(2)),
        [*ByIndex()],
        list(reversed(ByIndex())),
        20 in ByIndex(),
        sum(Countdown(4)),
        max(Countdown(3)),
    )


@construct(X)
def shared_iterator(x):
    it = iter(range(5))
    first = next(it)
    rest = []
    for i in it:
        if i == 3:
            break
        rest.append(i)
    return first, rest, list(it)


@construct(X)
def list_grows_while_iterated(x):
    items = [1, 2]
    for item in items:
        if len(items) < 5:
            items.append(item + 2)
    return items


@construct(X)
def all_itertools(x):
    i = itertools
    return (
        list(i.chain([1], (2,), "c")),
        list(i.chain.from_iterable([[1], [2, 3]])),
        list(i.islice(i.count(3, 2), 4)),
        list(i.islice("abcdef", 1, None, 2)),
        list(i.repeat("r", 2)),
        list(i.product([1, 2], "ab")),
        list(i.product([0, 1], repeat=2)),
        list(i.accumulate([1, 2, 3])),
        list(i.accumulate([1, 2, 3], operator.mul, initial=10)),
        list(i.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(i.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(i.filterfalse(lambda v: v % 2, range(4))),
        list(i.starmap(pow, [(2, 3), (3, 2)])),
        list(i.compress("abc", [1, 0, 1])),
        list(i.zip_longest([1, 2], [3], fillvalue=0)),
        list(i.pairwise([1, 2, 3])),
        list(i.combinations("abc", 2)),
        list(i.combinations_with_replacement("ab", 2)),
        list(i.permutations([1, 2, 3], 2)),
        [(k, list(g)) for k, g in i.groupby([1, 1, 2, 1])],
        [list(t) for t in i.tee([1, 2])],
        list(i.islice(i.cycle("ab"), 5)),
    )


@construct(X)
def generators(x):
    def squares(n):
        for i in range(n):
            yield x * i

    def nested():
        result = yield from squares(2)
        yield result

    return (
        list(squares(2)),
        list(nested()),
        sum(i for i in range(4)),
        any(i > 2 for i in range(5)),
        all(i for i in [1, 0]),
    )


@construct(X)
def reductions(x):
    return (
        sum([1, 2], 10),
        sum([x, x]),
        min(3, 1, 2),
        max([1, 5, 2]),
        max("a", "bbb", key=len),
        min([], default=7),
        any([0, None]),
        all([]),
        sorted([3, 1]),
        functools.reduce(lambda a, b: a * b, [1, 2, 3], 4),
        math.prod([2, 3]),
        sum([[1], [2]], []),
    )


@construct(X)
def heaps_and_bisect(x):
    heap = [5, 3, 8]
    heapq.heapify(heap)
    heapq.heappush(heap, 1)
    first = heapq.heappop(heap)
    return heap, first, heapq.nlargest(2, [1, 5, 3]), bisect.bisect([1, 3, 5], 3), bisect.bisect_left([1, 3, 5], 3)


@construct(X)
def operator_module(x):
    items = [1, 2]
    operator.setitem(items, 0, 9)
    get = operator.itemgetter(1, 0)
    return (
        operator.add(1, 2),
        operator.getitem("ab", 1),
        operator.contains([1], 1),
        operator.not_(0),
        get("ab"),
        items,
        operator.attrgetter("shape")(x),
        operator.methodcaller("sum")(x),
        operator.mul(x, 2),
        operator.index(3),
        operator.truth([]),
        operator.is_(None, None),
        operator.iadd([1], [2]),
        operator.neg(x),
    )


@construct(X)
def partial_functions(x):
    def f(a, b, c=1, *, d=2):
        return a, b, c, d

    p = functools.partial(f, 1, d=5)
    q = functools.partial(p, 2, c=7)
    return p(2), q(), p.func is f, p.args, p.keywords


@functools.cache
def cached(n):
    return n + 1


@functools.lru_cache
def cached_by_name(name):
    return {"a": 1}.get(name)


@construct(X)
def cached_functions(x):
    return cached(2), cached_by_name("a"), x


@construct(X, [(1, 2), (3, 4)])
def iterator_argument_of_lists(x, pairs):
    return [a + b for a, b in pairs], {k: v for k, v in pairs}


@construct(X, {0, 8, 16}, set(range(40)), {1, 2})
def order_of_sets_that_changed(x, given, large, cleared):
    s = set(range(20))
    for i in range(15):
        s.discard(i)
    s |= {64, 32, 0, 8}
    t, u = {8, 0}, {0, 8}
    both, copied = t | u, t.copy()
    copied.discard(8)
    copied.update([16, 8])
    given.discard(0)
    given.add(24)
    given.add(0)
    for i in range(35):
        large.remove(i)
    large |= {64, 128, 0}
    cleared.clear()
    cleared.update([9, 1, 17])
    made = [list(t), list(u), list(both), list(copied), repr(copied), list(t & {16, 8, 0}), list({1, 9} ^ {17, 1})]
    popped = [s.pop() for _ in range(3)], list(s), list(set(s)), list(frozenset(copied)), given.pop()
    return x, made, popped, list(given), list(large), list(cleared)


@construct(X)
def how_many_items_are_left(x):
    found = []
    for made in ({1: 2, 3: 4}, {1: 2}.items(), {1: 2}.values(), {1, 2}, [1, 2], (1,), "abc", range(3)):
        iterator = iter(made)
        before = operator.length_hint(iterator, 7)
        next(iterator)
        found.append((before, operator.length_hint(iterator, 7)))
    return x, found, operator.length_hint(zip([1], [2]), 7), operator.length_hint(reversed([1, 2]), 7)
