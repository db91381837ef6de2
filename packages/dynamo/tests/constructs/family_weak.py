"""Weak references, proxies and weak containers: of the program's objects and of objects that the region makes."""

from __future__ import annotations

import weakref

import torch
import triptych_dynamo
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Thing:
    def __init__(self, v=3):
        self.v = v

    def times(self, k):
        return self.v * k

    def __len__(self):
        return 7

    def __add__(self, other):
        return self.v + (other.v if isinstance(other, Thing) else other)

    def __getitem__(self, index):
        return index * 2


class Owned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.__dict__["again"] = weakref.ref(self.inner)
        self.__dict__["itself"] = weakref.proxy(self)

    def forward(self, x):
        return self.again()(x) + self.itself.inner.bias


THING, OTHER, TENSOR, MODULE = Thing(), Thing(5), torch.ones(3), Owned()
REF, PROXY, TENSOR_REF = weakref.ref(THING), weakref.proxy(THING), weakref.ref(TENSOR)
KEYS = weakref.WeakKeyDictionary({THING: 5})
VALUES = weakref.WeakValueDictionary({"a": THING})
SET = weakref.WeakSet([THING])
EMPTY = weakref.WeakSet()


@construct(X)
def references_of_the_program(x):
    REF().w = 5
    return x * REF().v + THING.w, REF() + 1, REF() is THING, REF().times(2), TENSOR_REF() + 1, MODULE(x)


@construct(X)
def proxies_of_the_program(x):
    PROXY.z = 4
    facts = isinstance(PROXY, Thing), type(PROXY) is weakref.ProxyType, bool(PROXY), PROXY.__class__ is Thing
    return x * PROXY.v, THING.z, PROXY.times(2), len(PROXY), PROXY + 1, PROXY + PROXY, PROXY[4], facts


@construct(X)
def weak_containers_of_the_program(x):
    keys = KEYS[THING], len(KEYS), THING in KEYS, KEYS.get(OTHER), [(k.v, v) for k, v in KEYS.items()]
    values = VALUES["a"].v, "b" in VALUES, VALUES.get("b"), len(VALUES), list(VALUES), [v.v for v in VALUES.values()]
    return x * len(SET), THING in SET, OTHER in SET, [thing.v for thing in SET], keys, values


@construct(X)
def a_reference_dies_where_the_program_lets_go(x):
    def made():
        thing = Thing()
        return weakref.ref(thing), lambda: thing.v

    def gone():
        thing = Thing()
        return weakref.ref(thing)

    def read(proxy):
        try:
            return proxy.v
        except ReferenceError as error:
            return str(error)

    thing, listed = Thing(), [{"k": Thing(2)}]
    r, p, deep = weakref.ref(thing), weakref.proxy(thing), weakref.ref(listed[0]["k"])
    p.q = 1
    before = r() is thing, r is weakref.ref(thing), r == weakref.ref(Thing()), read(p), deep().v, thing.q
    del thing
    listed.clear()
    kept, function = made()
    return x * function(), before, r(), read(p), deep(), kept() is None, gone()(), weakref.ref(Thing())()


@construct(X)
def weak_containers_made_here(x):
    values, things = weakref.WeakValueDictionary(), weakref.WeakSet()
    thing = Thing(9)
    values["a"] = thing
    things.add(thing)
    return x * values["a"].v, len(values), len(things), thing in things, [t.v for t in things]


@construct(X, breaks="call")
def what_a_weak_set_held_is_gone(x):
    def add():
        EMPTY.add(Thing(2))

    add()
    return x * 2, len(EMPTY), [thing.v for thing in EMPTY]


@construct(X, breaks="explicit")
def things_held_weakly_over_a_break(x):
    values = weakref.WeakValueDictionary()
    first, second = Thing(), Thing()
    values["a"] = first
    r = weakref.ref(second)
    triptych_dynamo.graph_break()
    return x * 2, len(values), "a" in values, r() is None
