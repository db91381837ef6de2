"""Modules as programs write them: adapters, parametrised weights, containers, hooks, copies, masks and caches."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import parametrizations

from tests.programs.program import Compile, data, gradients, program


class Adapter(nn.Module):
    """A frozen layer with a trained low-rank addition; asked for anything else it answers as the layer."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base, self.enabled, self.scaling = base.requires_grad_(False), True, {"default": 2.0}
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base, name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        if self.enabled and "default" in self.scaling:
            y = y + (x @ self.down.T @ self.up.T) * self.scaling["default"]
        return y


@program(graphs=2)
def adapters(compile: Compile) -> Any:
    model = nn.Sequential(Adapter(nn.Linear(8, 8)), nn.ReLU(), Adapter(nn.Linear(8, 4)))
    fast, losses = compile(model), []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for n in range(5):
        loss = fast(data(5, 8, seed=n)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        model[0].enabled = n < 3
    return losses, model.state_dict(), model[2].in_features


@program(graphs=1)
def parametrised_weights(compile: Compile) -> Any:
    first = parametrizations.weight_norm(nn.Linear(4, 4))
    model = nn.Sequential(first, parametrizations.orthogonal(nn.Linear(4, 4)), nn.utils.weight_norm(nn.Linear(4, 2)))
    fast, optimizer, losses = compile(model), torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        loss = fast(data(3, 4)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


class Routed(nn.Module):
    """Layers in every kind of container, chosen by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.routes = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Identity()})
        self.biases = nn.ParameterList([nn.Parameter(torch.ones(4) * n) for n in range(2)])
        self.scales = nn.ParameterDict({"k": nn.Parameter(torch.ones(4))})
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.register_buffer("calls", torch.zeros(()))
        self.steps = 0

    def forward(self, x: torch.Tensor, *, route: str = "a", **extra: Any) -> Any:
        self.steps += 1
        self.calls += 1
        for name, layer in self.routes.items():
            x = layer(x) if name == route else x
        for bias, layer in zip(self.biases, self.layers, strict=True):
            x = layer(x) + bias
        return x * self.scales["k"] * extra.get("scale", 1.0), {n: p.shape for n, p in self.named_parameters()}


@program(graphs=3)
def containers_and_keywords(compile: Compile) -> Any:
    model = Routed()
    fast, x = compile(model), data(2, 4)
    return [fast(x), fast(x, route="b"), fast(x, scale=2.0), fast(x, route="b")], model.steps, model.calls


@program(graphs=2)
def features_by_hooks(compile: Compile) -> Any:
    model, features = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), {}
    handles = [
        layer.register_forward_hook(lambda _, __, out, name=name: features.update({name: out.detach().mean()}))
        for name, layer in model.named_children()
    ]
    model.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    fast = compile(model)
    first, seen = fast(data(3, 4)), dict(features)
    for handle in handles:
        handle.remove()
    features.clear()
    return first, seen, fast(data(3, 4)), features


@program(graphs=1)
def copies_and_pickles(compile: Compile) -> Any:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), data(2, 4)
    fast = compile(model)
    first, copied = fast(x), copy.deepcopy(fast)
    copied[0].weight.data.zero_()
    loaded, file = pickle.loads(pickle.dumps(fast)), io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    return first, copied(x), loaded(x), torch.load(file), fast(x)


@program(graphs=3)
def other_dtypes_later(compile: Compile) -> Any:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), data(2, 4)
    fast = compile(model)
    results = [fast(x)]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        model.to(dtype)
        results.append(fast(x.to(dtype)).float().round(decimals=1))
    return results


class Masked(nn.Module):
    """Attention with relative biases, a causal mask and padding, beside torch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.other = nn.Linear(16, 48), nn.MultiheadAttention(16, 4, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(4, 32))

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> Any:
        batch, length, _ = x.shape
        q, k, v = self.project(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril() & ~padding[:, None, None, :]
        places = (torch.arange(length)[:, None] - torch.arange(length)[None] + 16).clamp(0, 31)
        mask = torch.where(mask, self.bias[:, places], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, 16)
        z, weights = self.other(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        return y + z, weights


@program(graphs=2)
def masks_of_three_lengths(compile: Compile) -> Any:
    model, results = Masked(), []
    fast = compile(model)
    for length in (5, 7, 9):
        padding = torch.zeros(2, length, dtype=torch.bool)
        padding[1, -2:] = True
        y, weights = fast(data(2, length, 16), padding)
        y.sum().backward()
        results.append((y.detach(), weights.detach()))
    return results, gradients(model)


class Cached(nn.Module):
    """One step of decoding, with keys and values in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(2, 16, 8))
        self.register_buffer("values", torch.zeros(2, 16, 8))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(1, places, x * 2)
        self.values[:, places] = x
        scores = self.query(x) @ self.keys.transpose(1, 2)
        return scores.masked_fill(torch.arange(16) > places[-1], -1e9).softmax(-1) @ self.values


@program(graphs=2)
def decoding_with_a_cache(compile: Compile) -> Any:
    model = Cached()
    fast = compile(model)
    with torch.no_grad():
        steps = [fast(data(2, 4, 8), torch.arange(4))]
        steps += [fast(data(2, 1, 8, seed=n), torch.tensor([n])) for n in range(4, 8)]
    return steps, model.keys


@contextlib.contextmanager
def one_process(folder: str) -> Iterator[None]:
    """A process group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


@program(graphs=2, breaks=3)  # at the hooks that gather and free
def parameters_in_shards(compile: Compile) -> Any:
    with tempfile.TemporaryDirectory() as folder, one_process(folder):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        fully_shard(model[0])
        fully_shard(model)
        fast, losses = compile(model), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for n in range(4):
            loss = fast(data(4, 8, seed=n)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


@program(graphs=1)
def replicated_parameters(compile: Compile) -> Any:
    with tempfile.TemporaryDirectory() as folder, one_process(folder):
        model = nn.parallel.DistributedDataParallel(compile(nn.Sequential(nn.Linear(8, 4), nn.ReLU())))
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
        for n in range(3):
            loss = model(data(4, 8, seed=n)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
