"""When the end of a suspended generator runs: as in plain Python, where the program lets go of it, breaks or not."""

from __future__ import annotations

import collections
import functools
import gc
import weakref

import pytest
import torch
import triptych_dynamo
from triptych_dynamo import disable


@disable
def say(log, what):
    log.append(what)


def closing(t, log):
    try:
        yield t
    finally:
        log.append("closed")


def delegating(t, log):
    yield from closing(t, log)


def held_to_the_end(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    say(log, 1)
    log.append(2)


def in_a_block(x, log, make):
    with torch.no_grad():
        kept = make(x, log)
        log.append(next(kept))
        say(log, 1)
    log.append(4)


def behind_finally(x, log, make):
    try:
        kept = make(x, log)
        log.append(next(kept))
    finally:
        say(log, 1)


def deleted(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    say(log, 1)
    log.append(2)
    del kept
    log.append(3)


def set_anew(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    say(log, 1)
    kept = 5
    log.append(kept)


def held_twice(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    other = kept
    say(log, 1)
    del kept
    log.append(2)
    other = None
    log.append(other)


def in_a_loop(x, log, make):
    for i in range(2):
        kept = make(x, log)
        log.append(next(kept))
        if i:
            say(log, 1)
        log.append(5)


def _inner(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    say(log, 1)
    return x + 1


def in_a_callee(x, log, make):
    log.append(_inner(x, log, make))
    log.append(_inner(x, log, make))


def beside_a_handler(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    try:
        raise ValueError("a")
    except ValueError:
        say(log, 3)
    log.append(4)


def beside_a_break_and_handler(x, log, make):
    kept = make(x, log)
    log.append(next(kept))
    try:
        say(log, 1)
        raise ValueError("a")
    except ValueError:
        say(log, 3)
    log.append(4)


def left_loop(x, log, make):
    for t in make(x, log):
        log.append(t)
        break
    log.append(3)


def named(t, log, name):
    try:
        yield t
    finally:
        log.append(name)


def two_at_the_end(x, log):
    first, second = named(x, log, "first"), named(x, log, "second")
    log.append((next(first), next(second)))
    say(log, 1)


def two_over_a_break(x, log):
    kept = named(x, log, "first")
    log.append(next(kept))
    say(log, 1)
    behind = named(x + 1, log, "second")
    log.append(next(behind))


def three_in_the_order_of_variables(x, log):
    second = first = third = None
    first, second = named(x, log, "first"), named(x, log, "second")
    next(second), next(first)
    say(log, 1)
    third = named(x + 1, log, "third")
    log.append(next(third))
    say(log, 2)
    log.append(x + 1)


PROGRAMS = [
    *(held_to_the_end, in_a_block, behind_finally, deleted, set_anew, held_twice, in_a_loop, in_a_callee),
    *(beside_a_handler, beside_a_break_and_handler, left_loop),
]


@pytest.fixture(autouse=True)
def without_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("make", [closing, delegating])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_end_runs_when_it_does_in_plain_python(program, make):
    plain, compiled = [], []
    program(torch.ones(1), plain, make)
    triptych_dynamo.optimize("eager")(program)(torch.ones(1), compiled, make)
    assert compiled == plain and "closed" in plain


@pytest.mark.parametrize("program", [two_at_the_end, two_over_a_break, three_in_the_order_of_variables])
def test_several_end_in_the_order_of_the_variables(program):
    plain, compiled = [], []
    program(torch.ones(1), plain)
    triptych_dynamo.optimize("eager")(program)(torch.ones(1), compiled)
    assert compiled == plain and {"first", "second"} <= set(plain[-3:])


class Held:
    """What can be asked whether it is alive."""


def held_in_plain_code(x, log):
    first = named(x, log, "first")
    next(first)
    held = Held()
    reference = weakref.ref(held)
    triptych_dynamo.step_unsupported("the rest is plain")
    del held
    log.append(reference() is None)
    second = named(x, log, "second")
    next(second)


def test_where_the_rest_is_plain_objects_end_in_its_order():
    plain, compiled = [], []
    held_in_plain_code(torch.ones(1), plain)
    run = triptych_dynamo.optimize("eager")(held_in_plain_code)
    for _ in range(2):
        run(torch.ones(1), compiled)
    assert plain == [True, "first", "second"] and compiled == plain * 2


def test_an_iterator_of_a_deque_goes_on_behind_a_break():
    def program(x, log):
        steps = iter(collections.deque([x, x + 1]))
        first = next(steps)
        say(log, 1)
        return first, next(steps)

    assert triptych_dynamo.optimize("eager")(program)(torch.ones(1), []) == (torch.ones(1), torch.full((1,), 2.0))


def test_tensors_as_keys_of_a_cache():
    def program(x, log):
        @functools.cache
        def scaled(t, by=2):
            say(log, by)
            return t * by

        return scaled(x), scaled(x), scaled(t=x, by=3)

    compiled = triptych_dynamo.optimize("eager")(program)
    for start in (1.0, 2.0):
        plain_log, log = [], []
        x = torch.full((3,), start)
        assert torch.stack(compiled(x, log)).equal(torch.stack(program(x, plain_log))) and log == plain_log == [2, 3]


@disable
def raises():
    raise StopIteration(3)


def caught_behind_a_break():
    triptych_dynamo.graph_break()
    try:
        raises()
    except StopIteration as error:
        return error.value


def caught_before_a_break():
    try:
        raises()
    except StopIteration as error:
        triptych_dynamo.graph_break()
        kept = error
    value = kept.value
    del kept
    return value


@pytest.mark.parametrize("callee", [caught_behind_a_break, caught_before_a_break])
def test_tracebacks_keep_nothing_of_the_callers(callee):
    def program(x, log):
        kept = closing(x, log)
        log.append(callee())
        next(kept)

    gc.collect()
    gc.disable()
    try:
        plain, compiled = [], []
        program(torch.ones(1), plain)
        run = triptych_dynamo.optimize("eager")(program)
        for _ in range(2):
            run(torch.ones(1), compiled)
    finally:
        gc.enable()
    assert plain == [3, "closed"] and compiled == plain * 2
