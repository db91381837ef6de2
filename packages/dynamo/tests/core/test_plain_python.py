"""Plain Python inside of a region, as CPython's own tests ask for it. Plain Python is the oracle."""

import sys
from collections import deque

import pytest
import torch
import triptych_dynamo as td
from error_texts import texts

X = torch.arange(6.0).reshape(2, 3)


def wrong_keys(x):
    items, pair, numbers = [1, 2], (1, 2), range(3)
    found = [texts(lambda s=s, k=k: s[k]) for s in (items, pair, numbers) for k in ("a", None, 2**70, slice("a", 1))]

    def store(key):
        items[key] = 1

    def delete(key):
        del items[key]

    done = texts(*(lambda do=do, k=k: do(k) for do in (store, delete) for k in ("a", 7, slice(0, 2, 0), slice(0, 1))))
    return found, done, items, x


def steps_of_zero(x):
    return texts(lambda: [1][::0], lambda: (1,)[::0], lambda: range(3)[::0]), [1, 2, 3][::-2], x


class Two:
    def __index__(self):
        return 2


def indices_of_objects(x):
    items = [0, 1, 2, 3]
    items[Two()] = 9
    return items[Two()], items[: Two()], items * Two(), (1, 2, 3)[Two()], range(9)[Two() :], x


def too_many_items(x):
    return texts(lambda: [0, 0] * sys.maxsize, lambda: (0,) * 2**70, lambda: [0] * "a", lambda: [1] * 1.5), x


def the_same_tuple(x):
    pair, empty = (1, x), ()
    found = [pair * 1 is pair, pair[:] is pair, pair + empty is pair, empty + pair is pair, pair[0:] is pair]
    return found, id(pair) == id(pair * 1), pair[1:] is pair, x


class Clearing:
    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        self.items.clear()
        return False


def lists_that_shrink(x):
    items, others = [1, 2, 3], deque([1, 2, 3])
    found = texts(lambda: items.index(Clearing(items)) if len(items) else None)
    return [name for name, _ in found], items, texts(lambda: others.index(7)), x


class Described:
    @property
    def fixed(self):
        return 1


class OnlySet:
    def __set__(self, owner, value):
        pass


class Holds:
    item = OnlySet()


def deletions(x):
    def delete(owner, name):
        delattr(owner, name)

    return texts(lambda: delete(Described(), "fixed"), lambda: delete(Holds(), "item"), lambda: delete(Holds(), "b")), x


def names_of_real_generators(x):
    made = (value for value in [x])
    td.graph_break()
    return texts(lambda: delattr(made, "__name__"), lambda: setattr(made, "__name__", 1)), made.__name__


def names_of_generators(x):
    def numbers():
        yield x

    made, other = numbers(), numbers()
    made.__name__, made.__qualname__ = "name", "qualified"
    wrong = texts(lambda: setattr(made, "__name__", 1), lambda: delattr(made, "__qualname__"))
    numbers.__name__ = "renamed"
    return made.__name__, made.__qualname__, other.__name__, numbers().__name__, wrong


def a_named_generator_leaves(x):
    def numbers():
        yield x

    made = numbers()
    made.__name__ = "name"
    return made


def locals_by_name(x):
    first, second = 1, x + 1
    td.graph_break()
    return eval("first + 1"), sorted(name for name in locals() if not name.startswith("__triptych"))


def statements_by_name(x):
    table, key, other = {}, 1, 2
    td.graph_break()
    exec("table[key] = other", globals(), locals())
    return table, x


class NoHash:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        if self.value is None:
            raise RuntimeError("compared")
        return self.value == other.value


def views_of_items(x):
    one, two, more = {1: NoHash(1)}, {1: NoHash(1)}, {1: NoHash(1), 2: NoHash(2)}
    left, right, larger = one.items(), two.items(), more.items()
    found = [left == right, left != right, left <= right, left < right, left < larger, larger > left, larger >= right]
    return found, (1, NoHash(1)) in left, (1, 2, 3) in left, 5 in left, one.keys() < more.keys(), one.keys() == {1}, x


def views_that_raise(x):
    left, right = {1: NoHash(None)}.items(), {1: NoHash(None)}.items()
    return texts(lambda: left == right, lambda: left <= right, lambda: (1, 1) in left), x


class Numbers:
    def __init__(self, log, lacks=None):
        self.log, self.lacks, self.at = log, lacks, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        return self.at

    def __getattr__(self, name):
        raise (self.lacks or AttributeError)(name)


class Closing(Numbers):
    def send(self, value):
        self.log.append(value)
        return value

    def close(self):
        self.log.append("closed")


def delegate(inner, log):
    try:
        yield from inner
    finally:
        log.append("left")


def delegation_to_iterators(x):
    log = []

    def send(inner):
        made = delegate(inner, log)
        return next(made), made.send(5)

    def throw(inner):
        made = delegate(inner, log)
        return next(made), made.throw(KeyError("thrown"))

    def close(inner):
        made = delegate(inner, log)
        return next(made), made.close()

    wrong = [
        texts(lambda do=do, lacks=lacks: do(Numbers(log, lacks))) for do in (send, throw) for lacks in (None, OSError)
    ]
    return wrong, send(Closing(log)), close(Closing(log)), close(iter([1, 2])), log, x


PROGRAMS = [
    *(wrong_keys, steps_of_zero, indices_of_objects, too_many_items, the_same_tuple, lists_that_shrink),
    *(names_of_generators, locals_by_name, statements_by_name, views_of_items, views_that_raise),
    *(delegation_to_iterators, deletions, names_of_real_generators),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program):
    compiled, expected = td.optimize("eager")(program), program(X)
    for _ in range(2):
        assert repr(compiled(X)) == repr(expected)


def test_a_named_generator():
    made = td.optimize("eager")(a_named_generator_leaves)(X)
    assert made.__name__ == "name" and torch.equal(next(made), X)
