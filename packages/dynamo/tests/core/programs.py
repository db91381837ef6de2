"""Programs with graph breaks: a table of functions. Each takes a tensor and the list of what it said, and
breaks at `say`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import triptych_dynamo

PROGRAMS: dict[str, Callable[..., Any]] = {}
_counter = 0


@triptych_dynamo.disable
def say(log: list[Any], *what: Any) -> Any:
    """A call that no graph can hold: it notes what it is given, and the gradient mode."""
    log.append((*(item.clone() if isinstance(item, torch.Tensor) else item for item in what), torch.is_grad_enabled()))
    return what[0] if what else None


@triptych_dynamo.disable
def fail(log: list[Any], error: type[Exception]) -> None:
    """A call that no graph can hold, and that raises."""
    log.append(error.__name__)
    raise error("said no")


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Add a row to the table."""
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def straight_line(x, log):
    y = x + 1
    say(log, y)
    return y * 2


@program
def several(x, log):
    y = x + 1
    say(log, y)
    z = y * x
    say(log, z)
    say(log, y, z)
    return z - y


@program
def result_is_used(x, log):
    return say(log, x + 1) * 2 + x


@program
def middle_of_expression(x, log):
    return torch.add(x * 2, say(log, x + 1), alpha=3) + max(1, 2)


@program
def middle_of_nested_calls(x, log):
    return (lambda a, b, *, c: a + b * c)(x + 1, say(log, x), c=say(log, 3) + 1)


@program
def in_display(x, log):
    return [x + 1, say(log, x), x * 2], {"a": say(log, x + 2), "b": x}


@program
def star_arguments(x, log):
    args = (x + 1, 2)
    return say(log, *args) + torch.mul(*[x, say(log, x)])


@program
def for_loop(x, log):
    total = x * 0
    for i in range(4):
        total = total + x * i
        say(log, i, total)
    return total


@program
def for_loop_over_list(x, log):
    out = []
    for name, factor in [("a", 1), ("b", 2), ("c", 3)]:
        y = x * factor
        say(log, name)
        out.append(y)
    return out


@program
def nested_loops(x, log):
    total = x
    for i in range(2):
        for j in range(3):
            if j == 2:
                continue
            total = total + i * j
            say(log, i, j)
        if i == 1:
            break
    else:
        total = total * 0
    return total


@program
def while_loop(x, log):
    i = 0
    while i < 3:
        x = x + i
        say(log, i)
        i += 1
    else:
        x = x * 2
    return x


@program
def long_loop(x, log):
    for i in range(60):
        x = x + 1
        say(log, i)
    return x


@program
def enumerate_and_zip(x, log):
    out = x
    for i, (a, b) in enumerate(zip([1, 2], (3, 4))):
        out = out + a * b
        say(log, i)
    return out


@program
def comprehension(x, log):
    return [say(log, x * i) for i in range(3)], {i: say(log, i) for i in range(2)}


@program
def generator_loop(x, log):
    def numbers():
        for i in range(3):
            say(log, i)
            yield x + i

    return [n * 2 for n in numbers()]


@program
def with_no_grad(x, log):
    with torch.no_grad():
        y = x * 2
        say(log, y)
        z = y * x
    return z, z * x


@program
def nested_with(x, log):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
            say(log, y)
            y = y + 1
        z = x * 3
        say(log, z)
        z = z + y
    return y, z


@program
def with_and_exception(x, log):
    try:
        with torch.no_grad():
            y = x + 1
            say(log, y)
            raise ValueError("inside")
    except ValueError as error:
        say(log, str(error))
    return y * x


class Manager:
    """A context manager of the program, with state."""

    def __init__(self, swallows: bool) -> None:
        self.events: list[str] = []
        self.swallows = swallows

    def __enter__(self) -> Manager:
        self.events.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.events.append("exit" if kind is None else kind.__name__)
        return self.swallows


@program
def with_own_manager(x, log):
    manager = Manager(False)
    with manager as same:
        y = x + 1
        say(log, list(same.events))
        y = y * 2
    return y, manager.events


@program
def own_manager_swallows(x, log):
    manager = Manager(True)
    y = x
    with manager:
        y = x + 1
        fail(log, KeyError)
        y = y * 100
    return y, manager.events


