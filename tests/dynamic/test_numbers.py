"""Numbers that change between calls: arguments, attributes, counters; arithmetic and decisions on them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.dynamic.rows import Row, over_backends, rows, run

X = torch.arange(1.0, 5.0)
FLOATS = [(X, number) for number in (1.5, 2.5, 3.25, 0.1, 1.0, 0.0)]
POSITIVE = [(X, number) for number in (1.5, 2.5, 3.25, 0.1, 7.0)]
INTS = [(X, number) for number in (3, 4, 5, 100, 7)]


def fixed(fn: Any) -> Any:
    return lambda: fn


def rounding(x: torch.Tensor, s: float) -> tuple[Any, ...]:
    return x * round(s), round(s, 1), int(s), math.floor(s), math.ceil(s), torch.zeros(int(s) + 2)


def branch(x: torch.Tensor, s: float) -> torch.Tensor:
    return x * s if s > 2 else x - s


def conditional_expression(x: torch.Tensor, s: float) -> torch.Tensor:
    if 0.0 < s <= 2.0 and not s == 1.25:
        return x + s
    return x


def caught(x: torch.Tensor, s: float) -> Any:
    try:
        return x * (1 / s)
    except ZeroDivisionError as error:
        return x, str(error)


def many(x: torch.Tensor, s: float) -> tuple[Any, ...]:
    t = -s + abs(s) - +s
    return x * t, s // 2, s % 2, divmod(7.5, s), s**2, 2**s, pow(s, 3), s / 3 * 0.1 * 0.7, max(s, 2), min(s, 2.0, 1)


def keyword(x: torch.Tensor, s: float) -> torch.Tensor:
    return (
        torch.add(x, x, alpha=s)
        + torch.full((3, 1), s, device=x.device)
        + torch.clamp(x, max=s)
        + torch.nn.functional.elu(x, alpha=s)
    )


def dropout_probability(x: torch.Tensor, s: float) -> torch.Tensor:
    return nn.functional.dropout(x, p=s, training=False) * s


def as_text(x: torch.Tensor, s: float) -> tuple[torch.Tensor, str]:
    return x * 2, f"{s:.2f}"


def containers(x: torch.Tensor, s: float) -> Any:
    table = {"s": s, "t": [s * 2, (s,)]}
    return x * table["t"][0], table, sum([s, s, 1])


ARGUMENTS = [
    Row("times", fixed(lambda x, s: x * s + 1), FLOATS, 2),
    Row("returned", fixed(lambda x, s: (x + s, s * 2, s)), FLOATS, 2),
    Row("math", fixed(lambda x, s: x * math.sqrt(s) + math.exp(-s) * math.log(s) + math.pow(s, 1.5)), POSITIVE, 2),
    Row(
        "scalar-functions",
        fixed(lambda x, s: (math.isnan(s), math.isclose(s, 1.5), math.hypot(s, 3), x + 1)),
        FLOATS,
        2,
    ),
    Row("exact-order", fixed(lambda x, s: (x + 1, s * 0.1 * 0.2 * 0.3, (s + 0.1) + 0.2, s - 1e20 + 1e20)), FLOATS, 2),
    Row("branch", fixed(branch), FLOATS, 3),
    Row("conditions", fixed(conditional_expression), FLOATS, 2),
    Row("many", fixed(many), POSITIVE, 3),
    Row("rounding", fixed(rounding), POSITIVE, 2),
    Row("division-by-zero", fixed(caught), FLOATS, 2),
    Row("keywords", fixed(keyword), POSITIVE, 2),
    Row("containers", fixed(containers), FLOATS, 2),
    Row("dropout", fixed(dropout_probability), [(X, p) for p in (0.1, 0.2, 0.3)], 3),
    Row("in-text", fixed(as_text), [(X, p) for p in (0.1, 0.2, 0.3)], 2),
    Row("nan", fixed(lambda x, s: x * s), [(X, s) for s in (1.5, math.nan, math.nan, math.inf, 2.5, -0.0)], 4),
    Row("negative-root", fixed(lambda x, s: x * abs(s**0.5)), [(X, s) for s in (4.0, 9.0, -4.0, 16.0)], 3),
    Row("dynamic-true", fixed(lambda x, s: x * s + 1), FLOATS, 1, dynamic=True),
    Row("dynamic-false", fixed(lambda x, s: x * s + 1), FLOATS[:3], 3, dynamic=False),
    Row("int", fixed(lambda x, n: (x * n + n // 2, n * n - 1, n > 1)), INTS, 2),
    Row("int-from-zero", fixed(lambda x, n: x + n), [(X, n) for n in range(6)], 2),
    Row("int-math", fixed(lambda x, n: (x * math.sqrt(n) / n, math.log2(n), n**0.5, n / 3, 2**-n)), INTS, 2),
    Row("int-floor", fixed(lambda x, n: (x[: math.floor(n / 2)], math.ceil(n / 3), math.trunc(n / 2))), INTS, 3),
    Row("int-size", fixed(lambda x, n: torch.zeros(n, 2) + n), INTS, 2),
    Row("int-and-float", fixed(lambda x, n: x * (n * 0.5) + n * 1.0), INTS, 2),
    Row(
        "size-root",
        fixed(lambda x: x / math.sqrt(x.shape[0]) + x.shape[0] ** -0.5),
        [(torch.ones(n),) for n in (3, 4, 9)],
        2,
    ),
    Row("int-dim", fixed(lambda x, n: x.reshape(2, 2).sum(n)), [(X, n) for n in (0, 1, -1)], 3),
    Row("bool", fixed(lambda x, b: x + 1 if b else x + b), [(X, b) for b in (True, False, True)], 2),
    Row(
        "train",
        fixed(lambda x, s: (x * s).sin()),
        [(X.clone().requires_grad_(), s) for s in (1.5, 2.5, 3.5)],
        2,
        train=True,
    ),
]


@over_backends
@rows(ARGUMENTS)
def test_arguments(row: Row, backend: str) -> None:
    run(row, backend)


class Counter(nn.Module):
    """A step counter, a decaying rate, and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.rate = 0, 1.0
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.step += 1
        self.rate *= 0.9
        return x * self.weight * self.rate + self.step, self.step, self.rate


