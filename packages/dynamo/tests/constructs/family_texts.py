# ruff: noqa: UP030, UP031, UP032, F521, F523, F524, F525
"""Texts: formatting of objects and values, exceptions with texts of their own, files and streams."""

from __future__ import annotations

import io
import math
import pprint
import string
import sys
import warnings
from collections import OrderedDict, defaultdict, deque

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Coded(Exception):
    def __init__(self, text, *, code=0):
        super().__init__(text)
        self.code = code

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


@construct(X)
def exception_with_a_text_of_its_own(x):
    try:
        raise Coded("bad", code=3)
    except Coded as error:
        print(error)
        return x * error.code, str(error), f"{error}", repr(error), error.args


class Shown:
    def __init__(self):
        self.v, self.items = 3, [1, {"k": 5}]

    def __repr__(self):
        return "shown"

    def __str__(self):
        return "text"

    def __format__(self, spec):
        return f"<{spec}>"


class Filling(dict):
    def __missing__(self, key):
        return "?" + key


@construct(X, Shown())
def formatted_objects(x, o):
    return (
        x,
        "{}".format(o),
        "{0!r:>7}|{0:q}|{0.v:03d}|{0.items[1][k]}|{a!s}|{{}}".format(o, a=o),
        "{:{}} {}".format(o, "w", x.shape),
        "{a} {b}".format_map({"a": o, "b": 1}),
        "{zz} {a}".format_map(Filling(a=o)),
        "%s %r" % (o, o),
        "%(a)s" % {"a": o},
        f"{o:{'x' * 3}} {o!r:^9}",
    )


@construct(X, Shown(), {"k": Shown()}, [Shown()])
def containers_of_objects(x, o, mapping, items):
    return (
        x,
        repr(defaultdict(list, a=[o])),
        str(OrderedDict(a=o)),
        repr(OrderedDict()),
        repr(deque([o, 1], maxlen=3)),
        repr({o}),
        repr(frozenset([o])),
        str(mapping),
        str(items),
        f"{mapping!r:>20} {(o,)}",
        "%s" % mapping,
    )


class Rounded:
    def __trunc__(self):
        return 4

    def __floor__(self):
        return 5

    def __ceil__(self):
        return "up"


@construct(X, Rounded())
def rounding_of_objects(x, o):
    return x, math.trunc(o), math.floor(o), math.ceil(o), math.floor(2.5), math.ceil(x.shape[0] / 4)


@construct(X)
def lines_of_tracebacks(x):
    def fails():
        raise KeyError("a")

    lines = []
    try:
        fails()
    except KeyError as error:
        lines.append(error.__traceback__.tb_lineno)
    try:
        raise ValueError
    except ValueError as error:
        lines.append(error.__traceback__.tb_lineno)
    return x, lines


@construct(X, Shown())
def wrong_formats(x, o):
    calls = [
        lambda: "{} {0}".format(o),
        lambda: "{0} {}".format(o),
        lambda: "{1}".format(o),
        lambda: "{a}".format(o),
        lambda: "{".format(o),
        lambda: "{!x}".format(o),
        lambda: "{:{:{}}}".format(o, 1, 2),
        lambda: "{}".format_map({"a": o}),
        lambda: "{.zz}".format(o),
    ]
    texts = []
    for call in calls:
        try:
            texts.append(call())
        except (ValueError, IndexError, KeyError, AttributeError) as error:
            texts.append((type(error).__name__, str(error)))
    return x, texts


@construct(X)
def written_to_standard_output(x):
    count = sys.stdout.write("raw\n")
    print("printed")
    sys.stdout.flush()
    pprint.pprint({"a": [1, 2]})
    return x * 2, count


@construct(X, io.StringIO())
def written_to_a_file_argument(x, stream):
    stream.write("a")
    print("b", file=stream)
    return x * 2


@construct(X)
def formatter_object(x):
    return x, string.Formatter().format("{a}-{0}", 5, a=1), list(string.Formatter().parse("a{b}"))


@construct(X, breaks="call")
def warning_that_a_filter_raises(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("inside", stacklevel=1)
        except UserWarning as error:
            return x * 2, str(error)


def quantized_twice(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize() * 2


quantized_twice(X)  # torch warns of the function once a process


@construct(X, breaks="fake")
def quantized(x):
    return quantized_twice(x)
