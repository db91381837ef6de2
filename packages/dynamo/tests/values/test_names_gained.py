"""Names that classes, modules and functions gain, or get back from a base, after a graph was made without them."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
import triptych_dynamo

X = torch.zeros(())


class Meta(type):
    pass


def _class():
    return type("C", (), {})


def _exception_class():
    return type("E", (Exception,), {})


def _meta_class():
    return Meta("D", (), {})


def _module():
    return ModuleType("some_module")


def _function():
    return lambda: 0


def _instance():
    return _class()()


def by_default(o, x):
    o.seen = getattr(o, "seen", 0) + 4
    return x + o.seen


def asked(o, x):
    found = hasattr(o, "seen")
    o.seen = 1
    return x + found


def caught(o, x):
    try:
        o.seen += 1
    except AttributeError:
        o.seen = 1
    return x + o.seen


def _history(fn, holder):
    results = [fn(holder, X), fn(holder, X)]
    holder.seen = 50
    results.append(fn(holder, X))
    del holder.seen
    return [*map(float, [*results, fn(holder, X)])]


@pytest.mark.parametrize("program", [by_default, asked, caught])
@pytest.mark.parametrize("make", [_class, _exception_class, _meta_class, _module, _function, _instance])
def test_a_name_that_comes_and_goes(program, make):
    assert _history(triptych_dynamo.optimize("eager")(program), make()) == _history(program, make())


def _pair():
    class Base:
        limit = 1

        @classmethod
        def above(cls, x):
            return x + cls.limit

    class Derived(Base):
        pass

    return Base, Derived


CHANGES = {
    "attribute": (lambda base, derived, x: x + derived.limit, lambda base, derived: setattr(derived, "limit", 9)),
    "class-method": (lambda base, derived, x: derived.above(x), lambda base, derived: setattr(derived, "limit", 9)),
    "method-itself": (
        lambda base, derived, x: derived.above(x),
        lambda base, derived: setattr(derived, "above", lambda x: x + 9),
    ),
    "of-instance": (
        lambda base, derived, x: x + getattr(derived(), "zz", 0),
        lambda base, derived: setattr(derived, "zz", 9),
    ),
    "of-base": (lambda base, derived, x: x + hasattr(derived(), "zz"), lambda base, derived: setattr(base, "zz", 9)),
    "fallback": (
        lambda base, derived, x: x + getattr(derived(), "zz", 0),
        lambda base, derived: setattr(derived, "__getattr__", lambda self, name: 9),
    ),
    "length": (
        lambda base, derived, x: x + bool(derived()),
        lambda base, derived: setattr(derived, "__len__", lambda self: 0),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_derived_class_gains_a_name(name):
    program, change = CHANGES[name]

    def history(fn):
        base, derived = _pair()
        first = float(fn(base, derived, X))
        change(base, derived)
        return [first, float(fn(base, derived, X))]

    assert history(triptych_dynamo.optimize("eager")(program)) == history(program)
    assert len(set(history(program))) == 2


def test_a_name_that_stays_away_costs_no_recompile():
    compiled = triptych_dynamo.optimize("eager")(lambda o, x: x + getattr(o, "absent", 1))
    holder = _class()
    assert [float(compiled(holder, X)) for _ in range(3)] == [1.0] * 3
    assert len(triptych_dynamo.region_of(compiled).records) == 1
