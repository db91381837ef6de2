"""Recurrent layers: stacks with dropout between the layers draw what eager draws."""

from __future__ import annotations

import pytest
import torch
from aot_testing import keep_graph
from triptych_aot_autograd import aot_module

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))


class Layer(torch.nn.Module):
    """A stack of three layers."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(4, 3, num_layers=3, dropout=0.5, **options)

    def forward(self, x):
        return self.layer(x)


FORMS = {
    "padded": {},
    "batch_first": {"batch_first": True},
    "bidirectional": {"bidirectional": True, "batch_first": True},
    "no_bias": {"bias": False},
}


def outcome(run, layer):
    torch.manual_seed(3)
    x = X.clone().requires_grad_()
    out, states = run(x)
    values = [out, *(states if isinstance(states, tuple) else (states,))]
    sum(value.sin().sum() for value in values).backward()
    gradients = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    return [*values, x.grad, *gradients, torch.rand(2)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM], ids=lambda kind: kind.__name__)
def test_dropout_between_layers(kind, form, training):
    layer = Layer(kind, **FORMS[form]).train(training)
    traced = aot_module(layer, keep_graph)
    for got, expected in zip(outcome(traced, layer), outcome(layer, layer), strict=True):
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected)


def test_projections():
    layer = Layer(torch.nn.LSTM, proj_size=2, batch_first=True)
    traced = aot_module(layer, keep_graph)
    for got, expected in zip(outcome(traced, layer), outcome(layer, layer), strict=True):
        torch.testing.assert_close(got, expected)
