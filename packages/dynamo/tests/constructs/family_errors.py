"""Errors of builtin classes and of the data model: their classes and texts, caught by the program."""

from __future__ import annotations

import collections
import itertools
import sys
import types

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


def raised(*thunks):
    """The classes and texts of what the thunks raise; what they give where they do not."""
    found = []
    for thunk in thunks:
        try:
            found.append(thunk())
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@construct(X)
def too_many_or_too_few_arguments_of_builtin_classes(x):
    return x, raised(
        lambda: set((), ()),
        lambda: set(a=1),
        lambda: frozenset((), ()),
        lambda: list((), ()),
        lambda: list(iterable=()),
        lambda: tuple(a=()),
        lambda: bool(1, 2),
        lambda: bool(x=1),
        lambda: dict((), ()),
        lambda: range(),
        lambda: range(1, 2, 3, 4),
        lambda: range(stop=2),
        lambda: slice(),
        lambda: slice(1, 2, 3, 4),
        lambda: slice(stop=1),
    )


@construct(X)
def arguments_of_lazy_builtins(x):
    return x, raised(
        lambda: enumerate(),
        lambda: enumerate((), 1, 2),
        lambda: enumerate((), other=1),
        lambda: enumerate((), iterable=()),
        lambda: list(enumerate(start=2, iterable="ab")),
        lambda: reversed(),
        lambda: reversed([], "extra"),
        lambda: reversed({1}),
        lambda: zip(1),
        lambda: zip((), (), other=1),
        lambda: map(),
        lambda: map(len),
        lambda: filter(None),
        lambda: object(1),
        lambda: types.MethodType(len),
        lambda: collections.deque((), 1, 2),
    )


@construct(X)
def ranges_beyond_the_machine(x):
    big = range(0, sys.maxsize * 10, 2)
    steps = iter(big)
    return (
        x,
        raised(lambda: len(big), lambda: range(1, 2, 0), lambda: big[sys.maxsize * 10], lambda: range(3)[5]),
        big[sys.maxsize],
        next(steps),
        next(steps),
        list(itertools.islice(big, 3)),
        bool(big),
        type(steps).__name__,
    )


@construct(X)
def bounds_of_slices(x):
    return (
        x,
        slice(None, None, -2).indices(7),
        raised(lambda: slice(0, 10, 0).indices(5), lambda: slice("a").indices(5), lambda: slice(1).indices(-1)),
    )


class Reversible:
    def __init__(self, log):
        self.log = log

    def __len__(self):
        self.log.append("len")
        return 3

    def __getitem__(self, index):
        self.log.append(index)
        return index * 10


@construct(X, [4, 5, 6, 7])
def reversed_iterators_are_lazy(x, items):
    log = []
    back = reversed(Reversible(log))
    first = next(back)
    before = list(log)
    live, half = reversed(items), reversed(collections.deque(items))
    next(live), next(half)
    items[0] = 40
    return x, first, before, next(back), log, live, half, reversed(items).__length_hint__()


class Unreversible(list):
    __reversed__ = None


@construct(X)
def length_hints(x):
    used = reversed([1, 2])
    list(used)
    return (
        x,
        iter(range(4)).__length_hint__(),
        iter([1, 2]).__length_hint__(),
        used.__length_hint__(),
        iter("abc").__length_hint__(),
        raised(lambda: reversed(Unreversible())),
    )


class Slotted:
    __slots__ = ("z",)
    y = 0


@construct(X)
def attributes_that_cannot_be_written(x):
    def delete(name):
        delattr(Slotted(), name)

    class Open:
        pass

    return x, raised(
        lambda: setattr(Slotted(), "y", 1),
        lambda: delete("y"),
        lambda: setattr(Slotted(), "x", 1),
        lambda: delete("x"),
        lambda: delete("z"),
        lambda: delattr(Open(), "x"),
        lambda: type.__setattr__(Open, b"x", None),
        lambda: object.__setattr__(Open(), 1, None),
        lambda: object.__getattribute__(Open(), 1),
    )


@construct(X)
def popitem_with_an_argument(x):
    return x, raised(
        lambda: {1: 2}.popitem(42), lambda: collections.OrderedDict(a=1).popitem(False), lambda: {}.popitem()
    )


class Point:
    __match_args__ = ("a", "b")
    a, b = 1, 2


class WithList:
    __match_args__ = ["a"]
    a = 1


class WithNumbers:
    __match_args__ = (1,)


def _point(subject):
    match subject:
        case Point(1, 2, 3):
            return "three"


def _twice(subject):
    match subject:
        case Point(1, a=1):
            return "twice"


def _list(subject):
    match subject:
        case WithList(1):
            return "list"


def _numbers(subject):
    match subject:
        case WithNumbers(1):
            return "numbers"


def _no_class(subject):
    cls = 3
    match subject:
        case cls():
            return "no class"


@construct(X)
def errors_of_class_patterns(x):
    return x, raised(
        lambda: _point(Point()),
        lambda: _twice(Point()),
        lambda: _list(WithList()),
        lambda: _numbers(WithNumbers()),
        lambda: _no_class(1),
    )


def _star(error, classes):
    try:
        raise error
    except* classes:
        pass


@construct(X)
def errors_of_except_star(x):
    return x, raised(
        lambda: _star(OSError("a"), ExceptionGroup),
        lambda: _star(OSError("a"), (TypeError, BaseExceptionGroup)),
        lambda: _star(OSError("a"), int),
        lambda: _star(OSError("a"), 42),
    )


class LenOnly:
    def __len__(self):
        return 10


@construct(X)
def items_of_what_has_none(x):
    return x, raised(lambda: LenOnly()[0], lambda: LenOnly[0], lambda: raised[0], lambda: len(x)[0])


class Clearing:
    """A comparison with it takes all items away."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        self.items.clear()
        return False


def _with_clearing(method):
    items = collections.deque("ab")
    items.append(Clearing(items))
    items.append("c")
    return getattr(items, method)("c")


@construct(X)
def errors_of_deques(x):
    items = collections.deque("abc")
    return x, raised(
        lambda: items.remove("z"),
        lambda: items.index("z"),
        lambda: items.index("b", 2),
        lambda: items.index("c", -2, 9),
        lambda: items.__setitem__(9, 1),
        lambda: items.__delitem__(9),
        lambda: collections.deque("a", -1),
        lambda: collections.deque("a", "b"),
        lambda: list(collections.deque(iterable="abcd", maxlen=2)),
        lambda: _with_clearing("remove"),
        lambda: _with_clearing("index"),
        lambda: dict.fromkeys(),
    )


class Queue(collections.deque):
    pass


class Items(list):
    pass


class Members(set):
    pass


@construct(X)
def begun_again(x):
    items, members = Items("ab"), Members("ab")
    items.__init__("c")
    members.__init__("c")
    members.__init__()
    return x, list(items), list(members)


@construct(X, breaks="call")
def queue_begun_again(x):
    items = Queue("ab")
    items.__init__("c")
    return x + 1, list(items)


@construct(X, collections.deque([1, 2, 3]))
def items_of_a_deque_change_in_place(x, items):
    steps = iter(items)
    items[0] = x + 1
    items[-1] = 5
    return steps, next(steps), items


@construct(X)
def super_of_what_is_no_class(x):
    texts = []
    for start in (1, "a"):
        try:
            super(start, int)
        except TypeError as error:
            texts.append(str(error))
    return x + 1, texts