class Scheduled(nn.Module):
    """A warm-up that ends."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        if self.step < 4:
            return x * (self.step / 4)
        return x


class Layer:
    def __init__(self, index: int) -> None:
        self.layer_idx, self.scale = index, 1.0 / (index + 1)

    def run(self, x: torch.Tensor, cache: dict[int, torch.Tensor]) -> torch.Tensor:
        cache[self.layer_idx] = x * self.scale
        return cache[self.layer_idx] + self.layer_idx


def layers() -> Any:
    stack = [Layer(index) for index in range(4)]

    def run_layers(x: torch.Tensor) -> Any:
        cache: dict[int, torch.Tensor] = {}
        for layer in stack:
            x = layer.run(x, cache)
        return x, list(cache)

    return run_layers


def closure() -> Any:
    count, total = 0, 0.0

    def step(x: torch.Tensor) -> Any:
        nonlocal count, total
        count += 2
        total += 0.125
        return x * total, count

    return step


SETTINGS: dict[str, Any] = {"rate": 0.5, "steps": 3}


def settings_read() -> Any:
    own = {"rate": 0.5, "steps": 3}

    def step(x: torch.Tensor) -> Any:
        own["rate"] /= 2
        own["steps"] += 5
        return x * own["rate"] + own["steps"]

    return step


def optimizer() -> Any:
    """Plain gradient descent with a rate that the caller changes."""
    weight = torch.ones(4)

    def step(gradient: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        with torch.no_grad():
            weight.add_(gradient, alpha=-group["lr"])
            weight.mul_(1 - group["lr"] * group["decay"])
        return weight.clone()

    return step


STATE = [
    Row("counter", Counter, [(X,)] * 7, 2),
    Row("warm-up", Scheduled, [(X,)] * 7, 3),
    Row("layers", layers, [(X,)] * 3, 1),
    Row("closure", closure, [(X,)] * 6, 2),
    Row("dictionary", settings_read, [(X,)] * 6, 2),
    Row("learning-rate", optimizer, [(X, {"lr": 0.1 / n, "decay": 0.01}) for n in range(1, 7)], 2),
    Row(
        "learning-rate-dynamic", optimizer, [(X, {"lr": 0.1 / n, "decay": 0.01}) for n in range(1, 7)], 1, dynamic=True
    ),
]


@over_backends
@rows(STATE)
def test_state(row: Row, backend: str) -> None:
    run(row, backend)
