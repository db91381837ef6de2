"""Small training programs put together at random of what acts on gradients and on random numbers, against eager.

A program is a seed: it picks blocks, each with a feature (hooks, checkpoints, functions with gradients of their own,
modes, draws, writes in place), hooks of the modules, and how a step takes its gradients. Losses, gradients, weights,
what hooks noted and the generator's state after each of three steps are compared.
"""

import random

import pytest
import torch
import torch.nn.functional as F
import triptych
import triptych_dynamo
from torch import nn
from torch.autograd import graph
from torch.utils.checkpoint import checkpoint


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.limit) + 0.1 * grad, None


# -- blocks: (model, x) -> x -------------------------------------------------------------------------------------------
def linear(model, x):
    return model.first(x).tanh()


def normalised(model, x):
    return model.norm(model.second(x)).relu()


def dropped(model, x):
    return F.dropout(x, 0.3)


def hooked(model, x):
    y = x * 2
    y.register_hook(lambda grad: grad * 0.5)
    y.register_hook(lambda grad: grad + 0.01)
    return y.sin()


def noted(model, x):
    y = x * 1.5
    if y.requires_grad:
        y.register_hook(lambda grad: model.seen.append(round(grad.sum().item(), 4)))
    return y


def checkpointed(model, x):
    return checkpoint(lambda v: F.dropout(model.first(v), 0.2).sin(), x, use_reentrant=False)


def checkpointed_with_effects(model, x):
    def body(v):
        model.seen.append("body")
        return model.first(v).cos()

    return checkpoint(body, x, use_reentrant=False)


def clipped(model, x):
    return Clip.apply(x, 0.8) + x.detach() * 0.1


def written(model, x):
    y = x * 2
    y.add_(0.5).clamp_(max=3.0)
    return y - 1


def without_gradients(model, x):
    with torch.no_grad():
        scale = x.std() + 1
    return x / scale


def kept(model, x):
    y = x + 0.1
    if y.requires_grad:
        y.retain_grad()
    model.kept = y
    return y * y.sigmoid()


def packed(model, x):
    with graph.saved_tensors_hooks(lambda saved: saved * 1.5, lambda saved: saved):
        return x * x.sin()


def forked(model, x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        noise = torch.rand_like(x)
    return x + noise * torch.rand(1)


def branching(model, x):
    return x + 1 if x.sum() > 0 else x - 1


def penalised(model, x):
    y = model.second(x).pow(2).sum()
    (grad,) = torch.autograd.grad(y, model.second.weight, create_graph=True)
    return x * 0.9 + grad.norm() * 0.01


BLOCKS = [linear, normalised, dropped, hooked, noted, checkpointed, checkpointed_with_effects, clipped, written]
BLOCKS += [without_gradients, kept, packed, forked, branching, penalised]


# -- hooks of the model ------------------------------------------------------------------------------------------------
def no_hooks(model):
    pass


def scaling_forward_hook(model):
    model.first.register_forward_hook(lambda module, args, output: output * 1.1)


def noting_forward_hook(model):
    model.norm.register_forward_pre_hook(lambda module, args: model.seen.append(tuple(args[0].shape)))


def scaling_backward_hook(model):
    model.first.register_full_backward_hook(
        lambda module, grads, outputs: tuple(None if g is None else g * 0.5 for g in grads)
    )


def noting_backward_hooks(model):
    model.norm.register_full_backward_hook(lambda *_: model.seen.append("norm"))
    model.second.register_full_backward_pre_hook(lambda *_: model.seen.append("second"))


def parameter_hooks(model):
    model.first.weight.register_hook(lambda grad: grad * 2)
    model.second.bias.register_post_accumulate_grad_hook(lambda leaf: model.seen.append(leaf.grad.shape))


HOOKS = [no_hooks, no_hooks, scaling_forward_hook, noting_forward_hook, scaling_backward_hook]
HOOKS += [noting_backward_hooks, parameter_hooks]


# -- programs ----------------------------------------------------------------------------------------------------------
class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.blocks = blocks
        self.seen = []
        self.kept = None

    def forward(self, x):
        for block in self.blocks:
            x = block(self, x)
        return x


class Program:
    """The program of a seed: a model, and a step that is compiled as a whole or around a compiled model."""

    def __init__(self, seed):
        choice = random.Random(seed)
        torch.manual_seed(seed)
        self.model = Model([linear, *choice.choices(BLOCKS, k=choice.randint(2, 5))]).double()
        choice.choice(HOOKS)(self.model)
        self.whole_step, self.set_to_none = choice.random() < 0.5, choice.random() < 0.7
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=choice.choice([0.0, 0.9]))

    def step(self, model, x):
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss = model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train(self, compiler):
        """What can be seen after each step."""
        model = self.model if self.whole_step else compiler(self.model)
        step = compiler(self.step) if self.whole_step else self.step
        found = []
        for number in range(3):
            torch.manual_seed(number)
            loss = step(model, torch.randn(3, 4, dtype=torch.double))
            state = [t.clone() for t in self.model.state_dict().values()]
            grads = [None if p.grad is None else p.grad.clone() for p in self.model.parameters()]
            kept = None if self.model.kept is None else self.model.kept.grad
            found.append((loss, state, grads, kept, list(self.model.seen), torch.rand(2)))
        return found


def difference(seed, compiler):
    """The text of the first difference, or ''."""
    wanted = Program(seed).train(lambda fn: fn)
    got = Program(seed).train(compiler)
    for number, (a, b) in enumerate(zip(got, wanted, strict=True)):
        for part, x, y in zip(("loss", "state", "grads", "kept", "seen", "numbers"), a, b, strict=True):
            try:
                if part == "seen":
                    assert x == y
                else:
                    torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-8)
            except AssertionError as error:
                names = [block.__name__ for block in Program(seed).model.blocks]
                return f"step {number}, {part}, of {names}: {error}"
    return ""


@pytest.mark.parametrize("seed", range(24))
def test_captured(seed):
    assert difference(seed, triptych_dynamo.optimize("eager")) == ""


@pytest.mark.parametrize("seed", range(100, 108))
def test_whole_stack(seed):
    assert difference(seed, triptych.compile) == ""


def test_a_difference_is_seen():
    def lossy(fn):
        return lambda *args: fn(*args) * 1.01

    assert any("loss" in difference(seed, lossy) for seed in range(3))
