"""Texts and data in formats: json, regular expressions with functions, templates, dates."""

from __future__ import annotations

import copy
import datetime
import json
import math
import re
import string

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


class Thing:
    def __init__(self):
        self.v = 1


class Encoder(json.JSONEncoder):
    def default(self, o):
        return {"v": o.v}


def _text(function):
    try:
        return function()
    except (ValueError, TypeError, re.error) as error:
        return type(error), str(error)


@construct(X, 3)
def json_written_and_read(x, n):
    data = {"k": [1, 2, {"z": None}], "f": 1.5, "t": True}
    return (
        x,
        (
            json.dumps(data),
            json.dumps(data, indent=2, sort_keys=True),
            json.dumps({"n": n}),
            json.dumps({1: 2, None: 3}),
        ),
        (json.dumps([Thing()], default=lambda o: o.v * n), json.dumps([Thing(), (1, [])], cls=Encoder)),
        (json.dumps([Thing(), math.nan, "é\n"], default=lambda o: o.v, ensure_ascii=False, indent=1),),
        json.loads('{"a":[1,2.5,"x\\u0041",null, true, {"b":-1e5}]}'),
        (json.loads('{"a":1}', object_hook=lambda d: list(d.items())), json.loads("[1.5]", parse_float=str)),
    )


@construct(X)
def errors_of_formats(x):
    found = [
        _text(lambda: json.loads("{")),
        _text(lambda: json.dumps(object)),
        _text(lambda: json.dumps({(1,): 2})),
        _text(lambda: json.dumps(math.inf, allow_nan=False)),
        _text(lambda: re.compile("(")),
        _text(lambda: re.sub("a", lambda m: 1, "ba")),
    ]
    try:
        json.loads("[1,")
    except json.JSONDecodeError as error:
        return x, found, error.pos, error.lineno, error.msg, error.doc


@construct(X, raises=True)
def an_error_of_json_leaves(x):
    return x, json.loads("{")


@construct(X, "ab12c")
def patterns_with_functions(x, s):
    seen = []

    def upper(found):
        seen.append(found.group())
        return found.group().upper()

    compiled = re.compile("[a-z]")
    return (
        x,
        (re.sub("[a-z]", upper, s), compiled.sub(upper, s, count=1), compiled.subn(upper, s), seen),
        (re.subn("x*", lambda m: "-", "abxd"), re.sub("x*", "-", "abxd"), re.sub("a", lambda m: None, "bab")),
        (re.sub(b"a", lambda m: b"z", b"bab"), re.sub("(?P<q>a)", r"\g<q>!", "bab"), re.sub("q", upper, "")),
    )


@construct(X)
def templates(x):
    t = string.Template("$a ${b} $$")
    return x, t.substitute(a=1, b="c"), t.safe_substitute(a=Thing().v), string.Formatter().format("{0}-{a}", 1, a=2)


@construct(X, raises=True)
def a_template_that_lacks_a_name(x):
    return x, string.Template("$a").substitute()


@construct(X)
def dates_and_times(x):
    moment = datetime.datetime(2020, 1, 2) + datetime.timedelta(days=1, hours=2)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    return (
        x * moment.day,
        (moment.isoformat(), moment.strftime("%Y"), (moment - datetime.datetime(2020, 1, 1)).total_seconds()),
        (datetime.time(3, 4).hour, datetime.time(1) < datetime.time(2), datetime.date(2020, 1, 1).weekday()),
        (datetime.datetime.fromisoformat("2020-01-01"), datetime.datetime.strptime("2020", "%Y")),
        (moment.replace(tzinfo=zone).isoformat(), datetime.UTC, zone.utcoffset(None)),
        datetime.datetime.combine(datetime.date(2020, 1, 1), datetime.time(1)),
    )


@construct(X, breaks="input-output")
def a_tensor_copied_by_copy(x):
    return copy.copy(x), copy.deepcopy(x), x * 2
