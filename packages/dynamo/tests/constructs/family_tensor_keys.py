"""Dictionaries keyed by tensors, which are found by identity."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from types import MappingProxyType

import torch
from table import construct

A, B, C = torch.arange(3.0), torch.ones(3), torch.ones(3)


@construct(A, B, {A: {"step": torch.tensor(1.0)}, B: {}})
def items_by_arguments(a, b, state):
    state[a]["step"] += 1
    state[b]["step"] = a * 2
    return a + state[a]["step"], len(state[b])


@construct(A, B, C, {A: 1, B: 2})
def looked_for(a, b, c, state):
    found = [a in state, b in state, c in state, state.get(c), state.get(b), state.pop(c, 5), (a + 1) in state]
    try:
        state[c]
    except KeyError as error:
        found.append(error.args[0] is c)
    return a + 1, found


@construct(A, B, C, defaultdict(dict, {A: {"n": 1}}))
def a_factory(a, b, c, state):
    for tensor in (a, b, c):
        inner = state[tensor]
        if len(inner) == 0:
            inner["average"] = torch.zeros_like(tensor)
        inner["n"] = inner.get("n", 0) + 1
    return len(state), [tensor is key for tensor, key in zip((a, b, c), state, strict=True)]


@construct(A, B, C, {A: 1, B: 2})
def written(a, b, c, state):
    state[a] = a * 3
    state[c] = 7
    del state[b]
    return state.setdefault(c, 8), state.setdefault(b, 9), list(state.values())


@construct(A, {A: 1, B: 2, C: 3})
def iterated(a, state):
    total = a * 0
    for tensor, factor in state.items():
        total = total + tensor * factor
    return total, [tensor is a for tensor in state], len(state)


@construct(A, {"x": 0, A: 1, 5: 2})
def among_constants(a, state):
    return a + state["x"], state[a], state[5], list(state)[1] is a, 7 in state


@construct(A, B, OrderedDict([(B, 1), (A, 2)]))
def in_an_ordered_dictionary(a, b, state):
    state.move_to_end(b)
    return a + 1, [key is b for key in state], state[a]


@construct(A, {A: 1})
def made_in_the_region(a, state):
    made = a * 2
    state[made] = made + 1
    own = {made: 1, a: 2}
    own[made] = 3
    return state, own[made], own[a], made in state, a.clone() in state, made


@construct(A, B, {A: 1, B: 2})
def equal_tensors_are_two_keys(a, b, state):
    b.copy_(a)
    a.add_(1)
    return state[a.mul_(1)], state[b], a.detach() in state


@construct(A, {(A, 1): 2}, breaks="dict-key")
def inside_of_tuples(a, state):
    return a + 1, state[a, 1]


VIEW = MappingProxyType({A: {"n": 1}})


@construct(A, breaks="dict-key")
def behind_a_proxy(a):
    return a + 1, [inner["n"] for inner in VIEW.values()]


class Records(dict):
    """A subclass that reads in a way of its own."""

    def __getitem__(self, key):
        return ("mine", super().__getitem__(key))


@construct(A, B, Records({A: {"n": torch.ones(2)}, B: 2}))
def of_a_subclass(a, b, records):
    records[b] = records[a][1]["n"] + 1
    return records[b], records.get(a)["n"] * 2, len(records)
