"""A suspended generator of a frame that an exception leaves ends with the exception's traceback."""

from __future__ import annotations

import gc

import pytest
import torch
import triptych_dynamo


@triptych_dynamo.disable
def say(log, *what):
    log.append(what)


def waiting(t, log):
    try:
        yield t
    except GeneratorExit:
        log.append("closed")
        raise
    finally:
        log.append("ended")


def raised(x, log):
    y = waiting(x + 1, log)
    next(y)
    raise KeyError("a")


def behind_a_break(x, log):
    y = waiting(x + 1, log)
    next(y)
    say(log, 1)
    raise KeyError("a")


def a_break_in_finally(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        raise KeyError("a")
    finally:
        say(log, 1)


def a_name_that_is_not_there(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        raise KeyError(nothing)  # noqa: F821
    finally:
        say(log, 1)


def again_in_a_handler(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        raise KeyError("a")
    except KeyError:
        say(log, 1)
        raise


def another_from_it(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        raise KeyError("a")
    except KeyError as error:
        say(log, 1)
        raise ValueError("b") from error


def in_a_manager(x, log):
    y = waiting(x + 1, log)
    next(y)
    with torch.no_grad():
        say(log, 1)
        raise KeyError("a")


def fails(x, log):
    say(log, 2)
    raise KeyError("b")


def in_a_callee(x, log):
    y = waiting(x + 1, log)
    next(y)
    fails(x, log)


def a_callee_and_a_break(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        fails(x, log)
    finally:
        say(log, 1)


def two_frames(x, log):
    y = waiting(x - 1, log)
    next(y)
    try:
        a_break_in_finally(x, log)
    finally:
        say(log, 3)


def handled(x, log):
    y = waiting(x + 1, log)
    next(y)
    try:
        fails(x, log)
    except KeyError:
        say(log, 1)
    log.append("behind")


PROGRAMS = [raised, behind_a_break, a_break_in_finally, a_name_that_is_not_there, again_in_a_handler, another_from_it]
PROGRAMS += [in_a_manager, in_a_callee, a_callee_and_a_break, two_frames, handled]


def noted(program):
    """What was noted while the exception was there, and what then; without the collector of cycles."""
    found = []
    for _ in range(3):
        log, kind = [], None
        try:
            program(torch.ones(2), log)
        except Exception as error:
            kind = type(error), str(error), type(error.__cause__)
            log.append("caught")
        found.append((kind, log))
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_plain_python(program):
    gc.collect()
    gc.disable()
    try:
        assert noted(triptych_dynamo.optimize("eager")(program)) == noted(program)
    finally:
        gc.enable()


def test_the_traceback_has_the_programs_lines():
    lines = []
    for program in (a_break_in_finally, triptych_dynamo.optimize("eager")(a_break_in_finally)):
        with pytest.raises(KeyError) as caught:
            program(torch.ones(2), [])
        entries = [entry for entry in caught.traceback if entry.name == "a_break_in_finally"]
        lines.append(entries[-1].lineno)
    assert lines[0] == lines[1]
