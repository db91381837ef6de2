"""Keys of dictionaries and members of sets with `__hash__` and `__eq__` of their own: when they are asked."""

from __future__ import annotations

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
