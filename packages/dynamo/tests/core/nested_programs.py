"""Programs whose graph breaks lie inside calls, handlers and blocks of callees: a table of functions.

Each takes a tensor and the list of what it said. `GRAPHS` says of some into how many graphs they go.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from programs import Manager, fail, say

PROGRAMS: dict[str, Callable[..., Any]] = {}
GRAPHS: dict[str, int] = {}


def program(graphs: int | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a row to the table."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = fn
        if graphs is not None:
            GRAPHS[fn.__name__] = graphs
        return fn

    return add


def _inner(x, log, n=1):
    y = x + n
    say(log, y)
    return y * 2


def _middle(x, log, *, factor=3):
    z = x * factor
    z = _inner(z, log) + z
    return z - 1


@program(graphs=2)
def one_level(x, log):
    y = x + 1
    z = _inner(y, log)
    return z + y


@program(graphs=2)
def two_levels(x, log):
    y = x + 1
    return y * _middle(y, log) + x


@program(graphs=2)
def middle_of_expression(x, log):
    return [x + 1, torch.add(x * 2, _middle(x + 1, log, factor=2), alpha=3)]


@program(graphs=3)
def twice_in_sequence(x, log):
    return _inner(x, log) + _inner(x * 2, log, n=2)


@program(graphs=3)
def two_breaks_in_callee(x, log):
    def callee(a, b):
        c = a + b
        say(log, c)
        d = c * a
        say(log, d)
        return d - b

    return callee(x, x * 3) + 1


@program()
def loop_in_callee(x, log):
    def callee(a):
        for i in range(4):
            a = a + i
            say(log, i)
        return a

    total = x * 0
    for k in range(3):
        total = total + callee(x + k)
    return total


@program()
def loop_around_callee(x, log):
    for i in range(5):
        x = _middle(x, log) / (i + 1)
    return x


def _deep(x, log, depth):
    y = x + depth
    if depth == 0:
        say(log, y)
        return y * 3
    y = _deep(y * 2, log, depth - 1)
    return y - depth


@program(graphs=2)
def recursion(x, log):
    return _deep(x, log, 6) * 2


def _tree(x, log, depth):
    say(log, depth)
    if depth == 0:
        return x + 1
    return _tree(x + 1, log, depth - 1) * _tree(x - 1, log, depth - 1)


@program()
def tree_of_calls(x, log):
    return _tree(x, log, 3)


@program(graphs=2)
def closures_of_callee(x, log):
    total = x * 0

    def outer(a):
        count = 1

        def add(b):
            nonlocal count, total
            count += 1
            total = total + b
            say(log, count)
            total = total * count
            return count

        return add(a) + count

    first = outer(x + 1)
    return total, first


@program(graphs=2)
def method_of_object(x, log):
    class_instance = _Counter(2)
    return class_instance.run(x, log), class_instance.seen


class _Counter:
    """An object whose method breaks."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.seen: list[int] = []

    def run(self, x, log):
        self.seen.append(1)
        y = x * self.step
        say(log, list(self.seen))
        self.seen.append(2)
        self.step += 1
        return y + self.step


@program()
def callee_raises(x, log):
    def callee(a):
        b = a + 1
        fail(log, ValueError)
        return b

    try:
        y = callee(x)
    except ValueError as error:
        y = x * 3
        say(log, str(error))
        y = y + 1
    return y


@program()
def callee_handles(x, log):
    def callee(a):
        b = a + 1
        try:
            fail(log, KeyError)
        except KeyError:
            b = b * 10
            say(log, b)
            b = b + 1
        finally:
            b = b - 2
        return b

    return callee(x) + callee(x * 2)


@program()
def exception_through_two_frames(x, log):
    def inner(a):
        try:
            fail(log, RuntimeError)
        finally:
            log.append("finally")
        return a

    def middle(a):
        with Manager(False) as manager:
            try:
                return inner(a + 1)
            except KeyError:
                return a
            finally:
                log.append(list(manager.events))

    try:
        return middle(x)
    except RuntimeError as error:
        return x * 5, str(error)


@program()
def manager_in_callee(x, log):
    def callee(a):
        with Manager(False) as manager, torch.no_grad():
            b = a * 2
            say(log, b)
            b = b * a
        return b, manager.events

    with torch.enable_grad():
        first, events = callee(x)
        return first * x, events


@program()
def manager_of_caller_swallows(x, log):
    def callee(a):
        say(log, a)
        a = a + 1
        fail(log, ValueError)
        return a

    manager = Manager(True)
    y = x
    with manager:
        y = callee(x)
    return y + 1, manager.events


