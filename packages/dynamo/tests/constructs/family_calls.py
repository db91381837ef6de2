"""Calls: texts of wrong ones, cached functions, and methods of base classes called on atoms."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import ClassVar

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


# -- calls that do not fit ---------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Pair:
    a: int
    b: int = 2


@dataclasses.dataclass(kw_only=True)
class Named(Pair):
    c: int


def three(a, b, c):
    return a


def one(a, /, *, key=1, other):
    return a


def none():
    return None


@construct(X)
def texts_of_wrong_calls(x):
    calls = [
        Pair,
        lambda: Pair(1, 2, 3),
        lambda: Named(1, 2, 3),
        lambda: Named(1),
        three,
        lambda: three(1),
        lambda: three(1, 2, 3, 4),
        lambda: three(1, a=2),
        lambda: three(1, 2, 3, d=4),
        lambda: one(1),
        lambda: one(a=1, other=2),
        lambda: one(1, 2, other=3),
        lambda: none(1),
        lambda: none(1, 2),
        lambda: (lambda *, k: k)(1, k=2),
    ]
    texts = []
    for call in calls:
        try:
            call()
        except TypeError as error:
            texts.append(str(error))
    return x, texts


@construct(X)
def name_of_a_wrapped_function_in_texts(x):
    @functools.wraps(three)
    def wrapper(a):
        return a

    try:
        wrapper()
    except TypeError as error:
        return x, str(error)


@construct(X)
def joined_tensors(x):
    try:
        return ", ".join(["a", x])
    except TypeError as error:
        return x, str(error)


# -- cached functions --------------------------------------------------------------------------------------------------
@functools.lru_cache
def boxed(item, k=1):
    return [item, k]


@construct(X)
def cached_results_are_one_object(x):
    return x, boxed(x) is boxed(x), boxed(x, k=2) is boxed(x), boxed(1) is boxed(1)


class Holder:
    log: ClassVar[list] = []

    @functools.lru_cache  # noqa: B019
    def method(self, t):
        return [t]


@construct(X, Holder())
def cached_method_results_are_one_object(x, holder):
    return x, holder.method(x) is holder.method(x)


@construct(X)
def caches_made_inside(x):
    log = []

    @functools.lru_cache(maxsize=2)
    def made(item, k=1):
        """Doc."""
        log.append(k)
        return [item, k]

    same = made(x) is made(x), made(1) is made(1)
    made(2), made(3), made(1), made(1, k=2)
    info = made.cache_info()
    made.cache_clear()
    made(x)
    return x, same, log, info.hits, info.misses, made.cache_info().currsize, made.__name__, made.__doc__


@construct(X)
def recursion_through_a_cache(x):
    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x * fib(30)


# -- methods of base classes -------------------------------------------------------------------------------------------
@construct(X)
def methods_of_bases_on_atoms(x):
    return x, int.__repr__(True), str.__repr__("a"), object.__str__(3), object.__format__(3, ""), int.__add__(True, 1)


@construct(X, breaks="call")
def text_with_an_address(x):
    return x, object.__repr__(3)[:4]


@construct(X, types.SimpleNamespace(a=1))
def namespaces(x, given):
    made = types.SimpleNamespace(q=2)
    same = made == types.SimpleNamespace(q=2), made != types.SimpleNamespace(q=3), made == 1
    return x, same, repr(made), given == types.SimpleNamespace(a=1), repr(given)


@construct(X)
def globals_of_a_function(x):
    def local():
        return 1

    return x, local.__globals__ is globals(), three.__globals__ is globals(), "three" in local.__globals__
