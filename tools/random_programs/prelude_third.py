"""What programs of the third edition have besides: functions with a gradient of their own, hooks, hierarchies, async.

The text of this module is copied behind the other preludes, whose names it uses.
"""

import operator
import re
import weakref

import numpy
import torch

from tools.random_programs.prelude import Box, say

USED_BY_THIRD_PROGRAMS = (operator, re, weakref, numpy, say)


class Doubling(torch.autograd.Function):
    """Has a gradient that is not its forward's, and keeps what it was called with."""

    @staticmethod
    def forward(ctx, t, factor=2.0):
        ctx.save_for_backward(t)
        ctx.factor = factor
        return t * factor

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return gradient * t.cos() * ctx.factor, None


class Root:
    """The end of a diamond: each class adds to what the next in line says."""

    tally = 0

    def __init__(self, value=None, **rest):
        self._value = value
        self.rest = sorted(rest)

    def __init_subclass__(cls, weight=1, **options):
        super().__init_subclass__(**options)
        cls.weight = weight

    @property
    def value(self):
        Root.tally += 1
        return self._value

    @value.setter
    def value(self, new):
        self._value = new

    @value.deleter
    def value(self):
        self._value = torch.zeros(3, dtype=torch.float64)

    def path(self):
        return ["Root"]

    def applied(self, t):
        return t + 1


class Left(Root, weight=2):
    def __init__(self, value=None, left=1, **rest):
        super().__init__(value, **rest)
        self.left = left

    def path(self):
        return ["Left", *super().path()]

    def applied(self, t):
        return super().applied(t) * self.weight


class Right(Root, weight=3):
    def path(self):
        return ["Right", *super().path()]

    @property
    def value(self):
        return super().value * 2

    @value.setter
    def value(self, new):
        Root.value.fset(self, new / 2)

    @value.deleter
    def value(self):
        Root.value.fdel(self)

    def __getattr__(self, name):
        if name.startswith("made_"):
            return name[5:]
        raise AttributeError(name)


class Diamond(Left, Right, weight=4):
    def applied(self, t):
        return Right.applied(self, t) - super().applied(t)

    def __call__(self, t, *others, **named):
        return self.applied(t) + len(others) + sum(named.values())


def counter(start):
    """Two closures over one variable."""
    total = start

    def add(number=1):
        nonlocal total
        total += number
        return total

    def read(t):
        return t * total

    return add, read


def averaging(t, log):
    """A generator that is sent numbers, and tells of what is thrown into it."""
    total, count, sent = t, 1, 0
    while sent is not None:
        try:
            sent = yield total / count
            total, count = total + (sent or 0), count + 1
        except (ValueError, KeyError) as error:
            log.append(("thrown", type(error).__name__))
            sent = 0
    return count


def sent_through(t, numbers, log):
    """A generator driven by `send` and `throw`."""
    running = averaging(t, log)
    last = next(running)
    for number in numbers:
        try:
            last = running.throw(ValueError(number)) if number == 2 else running.send(number)
        except StopIteration as stop:
            return last + stop.value
    running.close()
    return last


def hooked(t, log, factor):
    """A result whose gradient passes a hook."""
    made = t * 1.5
    if made.requires_grad:
        made.register_hook(lambda gradient: gradient * factor)
    log.append(made.requires_grad)
    return made


async def waiting(t, log):
    log.append("awaited")
    return t + 1


async def waits(t, log):
    async def each():
        for step in range(2):
            yield step

    made = await waiting(t, log)
    async for step in each():
        made = made + step
    return made


def run_to_end(coroutine):
    """What a coroutine that waits for nothing gives."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    finally:
        coroutine.close()


def kind_of(thing):
    """A `match` of sequences, mappings, classes, values and guards."""
    match thing:
        case Diamond(left=1) | Left(left=2):
            return "left"
        case Root(rest=[]):
            return "bare"
        case {"a": _, **rest} if len(rest) > 1:
            return f"mapping {len(rest)}"
        case [torch.Tensor() as one, *_, torch.Tensor()] if one.dim():
            return "tensors"
        case (int() | float()) as number if number > 2:
            return f"number {number}"
        case str(text):
            return text.upper()
        case Box():
            return "box"
        case _:
            return "other"
