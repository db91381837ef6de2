"""Programs that are mostly Python: configurations, exceptions, random decisions, generators, logging, threads."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import logging
import math
import random
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from tests.programs.program import Compile, data, gradients, program


class Reduction(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@dataclasses.dataclass(frozen=True)
class Settings:
    width: int = 4
    activation: str = "gelu"
    reduction: Reduction = Reduction.MEAN
    layers: tuple[int, ...] = (1, 2)


class Result(NamedTuple):
    logits: torch.Tensor
    facts: dict[str, Any] | None = None


@dataclasses.dataclass
class Loss:
    value: torch.Tensor
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


class Configured(nn.Module):
    """Reads settings from objects of every kind."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings, self.layer = settings, nn.Linear(settings.width, settings.width)

    @property
    def activation(self) -> Any:
        return getattr(F, self.settings.activation)

    @functools.cached_property
    def scale(self) -> float:
        return math.sqrt(self.settings.width)

    @staticmethod
    def reduced(x: torch.Tensor, how: Reduction) -> torch.Tensor:
        match how:
            case Reduction.SUM:
                return x.sum()
            case Reduction.MEAN:
                return x.mean()

    def forward(self, x: torch.Tensor, options: argparse.Namespace) -> Any:
        for factor in self.settings.layers:
            x = self.activation(self.layer(x)) * factor / self.scale
        x = F.dropout(x, options.dropout, self.training)
        facts = {"reduced": self.reduced(x, self.settings.reduction), "rate": options.rate * options.steps}
        return Result(x, facts), vars(Loss(x.sum(), extra={"flags": [*options.flags, "b"]}))


@program(graphs=4)
def configurations(compile: Compile) -> Any:
    options, results = argparse.Namespace(rate=0.1, steps=3, dropout=0.5, flags=["a"]), []
    for settings in (Settings(), Settings(reduction=Reduction.SUM, activation="silu")):
        model = compile(Configured(settings))
        for _ in range(2):
            results.append(model(data(2, 4), options))
            options.steps += 1
    return results


class Stop(Exception):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__("stop")
        self.value = value


@program(graphs=2)
def exceptions_as_control_flow(compile: Compile) -> Any:
    def count(x: torch.Tensor, last: int) -> torch.Tensor:
        for n in range(6):
            x = x * 1.1
            if n == last:
                raise Stop(x)
        return x

    @compile
    def guarded(x: torch.Tensor, last: int, notes: dict[str, int]) -> Any:
        try:
            y = count(x, last)
        except Stop as error:
            y = error.value + 1
        else:
            y = y - 1
        finally:
            notes["last"] = last
        try:
            missing = notes["missing"]
        except KeyError as error:
            missing = str(error)
        return y, missing

    notes: dict[str, int] = {}
    return guarded(data(3), 2, notes), dict(notes), guarded(data(3), 20, notes), notes


@program(graphs=2)
def logging_in_the_middle(compile: Compile) -> Any:
    log, seen = logging.getLogger("programs"), []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)

    @compile
    def step(x: torch.Tensor, n: int) -> torch.Tensor:
        log.info("step %d of shape %s", n, tuple(x.shape))
        log.debug("not seen")
        return x * 2

    results = [step(data(2), n) for n in range(4)]
    log.removeHandler(handler)
    return results, seen


class Translator(nn.Module):
    """A decoder that is given the right word, or its own, as a coin falls."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.encoder = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True)
        self.decoder, self.out = nn.LSTMCell(8, 16), nn.Linear(16, 12)

    def forward(self, source: torch.Tensor, target: torch.Tensor, forced: list[bool]) -> torch.Tensor:
        _, hidden = self.encoder(self.words(source))
        state, word, outputs = (hidden[0], torch.zeros_like(hidden[0])), target[:, 0], []
        for n, force in enumerate(forced, 1):
            state = self.decoder(self.words(word), state)
            outputs.append(self.out(state[0]))
            word = target[:, n] if force else outputs[-1].argmax(-1)
        return torch.stack(outputs, 1)


@program(graphs=2)
def teacher_forcing(compile: Compile) -> Any:
    model, losses = Translator(), []
    fast, optimizer = compile(model), torch.optim.Adam(model.parameters())
    for n in range(4):
        source, target = data(3, 5, 12, seed=n).argmax(-1), data(3, 4, 12, seed=n).argmax(-1)
        forced = [random.random() < 0.5] * 3
        loss = F.cross_entropy(fast(source, target, forced).flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients(model)


@program(graphs=3)
def generators_outside_and_inside(compile: Compile) -> Any:
    layer = nn.Linear(6, 6)
    step = compile(lambda hidden: torch.tanh(layer(hidden)))

    def stream(hidden: torch.Tensor) -> Iterator[tuple[int, int]]:
        for n in range(4):
            hidden = step(hidden)
            yield n, int(hidden.argmax())

    @compile
    def chunked(x: torch.Tensor) -> Any:
        def chunks() -> Iterator[torch.Tensor]:
            for part in x.split(2):
                yield part * 2

        return sum(part.sum() * n for n, part in enumerate(chunks())), [part.sum() for part in chunks()]

    with torch.no_grad():
        return list(stream(data(6))), chunked(data(7)), chunked(data(8))


@program(graphs=2)
def one_model_in_four_threads(compile: Compile) -> Any:
    model = compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    results: dict[int, Any] = {}

    def work(n: int) -> None:
        with torch.no_grad():
            results[n] = [model(data(rows, 4)) for rows in (2, 3, 4)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[n] for n in range(4)]