@program()
def break_in_enter_and_exit(x, log):
    class Speaking:
        def __enter__(self):
            say(log, "in")
            return x + 1

        def __exit__(self, kind, error, trace):
            say(log, "out", kind is None, trace is None)
            return True

    with Speaking() as y:
        y = y * 2
        if len(log) < 100:
            raise ValueError("inside")
    return y


@contextlib.contextmanager
def _speaking(log):
    say(log, "in")
    try:
        yield 2
    except ValueError as error:
        say(log, "swallowed", str(error))
    finally:
        say(log, "out")


@program()
def generator_manager_that_breaks(x, log):
    with _speaking(log) as n:
        y = x * n
        say(log, y)
        y = y + 1
        raise ValueError("a")
    return y


@program()
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "callback")
        n = stack.enter_context(_speaking(log))
        y = x * n
        say(log, y)
    return y


@program(graphs=2)
def handler_with_name(x, log):
    try:
        raise KeyError("a")
    except KeyError as error:
        y = x + 1
        say(log, repr(error))
        y = y * 2 + len(error.args)
    return y


@program()
def handlers_inside_handlers(x, log):
    y = x
    try:
        raise ValueError("one")
    except ValueError as first:
        y = y + 1
        try:
            say(log, str(first))
            raise TypeError("two") from first
        except TypeError as second:
            y = y * 2
            say(log, str(second), str(second.__cause__), second.__context__ is first)
            y = y + 3
        say(log, "between")
        y = y - 1
    return y


@program()
def raise_in_handler(x, log):
    def callee(a):
        try:
            fail(log, ValueError)
        except ValueError as error:
            say(log, "handling")
            raise KeyError(str(error)) from error
        return a

    try:
        callee(x)
    except KeyError as error:
        return x + 1, repr(error), repr(error.__cause__), error.__context__ is error.__cause__
    return x


@program()
def bare_raise(x, log):
    y = x + 1
    try:
        try:
            fail(log, ValueError)
        except ValueError:
            y = y * 2
            say(log, y)
            raise
    except ValueError as error:
        y = y + 4
        say(log, str(error))
    return y


@program()
def finally_with_break(x, log):
    y = x
    for i in range(3):
        try:
            y = y + i
            if i == 1:
                fail(log, ValueError)
        except ValueError:
            y = y * 2
        finally:
            say(log, i)
            y = y + 10
    return y


@program()
def return_from_finally(x, log):
    def callee(a):
        try:
            fail(log, ValueError)
        finally:
            say(log, "finally")
            return a + 1  # noqa: B012

    return callee(x) * 2


@program()
def exception_kinds(x, log):
    kinds: list[type[Exception]] = [ValueError, KeyError, TypeError, RuntimeError]
    y = x
    for kind in kinds:
        try:
            fail(log, kind)
        except (ValueError, TypeError) as error:
            y = y + 1
            log.append(type(error).__name__)
        except Exception as error:
            y = y * 2
            log.append(repr(error))
    return y


def _numbers(x, log) -> Iterator[torch.Tensor]:
    for i in range(3):
        sent = yield x + i
        log.append(sent)


@program()
def generator_alive_at_break(x, log):
    numbers = _numbers(x, log)
    first = next(numbers)
    say(log, first)
    second = numbers.send("sent")
    return first * second, list(numbers)


@program()
def loop_over_generator(x, log):
    total = x * 0
    for number in _numbers(x, log):
        total = total + number
        say(log, total)
        total = total * 2
    return total


def _delegating(x, log):
    result = yield from _inner_generator(x, log)
    say(log, "result", result)
    yield x * result


def _inner_generator(x, log):
    try:
        yield x
        yield x + 1
    except ValueError:
        yield x - 100
    finally:
        log.append("closed")
    return 7


@program()
def delegation_alive_at_break(x, log):
    generator = _delegating(x, log)
    out = [next(generator)]
    say(log, "between")
    out.append(generator.throw(ValueError("thrown")))
    say(log, "again")
    out.extend(generator)
    return out


@program()
def generator_in_handler(x, log):
    def generate():
        try:
            raise KeyError("k")
        except KeyError as error:
            yield x + 1
            log.append(repr(error))
            yield x + 2

    generator = generate()
    first = next(generator)
    say(log, first)
    return first, list(generator)


@program()
def generator_not_started(x, log):
    generator = _numbers(x + 1, log)
    say(log, "made")
    return [item * 2 for item in generator]