@contextlib.contextmanager
def _scope(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@program
def with_generator_manager(x, log):
    with _scope(log) as n:
        y = x * n
        say(log, y)
        y = y + n
    return y


@program
def with_autocast(x, log):
    w = torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.mm(x.unsqueeze(0), w)
        say(log, y.dtype)
        z = torch.mm(x.unsqueeze(0), w)
    return y.dtype, z.dtype, torch.mm(x.unsqueeze(0), w).dtype, z.float()


@program
def try_except(x, log):
    try:
        y = x + 1
        fail(log, ValueError)
        y = y * 10
    except ValueError as error:
        y = x + 2
        log.append(str(error))
    return y


@program
def try_finally(x, log):
    try:
        y = x + 1
        say(log, y)
        return y * 2
    finally:
        log.append("finally")


@program
def except_else_finally(x, log):
    y = x
    try:
        y = y + 1
        say(log, y)
    except ValueError:
        y = y * 0
    else:
        y = y * 2
        say(log, y)
    finally:
        y = y + 3
    return y


@program
def in_handler(x, log):
    try:
        raise KeyError("a")
    except KeyError as error:
        y = x + 1
        say(log, repr(error))
        y = y * 2
    return y


@program
def uncaught(x, log):
    y = x + 1
    log.append("before")
    fail(log, RuntimeError)
    return y


@program
def tensor_branch(x, log):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
        log.append("positive")
    else:
        y = y - 1
        log.append("negative")
    return y


@program
def tensor_branches_in_loop(x, log):
    for i in range(3):
        if (x * i).sum() > 1:
            x = x + 1
        elif x.max() > 100:
            x = x * 0
        log.append(i)
    return x


@program
def tensor_while(x, log):
    n = 0
    while x.sum() < 50:
        x = x + 5
        n += 1
    return x, n


@program
def tensor_conditions(x, log):
    y = (x.sum() > 0) and x + 1
    z = (x.sum() < 0) or x + 2
    w = x * 3 if x.mean() > 0 else x * 4
    return y, z, w, not (x.sum() > 0)


@program
def item(x, log):
    n = (x.sum() * 0 + 2).item()
    return x * n, n


@program
def size_from_data(x, log):
    n = int((x * 0 + 1).sum().item())
    return torch.zeros(n) + 1


@program
def closure_is_written(x, log):
    count = 0

    def bump(n):
        nonlocal count
        count += n
        say(log, count)
        return x + count

    return bump(1) + bump(2), count


@program
def function_survives_break(x, log):
    y = x + 1

    def later(z, k=2, *, w=y):
        return z * k + w + x

    say(log, y)
    return later(x), later(x, 3, w=x)


@program
def global_is_written(x, log):
    global _counter
    _counter = 1
    y = x + _counter
    say(log, _counter)
    _counter += 1
    return y * _counter


class Box:
    """An object of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.items: list[Any] = []


@program
def object_survives_break(x, log):
    box = Box(x + 1)
    box.items.append(x)
    alias = box.items
    say(log, box.value)
    box.value = box.value * 2
    box.items.append(box.value)
    return box.value, alias is box.items, len(alias)


@program
def containers_survive_break(x, log):
    a = [x, x + 1]
    d = {"k": a, 2: (a, x)}
    s = {1, 2}
    say(log, len(a))
    d["k"].append(x * 2)
    s.add(3)
    return d["k"] is a, d[2][0] is a, a, sorted(s)


@program
def deleted_local(x, log):
    y = x + 1
    z = y * 2
    del y
    say(log, z)
    try:
        return y  # noqa: F821
    except UnboundLocalError:
        return z


@program
def input_is_written(x, log):
    y = x.clone()
    y.add_(1)
    say(log, y)
    y.mul_(2)
    y[0] = 7
    return y


def _helper(x, log, depth):
    y = x + depth
    say(log, depth)
    if depth:
        return _helper(y, log, depth - 1) * 2
    return y


@program
def break_in_callee(x, log):
    y = x * 2
    z = _helper(y, log, 0)
    return z + y


@program
def break_in_recursion(x, log):
    return _helper(x, log, 3)


@program
def match_statement(x, log):
    match {"kind": "scale", "by": 2}:
        case {"kind": "scale", "by": n}:
            say(log, n)
            return x * n
        case _:
            return x


@program
def unpacking(x, log):
    first, *rest = x + 1, say(log, 1), x * 2
    (a, b), c = (x, say(log, 2)), 3
    return first, rest, a * b + c


@program
def walrus_and_ternary(x, log):
    if (n := say(log, 3)) > 2:
        x = x + n
    return x if say(log, True) else x * 0


@program
def chained_comparison(x, log):
    return x + 1 if 0 < say(log, 1) < 2 else x


@program
def subscript_of_break(x, log):
    d = {"a": x}
    d[say(log, "b")] = x + 1
    return d["b"] + d[say(log, "a")]


@program
def attribute_of_break(x, log):
    box = say(log, Box(2))
    box.value += 1
    return x * box.value


@program
def explicit_break(x, log):
    y = x + 1
    triptych_dynamo.graph_break("here")
    return y * 2


@program
def grad_mode_functions(x, log):
    torch.set_grad_enabled(False)
    y = x * 2
    say(log, y)
    torch.set_grad_enabled(True)
    return y, x * 3


@program
def keyword_call_after_break(x, log):
    n = say(log, 2)
    return torch.sum(x * n, dim=0, keepdim=True), torch.clamp(x, min=say(log, 0.0), max=n)


@program
def f_string(x, log):
    n = say(log, 3)
    return f"{n:>4}|{say(log, 'a')!r}", x + n


@program
def assertion(x, log):
    assert x.sum() > 0, "must be positive"
    return x + 1


@program
def star_kwargs(x, log):
    options = {"dim": 0, **{"keepdim": say(log, True)}}
    return torch.sum(x, **options)


@program
def loop_with_try(x, log):
    for i in range(3):
        try:
            x = x + i
            if i == 1:
                fail(log, ValueError)
            say(log, i)
        except ValueError:
            x = x * 2
            continue
        finally:
            x = x + 100
    return x
