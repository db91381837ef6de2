"""What every random program begins with: classes, managers, generators and helpers, and `say`, which breaks the graph.

The text of this module is copied in front of each program, so that each has state of its own.
"""

import contextlib
import copy
import dataclasses
import functools
import itertools

import torch
import triptych_dynamo

USED_BY_PROGRAMS = (copy, itertools)

STATE = {"calls": 0}


@triptych_dynamo.disable
def say(log, *what):
    """A call that no graph holds: it notes what it is given."""
    log.append(tuple(item.detach().clone() if isinstance(item, torch.Tensor) else item for item in what))
    return what[0] if what else None


graph_break = triptych_dynamo.graph_break


class Trouble(Exception):
    def __init__(self, code, *rest):
        super().__init__(f"trouble {code}", *rest)
        self.code = code


class Box:
    made = 0

    def __init__(self, value):
        self.value = value
        self.count = 1
        type(self).made += 1

    def scaled(self, t):
        self.count += 1
        return t * 0.5 + self.value

    @property
    def doubled(self):
        return self.value * 2

    @property
    def limited(self):
        return self.count

    @limited.setter
    def limited(self, number):
        self.count = min(number, 9)

    def __getattr__(self, name):
        if name.startswith("dynamic_"):
            return self.__dict__.get("value") + len(name)
        raise AttributeError(name)

    def __add__(self, other):
        return self.value + other

    def __call__(self, t, *, by=1):
        return t * by - self.value

    def __len__(self):
        return self.count % 5

    def __bool__(self):
        return True

    def __eq__(self, other):
        return isinstance(other, Box) and self.count == other.count

    __hash__ = object.__hash__


class Special(Box):
    def __init__(self, value, number):
        super().__init__(value)
        self.count += number
        self.history = [number]

    def scaled(self, t):
        self.history.append(self.count)
        return super().scaled(t) - 1

    def __len__(self):
        return super().__len__() + 1


@dataclasses.dataclass
class Record:
    value: object
    count: int = 3
    tags: list = dataclasses.field(default_factory=list)

    def scaled(self, t):
        self.tags.append(self.count)
        return t + self.value

    @property
    def doubled(self):
        return self.value + self.value

    @property
    def limited(self):
        return 0

    @limited.setter
    def limited(self, number):
        self.tags.append(number)

    @property
    def dynamic_total(self):
        return self.value * self.count

    def __add__(self, other):
        return other

    def __call__(self, t, by=2):
        return t * by

    def __len__(self):
        return len(self.tags)

    __hash__ = object.__hash__


class Countdown:
    def __init__(self, start):
        self.left = start % 4

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        return self.left


class Manager:
    def __init__(self, log, swallows):
        self.log = log
        self.swallows = swallows

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", kind and kind.__name__, str(error), trace is None))
        return self.swallows


@contextlib.contextmanager
def scope(log, number):
    log.append(("in", number))
    try:
        yield number
    except KeyError as error:
        log.append(("swallowed", str(error)))
    finally:
        log.append("out")


@contextlib.contextmanager
def speaking(log, number):
    say(log, "in", number)
    try:
        yield number
    finally:
        say(log, "out", number)


def numbers(t, count, log):
    for i in range(count % 4 + 1):
        sent = yield t + i
        if sent is not None:
            log.append(("sent", sent))


def delegating(t, count, log):
    got = yield from numbers(t, count, log)
    log.append(("done", got))
    say(log, count)
    yield t * 2


def helper(t, n, log):
    u = t * 0.5
    say(log, n)
    return u + n


def helper_of(n, log):
    total = 0

    def run(t):
        nonlocal total
        total += n
        if total > 5:
            say(log, total)
        return t - total

    return run


def deep(t, n, log):
    if n <= 0:
        return helper(t, 3, log)
    try:
        return deep(t + 1, n - 1, log) - n
    finally:
        log.append(("deep", n))


def keywords(t, *rest, scale=1, **named):
    return t * scale + sum(named.values()) + len(rest)


def total_of(*tensors, start):
    for t in tensors:
        start = start + t
    return start


@functools.cache
def cached(n):
    return n * 3


def fail_if(condition, kind, log):
    if condition:
        say(log, "failing")
        raise kind("asked for")