@program()
def generator_is_returned(x, log):
    generator = _numbers(x, log)
    next(generator)
    return list(map(len, [list(generator)])), next(generator, "end")


@program()
def generator_expression(x, log):
    factors = (factor * 2 for factor in [1, 2, 3])
    first = next(factors)
    say(log, first)
    return [x * factor for factor in factors]


@program()
def comprehension_in_callee(x, log):
    def callee(items):
        return [say(log, item * 2) for item in items if item.sum() != 100]

    return callee([x, x + 1]) + [x]


@program()
def modules(x, log):
    class Block(torch.nn.Module):
        def forward(self, a):
            b = a * 2
            say(log, b)
            return b + 1

    return x + 1


@program()
def decorated(x, log):
    def twice(function):
        def run(*args, **kwargs):
            return function(function(*args, **kwargs))

        return run

    @twice
    def body(a):
        b = a + 1
        say(log, b)
        return b * 2

    return body(x)


@program(graphs=2)
def star_arguments(x, log):
    def callee(*args, scale=1, **kwargs):
        y = args[0] * scale
        say(log, len(args), sorted(kwargs))
        return y + args[-1]

    return callee(*[x, x + 1], **{"scale": 2, "other": 3})


@program()
def callee_of_other_globals(x, log):
    namespace = {"say": say}
    exec("def callee(a, log):\n    b = a + 1\n    say(log, b)\n    return b * 2\n", namespace)
    return namespace["callee"](x, log)


@program()
def unbound_variable_of_its_own(x, log):
    def inner():
        return later

    say(log, 1)
    if len(log) > 100:
        later = x
    try:
        return later
    except UnboundLocalError as error:
        log.append(str(error))
    try:
        inner()
    except NameError as error:
        log.append((type(error).__name__, str(error)))
    return x


@program()
def loop_left_inside_a_block_of_the_generator(x, log):
    def generate(a):
        with Manager(False) as manager, torch.no_grad():
            try:
                yield a + 1
                yield a + 2
            finally:
                log.append((list(manager.events), torch.is_grad_enabled()))

    for number in generate(x):
        say(log, number)
        return number * 2
    return x


@program()
def loop_broken_inside_a_block_of_the_generator(x, log):
    def generate(a):
        try:
            yield a + 1
        finally:
            log.append("closed")

    for number in generate(x):
        x = number
        break
    log.append("behind")
    return x


class _Base:
    def make(self, x, log):
        say(log, "base")
        return x + 1

    def keep(self, first, x):
        return x * first


class _Derived(_Base):
    def make(self, x, log):
        y = super().make(x, log)
        say(log, "derived")
        return super().keep(2, y)

    def captured(self, x, log):
        say(log, 1)
        later = lambda: self
        return super().keep(3, x), later() is self


@program()
def super_behind_a_break(x, log):
    derived = _Derived()
    return derived.make(x, log), derived.captured(x, log)


@program()
def annotated_function_over_a_break(x, log):
    def inner(a: int, *, b: str = "c") -> torch.Tensor:
        return x * a

    say(log, 1)
    return inner(2), inner.__annotations__


@program()
def key_with_a_hash_of_its_own(x, log):
    class Key:
        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return self.number % 2

        def __eq__(self, other):
            return self.number == other.number

    table = {Key(1): x, Key(3): x + 1}
    table[Key(1)] = x + 2
    return len(table), list(table.values()), Key(3) in set(table)


@program()
def reversed_list_at_its_end_behind_a_break(x, log):
    for i in reversed([1, 2]):
        for step in range((i + 2) % 4):
            say(log, (i, step))
    return x


@program()
def reversed_deque_at_its_end_behind_a_break(x, log):
    for i in reversed(collections.deque([1, 2])):
        for step in range((i + 2) % 4):
            say(log, (i, step))
    return x


@functools.singledispatch
def _described(value):
    return "object"


@_described.register
def _of_int(value: int):
    return "int"


@program(graphs=0)
def dispatch_over_a_break(x, log):
    dispatch = _described.dispatch
    say(log, 1)
    return x, dispatch(int)(1), dispatch(str)("a")


@program()
def a_failing_handler_ends_a_generator_that_breaks(x, log):
    def numbers(t):
        try:
            yield t
        finally:
            say(log, "end")

    try:
        for _ in numbers(x):
            try:
                raise ZeroDivisionError(1)
            finally:
                log.append([][1])
    except IndexError as error:
        log.append(type(error.__context__).__name__)
    return x
