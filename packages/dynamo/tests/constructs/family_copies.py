"""Copies of containers and of objects that say how they are copied, and small tools of the standard library."""

from __future__ import annotations

import collections
import copy
import functools
import heapq
import inspect
import types

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


@construct(X)
def copies_of_containers(x):
    originals = (
        collections.deque([1, [2]], maxlen=3),
        collections.deque([3]),
        {1, 2},
        collections.OrderedDict(a=[1]),
        collections.defaultdict(list, a=[1]),
        collections.defaultdict(None, a=[1]),
        collections.Counter("aab"),
        types.SimpleNamespace(a=[1]),
        bytearray(b"ab"),
    )
    shallow, deep = [copy.copy(item) for item in originals], [copy.deepcopy(item) for item in originals]
    shallow[0].append(3)
    deep[0][1].append(9)
    shallow[3]["a"].append(5)
    deep[4]["z"].append(1)
    deep[7].a.append(3)
    deep[8].append(1)
    return x, originals, shallow, deep, [a is b for a, b in zip(originals, shallow, strict=True)]


def _made(v):
    result = Reduced.__new__(Reduced)
    result.v = v * 2
    return result


class Reduced:
    def __init__(self):
        self.v = 1

    def __reduce__(self):
        return _made, (self.v,)


class ReducedBy(Reduced):
    def __reduce_ex__(self, protocol):
        return _made, (self.v + protocol,)


class Stated:
    def __init__(self):
        self.v = 1

    def __getstate__(self):
        return {"v": 7}


class Restored(Stated):
    def __setstate__(self, state):
        self.v = state["v"] + 1


@construct(X)
def copies_that_objects_make(x):
    made = copy.copy(Reduced()), copy.deepcopy([Reduced()])[0], copy.copy(ReducedBy())
    return x, [item.v for item in made], copy.copy(Stated()).v, copy.deepcopy(Restored()).v


@construct(X)
def heaps_with_the_largest_first(x):
    numbers = [3, 1, 2, 5, 4]
    return (
        x,
        heapq.nsmallest(2, numbers),
        heapq.nlargest(2, numbers, key=lambda v: -v),
        list(heapq.merge([5, 3], [4], reverse=True)),
    )


@construct(X)
def texts_and_signatures(x):
    def f(a, b: int = 2, *, c=3):
        return a

    mapping = {"a": 1}
    proxy = types.MappingProxyType(mapping)
    mapping["b"] = 2
    partial = functools.partial(f, 1)
    names = getattr(partial, "__name__", "none"), hasattr(partial, "mro"), list(inspect.signature(partial).parameters)
    return x, repr(proxy), str(proxy), f"{proxy}", names, str(inspect.signature(f))


@construct(X)
def a_dictionary_without_a_factory(x):
    d = collections.defaultdict()
    d["a"] = 1
    return x, d, str(d), d.default_factory, repr([collections.defaultdict(None, b=2)])
