"""What programs of the second edition have besides: slots, descriptors, operators, modules, decorators, generators.

The text of this module is copied behind the prelude, whose names it uses.
"""

import collections
import contextlib
import dataclasses
import enum
import functools
import random

import torch
from triptych_dynamo import disable

from tools.random_programs.prelude import Box, say

USED_BY_WIDE_PROGRAMS = (random,)
TOTAL = 0
SCALE = 2
Pair = collections.namedtuple("Pair", "left right", defaults=(1,))


def bump(number):
    global TOTAL
    TOTAL += number
    return TOTAL


class Clamped:
    """A data descriptor that counts its reads."""

    def __set_name__(self, owner, name):
        self.slot = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        instance.reads += 1
        return getattr(instance, self.slot, 0)

    def __set__(self, instance, number):
        setattr(instance, self.slot, max(0, min(number, 6)))


class Slot:
    """A class without instance dictionaries, with most operators."""

    __slots__ = ("_level", "items", "reads")
    level = Clamped()
    limit = 4

    def __init__(self, value, level=1):
        self.reads = 0
        self.items = [value]
        self.level = level

    @classmethod
    def of(cls, *values):
        made = cls(values[0], len(values))
        made.items.extend(values[1:])
        return made

    @staticmethod
    def half(t):
        return t * 0.5

    def __getitem__(self, index):
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __delitem__(self, index):
        if len(self.items) > 1:
            del self.items[index]

    def __contains__(self, number):
        return number == self.level

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)

    def __lt__(self, other):
        return self.level < other.level

    def __radd__(self, other):
        return other + self.items[0]

    def __iadd__(self, t):
        self.items = [item + t for item in self.items][:3]
        return self

    def __matmul__(self, t):
        return self.items[-1] * t

    def __invert__(self):
        return type(self)(self.items[-1], self.level - 1)

    def __format__(self, spec):
        return f"<{self.level:{spec or '2'}}>"

    def __repr__(self):
        return f"Slot({self.level}, {len(self.items)})"


class DeepSlot(Slot):
    __slots__ = ("extra",)
    limit = 7

    def __init__(self, value, level=2):
        super().__init__(value, level)
        self.extra = "deep"

    def __getitem__(self, index):
        return super().__getitem__(index) + 1

    @classmethod
    def of(cls, *values):
        return super().of(*values, values[0])


@dataclasses.dataclass(order=True, kw_only=True)
class Point:
    number: int = 1
    name: str = "p"
    value: object = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self):
        self.number += 1


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def other(self):
        return Color.BLUE if self is Color.RED else Color.RED


class Layer(torch.nn.Module):
    """A module with buffers, a training flag that matters, and plain state."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, dtype=torch.float64)
        self.norm = torch.nn.BatchNorm1d(3, dtype=torch.float64)
        self.register_buffer("total", torch.zeros(3, dtype=torch.float64))
        self.steps = 0

    def forward(self, m, scale=1):
        self.steps += 1
        if self.training:
            self.total += m.detach().sum(0)
        return self.norm(self.linear(m)) * scale


class Deeper(torch.nn.Module):
    """Modules in containers, with one that breaks between them."""

    def __init__(self, log):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.tail = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(0.5))
        self.log = log

    def forward(self, m, scale=1):
        for index, layer in enumerate(self.layers):
            m = layer(m, scale)
            if index == 0 and self.layers[1].steps % 2:
                say(self.log, "between", m)
        return self.tail(m)


torch.manual_seed(7)
LOG_OF_NET = []
NET = Deeper(LOG_OF_NET)


def traced(log, name="traced"):
    def decorate(fn):
        @functools.wraps(fn)
        def run(*args, **kwargs):
            log.append((name, len(args), sorted(kwargs)))
            try:
                return fn(*args, **kwargs)
            finally:
                log.append(name + " out")

        return run

    return decorate


def catching(t, log):
    """A generator that handles what is thrown into it."""
    step = 0
    try:
        while step < 4:
            try:
                got = yield t + step
                log.append(("got", got))
                step += 1
            except KeyError as error:
                log.append(("caught", str(error)))
                step += 2
    except GeneratorExit:
        log.append("closed")
        raise
    finally:
        log.append(("ended", step))
    return t * step


def outer(t, log):
    with contextlib.suppress(ValueError):
        result = yield from catching(t, log)
        log.append(result)
    yield t - 1


class Counted:
    """A manager that can be used again, and as a decorator."""

    depth = 0

    def __enter__(self):
        Counted.depth += 1
        return Counted.depth

    def __exit__(self, *details):
        Counted.depth -= 1
        return False


@disable
def hidden(t, *rest):
    return t.flip(0)


def many(a, /, b, c=2, *args, d, e=4, **kwargs):
    return a + b * c + len(args) * d + e + len(kwargs)


def early(t, items, log):
    for index, item in enumerate(items):
        try:
            if index == 1:
                return t + item
        finally:
            log.append(("early", index))
            if item is None:
                break  # noqa: B012
    else:
        return t * 3
    return t


def make_box(value, log):
    box = Box(value)
    say(log, "made")
    return box
