"""Training steps, optimiser and backward inside, through the whole stack."""

import pytest
import torch
import triptych
from torch import nn
from torch.testing import assert_close

ROWS = [
    (torch.optim.Adam, {"foreach": False}),
    (torch.optim.AdamW, {"foreach": True, "amsgrad": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.RAdam, {"lr": torch.tensor(0.01)}),
]


def _pair(cls, options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return model, cls(model.parameters(), **options)


def _train(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("cls,options", ROWS)
def test_training_steps(cls, options):
    compiled = triptych.compile(_train, fullgraph=True)
    pair, expected = _pair(cls, options), _pair(cls, options)
    for index in range(7):
        torch.manual_seed(index)
        x = torch.randn(8, 3)
        assert_close(compiled(*pair, x), _train(*expected, x), rtol=1e-5, atol=1e-5)
    assert_close(list(pair[0].parameters()), list(expected[0].parameters()), rtol=1e-5, atol=1e-5)
    assert_close(pair[1].state_dict()["state"], expected[1].state_dict()["state"], rtol=1e-5, atol=1e-5)
    assert len(triptych.report(compiled).graphs) == 2
