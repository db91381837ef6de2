"""Asks guards by both of their implementations: the program in C and its twin in Python."""

from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.program import compile_guards
from triptych_dynamo.guards.python_check import check
from triptych_dynamo.sources import LocalSource

X, Y = LocalSource("x"), LocalSource("y")
FREE = "free"


def make_function(content=FREE, empty=False):
    free = content

    def fn(x, y=None, *rest, key=None, **more):
        return free

    if empty:
        del free
    return fn


def verdicts(guards, values, fn=None):
    """The violated guard by C and by the twin (None: all hold), checked to agree on whether there is one."""
    fn = fn or make_function()
    names = fn.__code__.co_varnames
    program = compile_guards(guards, fn.__code__)
    variables = dict(zip(names, values, strict=False))
    padded = tuple(values) + (None,) * (len(names) - len(values))
    for _ in range(2):
        failed = program.failed(padded, fn)
    twin = check(guards, {**dict.fromkeys(names), **variables}, fn)
    assert (failed is None) == (twin is None), (failed, twin)
    return None if failed is None else guards[failed], twin


def holds(guards, *values, fn=None):
    return verdicts([guards] if isinstance(guards, Guard) else guards, values, fn)[0] is None


def reason(guard, *values, fn=None):
    found, twin = verdicts([guard], values, fn)
    assert found is guard and twin[0] is guard
    return twin[1]


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Counted(dict):
    def __len__(self):
        raise AssertionError("user code ran")

    __contains__ = __getitem__ = __iter__ = __len__
