"""Counters and views of dictionaries that the program had before."""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict

import torch
import triptych_dynamo
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Counting:
    """Counters; not every Python copies them."""

    def __init__(self, *args):
        self.args, self.last = args, None
        self.counter = itertools.count(*args)

    def __deepcopy__(self, memo):
        return Counting(*self.args)


class Views:
    """Views of one dictionary, which a copy has too."""

    def __init__(self, mapping):
        self.mapping = mapping
        self.keys, self.values, self.items = mapping.keys(), mapping.values(), mapping.items()

    def __deepcopy__(self, memo):
        return Views(copy.deepcopy(self.mapping, memo))


@construct(X, Counting(3), Counting(3, 2), Counting(0.5, 0.25))
def counters(x, *given):
    a, b, c = (one.counter for one in given)
    return x + next(a) + next(a), list(zip(a, "ab", strict=False)), next(b), next(b), next(c) * x, next(a)


@construct(X, Counting())
def counter_of_an_object(x, o):
    o.last = next(o.counter)
    return x * o.last


@construct(X, Counting(3), breaks="explicit")
def counter_over_a_break(x, o):
    c = o.counter
    y = x + next(c)
    triptych_dynamo.graph_break()
    return y + next(c)


@construct(X, Views({"a": 1, "b": 2}))
def views_of_a_dictionary(x, v):
    v.mapping["n"] = 5
    first = next(iter(v.items))
    return x + sum(v.values), list(v.keys), "a" in v.keys, len(v.values), v.keys | {"q"}, first


@construct(X, Views(OrderedDict(a=1, b=2)))
def views_of_an_ordered_dictionary(x, v):
    return x, list(v.keys), list(reversed(v.keys)), list(v.items)


@construct(X, Views({"a": 1}), breaks="explicit")
def views_over_a_break(x, v):
    keys = v.keys
    triptych_dynamo.graph_break()
    v.mapping["m"] = 3
    return x, list(keys), keys is v.keys
