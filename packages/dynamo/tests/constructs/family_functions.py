"""Functions and generators."""

from __future__ import annotations

import contextvars
import functools
import itertools

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)
SCALE = 2.0
VARIABLE = contextvars.ContextVar("VARIABLE", default=3)


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
