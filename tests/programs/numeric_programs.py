"""Numerics: policies and distributions, losses with masks, graphs, complex numbers, transforms, integration."""

from __future__ import annotations

import copy
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from tests.programs.program import Compile, data, gradients, program


@program(graphs=1)  # the checks of arguments are in it
def policy_gradient_with_numpy(compile: Compile) -> Any:
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer, losses = torch.optim.Adam(policy.parameters(), lr=0.01), []

    @compile
    def act(state: numpy.ndarray) -> Any:
        logits = policy(torch.as_tensor(state, dtype=torch.float32))
        chosen = Categorical(logits=logits, validate_args=True)  # torch.compile turns the default off for the process
        action = chosen.sample()
        return action, chosen.log_prob(action) + 0.01 * chosen.entropy()

    for _ in range(2):
        state, scores, rewards = numpy.zeros(4), [], []
        for _ in range(4):
            action, score = act(state)
            state = state * 0.9 + numpy.random.randn(4) * 0.1 + (0.1 if int(action) else -0.1)
            scores.append(score)
            rewards.append(-numpy.abs(state).sum())
        returns = torch.as_tensor(numpy.cumsum(rewards[::-1])[::-1].copy(), dtype=torch.float32)
        loss = -(torch.stack(scores) * (returns - returns.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, policy.state_dict()


@program(graphs=1)
def variational_bound(compile: Compile) -> Any:
    encoder, decoder, losses = nn.Linear(8, 4), nn.Linear(2, 8), []

    @compile
    def bound(x: torch.Tensor) -> torch.Tensor:
        mean, scale = encoder(x).chunk(2, -1)
        latent = Normal(mean, scale.exp(), validate_args=True)
        likely = Bernoulli(logits=decoder(latent.rsample()), validate_args=True).log_prob((x > 0).float())
        prior = Normal(0.0, 1.0, validate_args=True)
        return -(likely.sum(-1) - kl_divergence(latent, prior).sum(-1)).mean()

    for n in range(3):
        loss = bound(data(5, 8, seed=n))
        loss.backward()
        losses.append(loss.detach())
    return losses, gradients(encoder)


@program(graphs=2, breaks=1)  # gaussian_nll_loss asks a mask for its length
def losses_with_masks(compile: Compile) -> Any:
    @compile
    def total(logits: torch.Tensor, wanted: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        there = wanted != -100
        each = F.cross_entropy(logits.transpose(1, 2), wanted.clamp(min=0), reduction="none")
        return (
            F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, label_smoothing=0.1),
            (each * there).sum() / there.sum(),
            F.cross_entropy(F.normalize(a) @ F.normalize(b).T / 0.07, torch.arange(4)),
            F.triplet_margin_loss(a, b, b.roll(1, 0)) + F.huber_loss(a, b),
            F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean") + logits[there].sum(),
            F.binary_cross_entropy_with_logits(a, (b > 0).float(), pos_weight=torch.tensor(2.0)),
            F.gaussian_nll_loss(a, b, b.exp()) + F.multi_margin_loss(a, torch.tensor([0, 1, 2, 0])),
        )

    logits, a, b = data(2, 6, 5).requires_grad_(), data(4, 5).requires_grad_(), data(4, 5, seed=1)
    wanted = data(2, 6, 5, seed=2).argmax(-1)
    wanted[0, 3:] = -100
    parts = total(logits, wanted, a, b)
    torch.stack(parts).sum().backward()
    return [part.detach() for part in parts], logits.grad, a.grad


class Neighbours(nn.Module):
    """One layer over the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        degree = torch.zeros(nodes.size(0)).index_add_(0, target, torch.ones(target.numel())).clamp_(min=1)
        mean = torch.zeros_like(nodes).index_add(0, target, self.others(nodes)[source]) / degree[:, None]
        most = torch.full_like(nodes, -1e9)
        most = most.scatter_reduce(0, target[:, None].expand(-1, 4), nodes[source], "amax", include_self=False)
        return F.relu(self.own(nodes) + mean + most.clamp(min=-1))


@program(graphs=2)
def graphs_of_several_sizes(compile: Compile) -> Any:
    model, results = Neighbours(), []
    fast = compile(model)
    for count, edges in ((5, 8), (7, 12), (9, 20)):
        result = fast(data(count, 4), (data(2, edges).abs() * 100).long() % count)
        result.sum().backward()
        results.append(result.detach())
    return results, gradients(model)


@program(graphs=2)
def rotations_as_complex_numbers(compile: Compile) -> Any:
    @compile
    def rotate(x: torch.Tensor, base: float) -> Any:
        length, width = x.shape[1:]
        angles = torch.outer(torch.arange(length).float(), 1 / base ** (torch.arange(0, width, 2) / width))
        turns = torch.polar(torch.ones(length, width // 2), angles)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2), turns.conj().abs().sum(), turns.angle()

    x = data(2, 5, 8).requires_grad_()
    results = rotate(x, 100.0)
    results[0].square().sum().backward()
    return [result.detach() for result in results], x.grad, rotate(data(2, 7, 8), 100.0)


@program(graphs=3)
def ensembles_and_sensitivities(compile: Compile) -> Any:
    models = [nn.Linear(3, 2) for _ in range(4)]
    weights, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def one(weights: Any, buffers: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(base, (weights, buffers), (x,))

    def loss(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((torch.func.functional_call(model, weights, (x[None],)) - y) ** 2).mean()

    ensemble = compile(lambda x: torch.vmap(one, (0, 0, None))(weights, buffers, x))
    per_sample = compile(lambda x, y: torch.vmap(torch.func.grad(loss), (None, 0, 0))(own, x, y))
    curvature = compile(lambda x: torch.func.hessian(lambda q: model(q).sum())(x))
    return ensemble(data(5, 3)), per_sample(data(6, 3), data(6, 1)), curvature(data(3))


@program(graphs=3, breaks=0)
def integration_with_steps_of_floats(compile: Compile) -> Any:
    @compile
    def integrate(y: torch.Tensor, end: float, h: float) -> torch.Tensor:
        t = 0.0
        while t < end - 1e-9:
            middle = -(y - h / 2 * y)
            y, t = y + h * middle, t + h
        return y

    return [integrate(data(3), 1.0, h) for h in (0.25, 0.5, 0.25, 0.2)]


@program(graphs=3)
def flags_out_of_sizes(compile: Compile) -> Any:
    @compile
    def attend(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 4).sum(-1, x.shape[2] > 0)

    return [attend(data(1, 2, length, 4)) for length in (3, 5, 6, 4, 7)]
