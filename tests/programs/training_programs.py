"""Training loops: optimisers, schedules, gradient scaling, averaging, freezing, second derivatives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler, swa_utils

from tests.programs.program import Compile, data, gradients, program


class Classifier(nn.Module):
    """Eight features to three classes."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.first, self.norm, self.dropout = nn.Linear(8, 16), nn.LayerNorm(16), nn.Dropout(dropout)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.dropout(F.gelu(self.norm(self.first(x)))))


def batches(count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and classes."""
    return [(data(6, 8, seed=n), data(6, 3, seed=n).argmax(1)) for n in range(count)]


@program(graphs=1)
def compiled_model_with_schedule(compile: Compile) -> Any:
    model = Classifier()
    fast, losses = compile(model), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = lr_scheduler.OneCycleLR(optimizer, 5e-2, total_steps=6)
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(fast(x), y)
        loss.backward()
        losses.append((loss.item(), nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        schedule.step()
    return losses, model.state_dict(), schedule.get_last_lr()


def whole_step(make: Callable[..., Any]) -> Callable[[Compile], Any]:
    """A program that compiles forward, backward, clipping and the optimiser's step as one function."""

    def run(compile: Compile) -> Any:
        model = Classifier()
        optimizer = make(model.parameters())

        @compile
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach(), norm

        return [step(x, y) for x, y in batches()], model.state_dict(), optimizer.state_dict()

    return run


OPTIMISERS: dict[str, Callable[..., Any]] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, foreach=False),
    "adam foreach": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, foreach=True),
    "adam fused": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, fused=True),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, lr=1e-2),
}
for _name, _make in OPTIMISERS.items():  # the first step makes the state, the next ones find it
    program(2, 0, name=f"whole step of {_name}")(whole_step(_make))


@program(graphs=3, breaks=2)
def scaled_gradients_in_the_step(compile: Compile) -> Any:
    model = Classifier(dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return [step(x, y) for x, y in batches()], model.state_dict(), scaler.state_dict()


@program(graphs=1)
def accumulated_gradients_and_averages(compile: Compile) -> Any:
    model = Classifier()
    fast, optimizer = compile(model), torch.optim.AdamW(model.parameters(), lr=1e-2)
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    for n, (x, y) in enumerate(batches(6)):
        (F.cross_entropy(fast(x), y) / 3).backward()
        if n % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
            average.update_parameters(model)
    return model.state_dict(), average.state_dict()


@program(graphs=1)
def average_in_the_step(compile: Compile) -> Any:
    model = Classifier()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> float:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for slow, now in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(now, 0.1)
        return loss.item()

    return [step(x, y) for x, y in batches()], model.state_dict(), average.state_dict()


@program(graphs=2)
def layers_frozen_in_turn(compile: Compile) -> Any:
    model, seen = Classifier(dropout=0.0), []
    fast, optimizer = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(batches()):
        model.first.requires_grad_(n % 2 == 0)
        optimizer.zero_grad()
        F.cross_entropy(fast(x), y).backward()
        seen.append([gradient is None for gradient in gradients(model)])
        optimizer.step()
    return seen, model.state_dict()


@program(graphs=1)
def gradient_penalty(compile: Compile) -> Any:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    critic, optimizer, losses = compile(model), torch.optim.SGD(model.parameters(), lr=0.01), []
    for x, _ in batches():
        score = critic(x.requires_grad_())
        (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        loss = ((slope.norm(dim=1) - 1) ** 2).mean() + score.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


@program(graphs=1)
def sharpness_aware_step_without_gradients_around(compile: Compile) -> Any:
    weight = nn.Parameter(torch.ones(3))

    @compile
    def step(x: torch.Tensor) -> Any:
        with torch.enable_grad():
            loss = (weight * x).sum() ** 2
            (gradient,) = torch.autograd.grad(loss, weight)
        weight.add_(gradient, alpha=-0.1)
        with torch.enable_grad():
            out = weight * x
        return loss, out

    with torch.no_grad():
        return [step(data(3)) for _ in range(3)], weight.detach()


@program(graphs=1)
def steps_through_the_optimisation(compile: Compile) -> Any:
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []

    @compile
    def adapted(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            loss = F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)
            slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: w - 0.1 * s for (name, w), s in zip(weights.items(), slopes, strict=True)}
        return F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)

    for n in range(3):
        loss = adapted(dict(model.named_parameters()), data(5, 3, seed=n), data(5, 1, seed=n))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()
