"""Functions, generators, exceptions and control flow."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
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


# -- generators --------------------------------------------------------------------------------------------------------
def inner_generator(x):
    got = yield x
    return x * got


@construct(X)
def yield_from_a_generator_with_a_return_value(x):
    def outer():
        result = yield from inner_generator(x)
        yield result + 1

    it = outer()
    first = next(it)
    return first, it.send(3), list(it)


@construct(X)
def yield_from_containers(x):
    def gen():
        yield from [1, 2]
        yield from (x, x + 1)
        yield from {"a": 1}
        result = yield from iter(range(2))
        yield result

    return list(gen())


@construct(X)
def throw_through_yield_from(x):
    def inner():
        try:
            yield 1
        except ValueError as error:
            yield str(error)
        return "inner done"

    def outer():
        result = yield from inner()
        yield result

    it = outer()
    return x, next(it), it.throw(ValueError("thrown")), list(it)


@construct(X)
def close_runs_finally(x):
    seen = []

    def gen():
        try:
            yield 1
        finally:
            seen.append("closed")

    it = gen()
    next(it)
    it.close()
    return x, seen


@construct(X)
def recursive_generator(x):
    def walk(tree):
        if isinstance(tree, list):
            for item in tree:
                yield from walk(item)
        else:
            yield tree

    return list(walk([x, [1, [2, x * 2]], 3]))


@construct(X)
def infinite_generator_cut_short(x):
    def naturals():
        number = 0
        while True:
            yield number
            number += 1

    return x, list(itertools.islice(naturals(), 5)), next(n for n in naturals() if n > 7)


@construct(X, raises=True)
def generator_that_raises_stop_iteration(x):
    def gen():
        yield 1
        raise StopIteration

    return x, list(gen())


@construct(X)
def generator_attributes(x):
    def gen():
        yield 1

    it = gen()
    return x, it.__name__, it.gi_running, type(it).__name__, iter(it) is it


@construct(X)
def generator_returned_over_the_end(x):
    def gen():
        yield x + 1
        yield x + 2

    return tuple(gen())


# -- functions ---------------------------------------------------------------------------------------------------------
@functools.singledispatch
def describe(value):
    return "object"


@describe.register
def _(value: int):
    return "int"


@describe.register(list)
def _(value):
    return "list"


@describe.register(torch.Tensor)
def _(value):
    return value * 2


@construct(X)
def single_dispatch(x):
    return describe(1), describe([1]), describe("a"), describe(x), describe(True), describe.dispatch(int) is not None


class Dispatching:
    @functools.singledispatchmethod
    def kind(self, value):
        return "object"

    @kind.register
    def _(self, value: int):
        return "int"

    @kind.register
    @classmethod
    def _(cls, value: str):
        return cls.__name__


@construct(X)
def single_dispatch_method(x):
    return x, Dispatching().kind(1), Dispatching().kind("a"), Dispatching().kind(1.5)


class Caching:
    calls = 0

    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def double(self):
        self.calls += 1
        return self.x * 2


@construct(X)
def cached_property_of_a_new_object(x):
    made = Caching(x)
    first = made.double
    return first is made.double, first, made.calls


@construct(Caching(X))
def cached_property_of_an_argument(made):
    return made.double + made.double


@construct(X)
def cached_property_deleted_and_read_again(x):
    made = Caching(x)
    first = made.double
    del made.double
    return first, made.double, made.calls


@functools.cache
def remembered(number):
    return number * 2


@construct(X)
def lru_cache_calls(x):
    return x * remembered(3), remembered(3) + remembered(4), remembered.__wrapped__(5)


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@construct(X)
def cache_of_a_recursive_function(x):
    return x * fibonacci(10)


@construct(X)
def partial_functions(x):
    def fn(a, b, *, c=1):
        return a + b * c

    one = functools.partial(fn, x)
    two = functools.partial(one, c=3)
    return one(1), two(2), two.func is fn, two.keywords, two.args[0] is x


class WithPartialMethod:
    def set(self, value, *, name):
        setattr(self, name, value)
        return self

    set_a = functools.partialmethod(set, name="a")


@construct(X)
def partial_method(x):
    return WithPartialMethod().set_a(x).a


@functools.total_ordering
class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@construct(X)
def total_ordering(x):
    a, b = Version(1), Version(2)
    return x, a <= b, a > b, a >= b, a != b, max(a, b).n, sorted([b, a])[0].n


@construct(X)
def comparison_keys(x):
    by_length = functools.cmp_to_key(lambda a, b: len(a) - len(b))
    return x, sorted(["ccc", "a", "bb"], key=by_length), min([[1, 2], [3]], key=by_length)


@construct(X)
def wrapped_functions(x):
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return wrapper

    @twice
    def scaled(v, k=3):
        "doc"
        return v * k

    return scaled(x), scaled.__name__, scaled.__doc__, scaled.__wrapped__(x)


@construct(X)
def reduce_with_tensors(x):
    return functools.reduce(torch.add, [x, x, x]), functools.reduce(lambda a, b: a * b, [x, 2, 3], x)


@construct(X)
def function_attributes(x):
    def fn(a, b=2, /, *args, c, d=4, **kwargs) -> int:
        "text"

    fn.extra = 5
    return x, fn.__name__, fn.__defaults__, fn.__kwdefaults__, fn.extra, fn.__doc__, fn.__code__.co_argcount, vars(fn)


@construct(X)
def nonlocal_and_cells(x):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    return x * bump(), bump(), count


@construct(X)
def globals_dictionary(x):
    return x * globals()["SCALE"], "SCALE" in globals(), globals().get("nothing")


def scale_of_the_module():
    global SCALE
    SCALE = SCALE + 1
    return SCALE


@construct(X)
def locals_dictionary(x):
    y = x + 1
    found = locals()
    return sorted(found), found["y"]


@construct(X)
def context_variables(x):
    before = VARIABLE.get()
    token = VARIABLE.set(7)
    inside = VARIABLE.get()
    VARIABLE.reset(token)
    return x * inside, before, VARIABLE.get(), VARIABLE.name


@construct(X)
def context_variable_that_stays_set(x):
    VARIABLE.set(VARIABLE.get() + 1)
    try:
        return x * VARIABLE.get()
    finally:
        VARIABLE.set(3)


@construct(X)
def recursion(x):
    def power(v, n):
        return v if n == 1 else v * power(v, n - 1)

    return power(x, 5)


@construct(X, raises=True)
def wrong_arguments(x):
    def fn(a, *, b):
        return a + b

    return fn(x, 1, 2)


@construct(X, raises=True)
def missing_keyword(x):
    def fn(a, *, b):
        return a + b

    return fn(x)


@construct(X)
def star_arguments(x):
    def fn(*args, **kwargs):
        return len(args), sorted(kwargs)

    return x, fn(*[1, 2], *(3,), **{"a": 1}, **{"b": 2}), fn(*"ab", k=x)


@construct(X)
def lambdas_in_loops(x):
    made = [lambda v, k=k: v * k for k in range(3)]
    late = [lambda: k for k in range(3)]  # noqa: B023
    return [fn(x) for fn in made], [fn() for fn in late]


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
