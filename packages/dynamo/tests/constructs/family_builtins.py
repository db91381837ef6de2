# ruff: noqa: UP031, UP032, F632, F821
"""Builtin functions, constructors, formatting, control flow, functions and exceptions, over constants and tensors.

PYTEST_DONT_REWRITE: the assertions under test are the program's own.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import json
import math
import os.path
import re
import typing

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)
COUNTER = 0


@construct(X)
def numbers(x):
    return (
        abs(-3),
        round(2.567, 2),
        divmod(7, 3),
        pow(2, 3),
        pow(2, 3, 5),
        int("12"),
        int(3.9),
        float("1.5"),
        bool([]),
        complex(1, 2),
        hex(255),
        bin(3),
        ord("a"),
        chr(98),
        7 // 2,
        -7 // 2,
        7 % -3,
        2**10,
        1 / 4,
        5 & 3,
        5 | 3,
        5 ^ 3,
        ~5,
        1 << 4,
        3 > 2 > 1,
        int.from_bytes(b"\x01", "big"),
        (5).bit_length(),
        (2.5).is_integer(),
        float("inf"),
        -0.0,
        round(x.shape[0] / 3),
    )


@construct(X)
def mathematics(x):
    return (
        math.sqrt(4),
        math.floor(2.7),
        math.ceil(2.1),
        math.pi,
        math.log(math.e),
        math.gcd(12, 18),
        math.isnan(1.0),
        math.prod((2, 3)),
    )


@construct(X, raises=True)
def tensor_builtins(x):
    return (
        abs(-x),
        round(x),
        divmod(5, 2),
        len(x),
        sum(x),
        x**2,
        2**x,
        1 - x,
        2 / (x + 1),
        x // 2,
        x % 2,
        -x,
        x @ x.T,
        ~(x > 1),
        (x > 1) & (x < 4),
        x == 2,
    )


@construct(X)
def conversions(x):
    return (
        list("ab"),
        tuple([1]),
        set([1, 1]),
        dict([("a", 1)]),
        str(1.5),
        str([1, "a"]),
        repr("q"),
        repr({"k": (1,)}),
        bytes([65]),
        list(map(int, "12")),
        str(None),
        frozenset([1]),
    )


@construct(X)
def formatting(x):
    v, w = 3.14159, 8
    return (
        f"{v:.{2}f} {v:{w}.1f} {'s'!r:>6} {w!s} {x.dtype} {x.shape[0]:03d}",
        f"{1} {2}",
        "%s %5.2f" % ("t", 2.0),
        format(3, "b"),
        f"{[1, 2]}",
    )


@construct(X)
def regular_expressions(x):
    m = re.match(r"(\w+)-(\d+)", "abc-12")
    return m.group(1), m.groups(), re.sub("a", "b", "banana"), re.compile("x+").findall("xxaxx"), re.split(",", "a,b")


@construct(X)
def paths(x):
    return os.path.join("a", "b"), os.path.basename("/q/w"), os.path.splitext("a.txt")


@construct(X)
def annotations_and_casts(x):
    y: int = 3
    return typing.cast(int, y), typing.get_origin(list[int]) is list, typing.TYPE_CHECKING


@construct(X)
def copies(x):
    a = [1, [2, x]]
    b = copy.copy(a)
    return b, b is not a, b[1] is a[1]


@construct(X)
def deep_copies(x):
    a = {"k": [1, (2, [3])]}
    b = copy.deepcopy(a)
    b["k"][0] = 9
    return a, b


@construct(X)
def closures(x):
    total = 0

    def add(n):
        nonlocal total
        total += n
        return total

    def outer(scale):
        def inner(v):
            return v * scale

        return inner

    add(2), add(3)
    return total, outer(2)(x), (lambda a, *b, c=1, **d: (a, b, c, d))(1, 2, 3, c=4, e=5)


@construct(X)
def global_store(x):
    global COUNTER
    COUNTER = COUNTER + 1
    return COUNTER - COUNTER


@construct(X)
def decorated(x):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * 2

        return wrapper

    @twice
    def g(v, k=1):
        return v + k

    return g(x, k=2)


@construct(X)
def recursion(x):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(7), x


@construct(X)
def control_flow(x):
    out = []
    for i in range(6):
        if i == 1:
            continue
        if i == 4:
            break
        out.append(i)
    else:
        out.append("never")
    while len(out) < 5:
        out.append("w")
    else:
        out.append("else")
    if (n := len(out)) > 3 and out[0] == 0:
        out.append(n)
    return out, "yes" if x.ndim == 2 else "no", not out, None or "d", 0 and 1


@construct(X)
def matching(x):
    def kind(v):
        match v:
            case 0:
                return "zero"
            case int() | float():
                return "number"
            case [a, *rest]:
                return ("list", a, rest)
            case {"k": k, **others}:
                return ("dict", k, others)
            case str(s) if s:
                return s
            case _:
                return None

    return [kind(v) for v in (0, 5, [1, 2, 3], {"k": 1, "z": 2}, "s", "", None)]


@construct(X)
def exception_flow(x):
    log = []

    def f(kind):
        try:
            if kind == 0:
                raise KeyError("k")
            if kind == 1:
                return "returned"
            log.append("no error")
        except KeyError as error:
            log.append(repr(error))
        else:
            log.append("else")
        finally:
            log.append("finally")
        return "end"

    return [f(0), f(1), f(2)], log


@construct(X)
def exceptions_from_operations(x):
    found = []
    for thunk in (
        lambda: 1 / 0,
        lambda: int("x"),
        lambda: None.a,
        lambda: (1).b,
        lambda: "a" + 1,
        lambda: len(3),
        lambda: [] + (),
        lambda: nothing,
    ):  # noqa: F821
        try:
            thunk()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@construct(X, raises=True)
def raised(x):
    if x.shape[0] == 2:
        raise ValueError(f"bad shape {tuple(x.shape)}")


@construct(X, raises=True)
def assertion(x):
    assert x.shape[1] == 4, "wrong width"


@construct(X, raises=True)
def wrong_arguments(x):
    def f(a, b):
        return a

    return f(1)


@construct(X, raises=True)
def tensor_error(x):
    return x @ x


@construct(X)
def user_context_managers(x):
    log = []

    class_free = contextlib.nullcontext(5)

    @contextlib.contextmanager
    def managed(name):
        log.append("enter " + name)
        try:
            yield name
        finally:
            log.append("exit " + name)

    with managed("a") as a, class_free as five:
        log.append(a)
    with contextlib.suppress(KeyError):
        {}["k"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(managed("b"))
        stack.callback(log.append, "callback")
    try:
        with managed("c"):
            raise ValueError("inside")
    except ValueError:
        log.append("caught")
    return log, five


@construct(X)
def inspection(x):
    def f(a, b=1, *, c=2):
        return a

    return f.__name__, f.__defaults__, inspect.isfunction(f), callable(f)


@construct(X)
def signature_of_module_function(x):
    return list(inspect.signature(json.dumps).parameters)[0], "obj" in inspect.signature(json.dumps).parameters


@construct(X)
def star_arguments(x):
    def f(*args, **kwargs):
        return args, kwargs

    pairs = {"a": 1}
    return f(*[1, 2], *(3,), **pairs, b=2), f(), max(*[1, 3]), dict(**pairs)


@construct(X)
def identity(x):
    a = [1]
    b = a
    return (
        a is b,
        a != [1],
        None is None,
        x is x,
        (1, 2) == (1, 2),
        type(a) is list,
        True is True,
        NotImplemented is NotImplemented,
    )


@construct(X)
def strings_of_objects(x):
    try:
        raise KeyError("missing")
    except KeyError as error:
        return str(error), repr(error), f"{error}"


@construct(X)
def imports_inside(x):
    import math as m
    from collections import OrderedDict as O

    return m.sqrt(9), O(a=1), torch.nn.functional.relu(x - 2)
