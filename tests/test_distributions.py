"""Distributions that check their arguments are whole graphs, and raise what they raise in eager."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triptych
from torch import distributions as d

X = torch.tensor([[0.5, 0.25], [0.75, 0.5]])
WRONG = torch.tensor([[float("nan"), 0.25], [-3.0, 2.0]])


def checked(cls: Any, *args: Any, **kwargs: Any) -> Any:
    return cls(*args, validate_args=True, **kwargs)  # torch.compile turns the default off for the process


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "normal": lambda x: checked(d.Normal, x, x.exp()).log_prob(x + 1),
    "categorical": lambda x: checked(d.Categorical, logits=x).entropy(),
    "bernoulli": lambda x: checked(d.Bernoulli, x).log_prob((x > 0.3).float()),
    "beta": lambda x: checked(d.Beta, x, x + 1).log_prob(x),
    "dirichlet": lambda x: checked(d.Dirichlet, x).log_prob(x / x.sum(-1, keepdim=True)),
    "gamma": lambda x: checked(d.Gamma, x, x).log_prob(x),
    "multivariate": lambda x: checked(d.MultivariateNormal, x, scale_tril=torch.eye(2) * x.mean().exp()).log_prob(x),
    "uniform": lambda x: checked(d.Uniform, x - 1, x).log_prob(x - 0.5),
    "divergence": lambda x: d.kl_divergence(checked(d.Normal, x, x + 1), checked(d.Normal, 0.0, 1.0)),
    "transformed": lambda x: d.TransformedDistribution(
        checked(d.Normal, x, 1.0), [d.SigmoidTransform()], validate_args=True
    ).log_prob(x),
    "sample": lambda x: checked(d.Normal, x, 1.0).rsample((3,)) * checked(d.Bernoulli, x).sample(),
}


def outcome(fn: Callable[..., Any], x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    try:
        return fn(x), torch.rand(1)
    except ValueError as error:
        return re.sub(r"\s+", " ", str(error)), torch.rand(1)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_like_eager_in_one_graph(name, backend):
    program = PROGRAMS[name]
    compiled = triptych.compile(program, backend=backend, fullgraph=True)
    for x in (X, WRONG, X + 0.125):
        (found, after), (expected, drawn) = outcome(compiled, x), outcome(program, x)
        assert torch.equal(after, drawn)
        if isinstance(expected, str):
            assert found == expected
        else:
            torch.testing.assert_close(found, expected)
    assert isinstance(outcome(program, WRONG)[0], str) and not isinstance(outcome(program, X)[0], str)


def test_gradients():
    def bound(x, scale):
        latent = checked(d.Normal, x, scale.exp())
        likely = checked(d.Bernoulli, logits=latent.rsample()).log_prob((x > 0.3).float())
        return (likely - d.kl_divergence(latent, checked(d.Normal, 0.0, 1.0))).sum()

    found = []
    for fn in (bound, triptych.compile(bound, fullgraph=True)):
        x, scale = X.clone().requires_grad_(), torch.zeros(2).requires_grad_()
        torch.manual_seed(0)
        loss = fn(x, scale)
        loss.backward()
        found.append((loss.detach(), x.grad, scale.grad))
    torch.testing.assert_close(found[1], found[0])
