"""Control flow, exceptions and context managers."""

from __future__ import annotations

import contextlib
import contextvars
import sys

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)
SCALE = 2.0
VARIABLE = contextvars.ContextVar("VARIABLE", default=3)


# -- exception groups --------------------------------------------------------------------------------------------------
@construct(X)
def except_star_splits_a_group(x):
    seen = []
    try:
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b"), ValueError("c")])
    except* ValueError as group:
        seen.append([str(error) for error in group.exceptions])
    except* TypeError as group:
        seen.append(len(group.exceptions))
    return x + 1, seen


@construct(X)
def except_star_of_a_plain_error(x):
    try:
        raise KeyError("k")
    except* KeyError as group:
        found = group.exceptions[0].args, str(group), type(group).__name__
    return x, found


@construct(X)
def except_star_that_matches_nothing(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        except* TypeError:
            x = None
    except ExceptionGroup as group:
        return x, [type(error).__name__ for error in group.exceptions]


@construct(X)
def except_star_reraises_the_rest(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        except* ValueError:
            x = x + 1
    except ExceptionGroup as group:
        return x, group.message, [type(error).__name__ for error in group.exceptions]


@construct(X)
def except_star_with_else_and_finally(x):
    seen = []
    try:
        x = x * 2
    except* ValueError:
        seen.append("handler")
    else:
        seen.append("else")
    finally:
        seen.append("finally")
    return x, seen


@construct(X)
def except_star_whose_handler_raises(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        except* ValueError:
            raise TypeError("new")
    except ExceptionGroup as group:
        return x, str(group), [type(error).__name__ for error in group.exceptions]


@construct(X)
def nested_groups(x):
    inner = ExceptionGroup("inner", [ValueError("a"), TypeError("b")])
    outer = ExceptionGroup("outer", [inner, OSError("c")])
    matched, rest = outer.split(ValueError)
    return (
        x,
        str(matched),
        str(rest),
        outer.subgroup(OSError).message,
        outer.derive([ValueError("z")]).exceptions[0].args,
    )


@construct(X, raises=True)
def uncaught_group(x):
    raise ExceptionGroup("g", [ValueError("a"), OSError("b")])


@construct(X, raises=True)
def uncaught_rest_of_a_group(x):
    try:
        raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
    except* ValueError:
        x = x + 1
    return x


# -- exceptions --------------------------------------------------------------------------------------------------------
@construct(X)
def exception_notes_and_causes(x):
    try:
        try:
            raise ValueError("a", 1)
        except ValueError as error:
            error.add_note("note")
            raise KeyError("b") from error
    except KeyError as error:
        cause = error.__cause__
        return x, cause.args, cause.__notes__, error.__suppress_context__, error.__context__ is cause


@construct(X)
def exception_info(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        kind, value, trace = sys.exc_info()
        return x, kind, value is error, str(sys.exception()) if hasattr(sys, "exception") else str(error)


@construct(X)
def errors_with_fields(x):
    found = []
    for make in (lambda: {}["a"], lambda: [].missing, lambda: undefined_name, lambda: [][1], lambda: int("q")):  # noqa: F821
        try:
            make()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return x, found


@construct(X, raises=True)
def assertion_with_values(x):
    assert x.shape[0] == 3, ("shape", x.shape[0])
    return x


@construct(X)
def finally_overrides_return(x):
    def inner():
        try:
            return 1
        finally:
            return 2  # noqa: B012

    return x, inner()


@construct(X)
def break_and_continue_in_finally(x):
    seen = []
    for index in range(4):
        try:
            if index == 1:
                continue
            if index == 3:
                break
            seen.append(index)
        finally:
            seen.append(-index)
    return x, seen


@construct(X)
def stop_iteration_values(x):
    def gen():
        yield 1
        return "end"

    it = gen()
    next(it)
    try:
        next(it)
    except StopIteration as stop:
        return x, stop.value, stop.args


# -- control flow ------------------------------------------------------------------------------------------------------
@construct(X)
def match_statement(x):
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    def kind(value):
        match value:
            case 0 | 1:
                return "small"
            case [first, *rest] if rest:
                return first, rest
            case {"k": found, **others}:
                return found, others
            case Point(a=1, b=b):
                return "point", b
            case Point(a, b):
                return a, b
            case str() as text:
                return text
            case None:
                return "none"
            case _:
                return "other"

    return x, [kind(v) for v in (1, [1, 2, 3], {"k": 1, "m": 2}, Point(1, 5), Point(2, 3), "t", None, 2.5, [1])]


@construct(X)
def loops_with_else(x):
    seen = []
    for index in range(3):
        if index == 5:
            break
    else:
        seen.append("for")
    while x is None:
        pass
    else:
        seen.append("while")
    return x, seen


@construct(X)
def walrus_and_chained_comparisons(x):
    values = [y := x + 1, y * 2]
    return values, 1 < (n := 2) < 3, n, 3 > 2 == 2, [m for k in range(3) if (m := k * 2)]


@construct(X)
def nested_comprehensions(x):
    grid = [[i * j for j in range(3)] for i in range(2)]
    return x, grid, {i: {j for j in range(i)} for i in range(3)}, [*(k for row in grid for k in row if k)]


@construct(X)
def star_unpacking(x):
    first, *middle, last = [1, 2, 3, x]
    (a, b), [c, *d] = (1, 2), "xyz"
    return first, middle, last, a, b, c, d, [*middle, *d], {**{"a": 1}, "b": 2}


@construct(X)
def deleted_names(x):
    y = x + 1
    del y
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return x, str(error)


@construct(X)
def conditional_imports(x):
    import math
    from collections import OrderedDict as Ordered

    return x * math.pi, Ordered(a=1)


# -- context managers --------------------------------------------------------------------------------------------------
class Manager:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(("exit", self.name, kind.__name__ if kind else None, str(value)))
        return self.swallow


@construct(X, [])
def nested_managers(x, log):
    with Manager(log, "a", swallow=True) as a, Manager(log, a.name + "b"):
        x = x + 1
        raise ValueError("inside")
    return x


@construct(X, [])
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        managers = [stack.enter_context(Manager(log, name)) for name in "abc"]
        stack.callback(log.append, "callback")
        stack.push(lambda *info: True)
        raise KeyError(len(managers))
    return x * len(log)


@construct(X, [])
def exit_stack_passed_on(x, log):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(log, "a"))
        kept = stack.pop_all()
    log.append("between")
    kept.close()
    return x


@construct(X, [])
def generator_managers(x, log):
    @contextlib.contextmanager
    def managed(name):
        log.append(name)
        try:
            yield name
        except ValueError:
            log.append("caught")
        finally:
            log.append("done")

    with managed("a"), managed("b") as name:
        raise ValueError(name)
    return x


@construct(X, [])
def manager_as_decorator(x, log):
    @contextlib.contextmanager
    def managed():
        log.append("in")
        yield
        log.append("out")

    @managed()
    def fn(v):
        return v + 1

    return fn(fn(x))


class Decorating(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *info):
        return False


@construct(X)
def context_decorator(x):
    @Decorating()
    def fn(v):
        return v * 3

    return fn(x)


@construct(X)
def ready_made_managers(x):
    class Closing:
        closed = False

        def close(self):
            self.closed = True

    thing = Closing()
    with contextlib.closing(thing) as found, contextlib.nullcontext(5) as five:
        pass
    with contextlib.suppress(KeyError, ValueError):
        {}["a"]
        x = x * 100
    return x * five, found.closed


@construct(X, raises=True)
def exception_leaves_a_manager(x):
    with Manager([], "a"):
        raise OSError("leaves")
