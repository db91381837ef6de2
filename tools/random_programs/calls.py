"""With what programs of the second edition are called, and what changes in the world between their calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

World = dict[str, Any]  # a program's global names
Call = dict[str, Any]  # the arguments of a call


def base_call(requires_grad: bool) -> Call:
    """The arguments of the first call, fresh."""
    x = torch.tensor([0.5, 1.0, -2.0], dtype=torch.float64, requires_grad=requires_grad)
    y = torch.tensor([3.0, -1.0, 0.25], dtype=torch.float64)
    m = torch.arange(9, dtype=torch.float64).reshape(3, 3) - 4
    return {"x": x, "y": y, "m": m, "n": 3, "flag": True, "word": "ab"}


def _rows(call: Call, world: World, number: int) -> None:
    call["m"] = torch.arange(3.0 * number, dtype=torch.float64).reshape(number, 3) - 5


def _strided(call: Call, world: World, number: int) -> None:
    call["m"] = (torch.arange(6.0 * number, dtype=torch.float64).reshape(number, 6) - 5)[:, ::2]


def _aliased(call: Call, world: World, number: int) -> None:
    call["y"] = call["m"][0]


def _same(call: Call, world: World, number: int) -> None:
    call["y"] = call["x"]


def _shifted(call: Call, world: World, number: int) -> None:
    call["x"] = (call["x"].detach() - number).requires_grad_(call["x"].requires_grad)


def _leaf(call: Call, world: World, number: int) -> None:
    call["x"] = call["x"].detach().requires_grad_(not call["x"].requires_grad)


def _single(call: Call, world: World, number: int) -> None:
    call["y"] = call["y"].float()


def _number(call: Call, world: World, number: int) -> None:
    call["n"] = number


def _flag(call: Call, world: World, number: int) -> None:
    call["flag"] = not call["flag"]


def _word(call: Call, world: World, number: int) -> None:
    call["word"] = "abba"[:number]


def _scale(call: Call, world: World, number: int) -> None:
    world["SCALE"] = number


def _training(call: Call, world: World, number: int) -> None:
    world["NET"].train(not world["NET"].training)


def _state(call: Call, world: World, number: int) -> None:
    world["STATE"]["calls"] = number


def _limit(call: Call, world: World, number: int) -> None:
    world["Box"].made = number
    world["Slot"].limit = number


def _method(call: Call, world: World, number: int) -> None:
    world["Box"].scaled = lambda self, t: t + self.count - number


CHANGES: list[tuple[int, Callable[[Call, World, int], None]]] = [
    *[(4, _rows), (1, _strided), (1, _aliased), (1, _same), (3, _shifted), (1, _leaf), (1, _single), (4, _number)],
    *[(2, _flag), (2, _word), (2, _scale), (2, _training), (1, _state), (1, _limit), (1, _method)],
]


def first_edition(requires_grad: bool, index: int) -> Call:
    """The arguments of a call of the first edition's programs, which are called three times."""
    shift = -1.5 if index == 2 else 0.0
    x = (torch.tensor([0.5, 1.0, -2.0], dtype=torch.float64) + shift).requires_grad_(requires_grad)
    return {"x": x, "y": torch.tensor([3.0, -1.0, 0.25], dtype=torch.float64)}


def prepare(seed: int, index: int, requires_grad: bool, world: World) -> Call:
    """The arguments of call `index` of the program of `seed`; may change the program's world."""
    chance = random.Random(seed * 100 + index)
    call = base_call(requires_grad)
    for _ in range(chance.choice([0, 1, 1, 2]) if index else 0):
        change = chance.choices([change for _, change in CHANGES], [weight for weight, _ in CHANGES])[0]
        change(call, world, chance.randint(1, 6))
    return call
