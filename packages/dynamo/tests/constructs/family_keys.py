"""Keys of dictionaries and members of sets with `__hash__` and `__eq__` of their own: when they are asked."""

from __future__ import annotations

import copy

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Key:
    """Notes each question."""

    def __init__(self, number, log):
        self.number, self.log = number, log

    def __hash__(self):
        self.log.append(("hash", self.number))
        return self.number % 2

    def __eq__(self, other):
        self.log.append(("eq", self.number, other.number))
        return self.number == other.number


@construct(X)
def keys_are_asked_once(x):
    log = []
    mapping = {}
    mapping[Key(1, log)] = "a"
    mapping[Key(3, log)] = "b"
    mapping[Key(1, log)] = "c"
    found = mapping.get(Key(3, log)), Key(5, log) in mapping
    return x, found, list(log), len(mapping.copy())


@construct(X)
def members_are_asked_once(x):
    log = []
    members = set()
    members.add(Key(1, log))
    members.add(Key(3, log))
    members.add(Key(1, log))
    members.discard(Key(3, log))
    members.discard(Key(7, log))
    members.remove(Key(1, log))
    return x, list(log), len(members)


class Switch:
    """Its hash changes, or fails."""

    value = 7

    def __hash__(self):
        if self.value < 0:
            raise RuntimeError("no hash")
        return self.value


@construct(X, breaks="attribute-store")
def a_key_that_loses_its_hash(x):
    key = Switch()
    mapping = {key: x + 1}
    members = {key}
    key.value = -1
    try:
        mapping[key]
    except RuntimeError as error:
        return str(error), len(mapping), len(members), x + 2


class HashedList(list):
    """Compared as a list, hashed by a method of its own."""

    def __hash__(self):
        return hash(tuple(self))


@construct(X)
def keys_compared_by_a_builtin(x):
    mapping = {}
    for index in range(3):
        mapping[HashedList([index])] = index
    mapping[HashedList([0])] = 5
    return x, [mapping.get(HashedList([index]), -1) for index in range(4)], len({HashedList("a"), HashedList("a")})


class Items(list):
    pass


class Pair(tuple):
    pass


class Mapping(dict):
    pass


class Members(set):
    pass


class Half(Items):
    """Not iterated over as it is."""

    def __iter__(self):
        return iter(())


@construct(X)
def containers_of_two_subclasses(x):
    return (
        x,
        [Items([1]) == Items([1]), Items([1]) != Items([1]), Items([1]) < Items([2]), Items([1]) + Items([2])],
        [Pair((1,)) == Pair((1,)), Pair((1,)) != Pair((2,)), Pair((1,)) < Pair((2,)), Pair((1,)) + Pair((2,))],
        [Mapping(a=1) == Mapping(a=1), Mapping(a=1) != Mapping(a=1), Mapping(a=1) | Mapping(b=2)],
        [Members("a") == Members("a"), Members("a") < Members("ab"), Members("a") | Members("b")],
        [Half([1]) == Items([1]), Items([1]) == Half([1]), Half([1]) + Items([2]), list.__eq__(Items(), Half())],
    )


class Itself:
    """A copy of it is the object itself."""

    def __reduce__(self):
        return "name"


@construct(X)
def copies_that_are_the_object(x):
    thing = Itself()
    return x, copy.copy(thing) is thing, copy.deepcopy([thing])[0] is thing


class Member:
    """An object in a set of a subclass."""


@construct(X, Members([Member()]))
def members_of_a_subclass_that_are_objects(x, members):
    first = next(iter(members))
    members.add(3)
    return x + 1, first in members, Member() in members, len(members)
