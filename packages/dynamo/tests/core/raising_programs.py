"""Programs with branches that raise: no module of tests, for pytest writes the assertions of those anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triptych_dynamo as td


def if_any(x, log):
    log.append("before")
    if torch.isnan(x).any():
        log.append("bad")
        raise ValueError(f"nan in {x.tolist()}")
    log.append("behind")
    return x * 2


def if_not_all(x, log):
    if not (x > 0).all():
        raise ValueError("not positive")
    return x.log()


def number(x, log):
    total = x.sum().item()
    if total > 3:
        text = f"{total} is too much"
        raise ArithmeticError(text) from KeyError("cause")
    return x + total


def number_of_two(x, log):
    if not x[0].item() < x[1].item():
        return x - 1
    else:
        raise RuntimeError


def asserted_behind_an_effect(x, log):
    log.append(1)
    assert x.max() < 2, f"{len(log)}"
    return x


def in_a_callee_in_a_loop(x, log):
    def checked(t, least):
        if t.min() < least:
            raise IndexError(least)
        return t + 1

    for least in (-9, -2, 0):
        log.append(least)
        x = checked(x, least)
    return x


def handled(x, log):
    try:
        if x.sum() > 2:
            raise KeyError("large")
    except KeyError as error:
        log.append(repr(error))
        return x - 1
    finally:
        log.append("end")
    return x + 1


def with_random_numbers(x, log):
    noise = torch.rand(2)
    if (x + noise > 3).any():
        raise ValueError("large")
    return x + noise


def behind_a_break(x, log):
    y = x + 1
    td.graph_break()
    log.append("piece")
    if y.sum() > 4:
        raise ValueError(log)
    return y * 2


def that_returns_as_well(x, log):
    if x.sum() > 2:
        if log:
            raise ValueError
        return x
    return x * 2


def that_wrote_an_input(x, log):
    x.add_(1)
    if x.sum() > 4:
        raise ValueError("written")
    return x * 2


WHOLE: list[Callable[..., Any]] = [
    *(
        if_any,
        if_not_all,
        number,
        asserted_behind_an_effect,
        in_a_callee_in_a_loop,
        handled,
        with_random_numbers,
        number_of_two,
    )
]
BROKEN = {  # in spite of it, and how many breaks
    behind_a_break: 1,
    that_returns_as_well: 1,
    that_wrote_an_input: 1,
}
