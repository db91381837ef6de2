"""Steps of torch's optimisers: one graph, what eager leaves, no compile once the state is there."""

from __future__ import annotations

import copy

import pytest
import torch
import triptych_dynamo
from torch import nn
from torch.optim import lr_scheduler
from torch.testing import assert_close

O = torch.optim
# class, its options, whether it computes with lists of tensors, graphs of seven steps
TABLE = [
    (O.Adadelta, {}, True, 2),
    (O.Adadelta, {"weight_decay": 0.1, "maximize": True}, True, 2),
    (O.Adafactor, {"eps": (1e-30, 1e-3)}, True, 2),  # torch 2.11 has no default for lists that are compiled
    (O.Adagrad, {}, True, 1),
    (O.Adagrad, {"initial_accumulator_value": 0.1, "weight_decay": 0.1, "lr_decay": 0.5}, True, 1),
    (O.Adam, {}, True, 2),
    (O.Adam, {"amsgrad": True, "weight_decay": 0.1}, True, 2),
    (O.Adam, {"lr": torch.tensor(0.01)}, False, 2),
    (O.AdamW, {"maximize": True}, True, 2),
    (O.Adamax, {"weight_decay": 0.1}, True, 2),
    (O.ASGD, {}, True, 2),
    (O.Muon, {"weight_decay": 0.1}, None, 2),
    (O.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}, True, 2),
    (O.RAdam, {}, True, 2),
    (O.RMSprop, {"momentum": 0.1, "centered": True}, True, 2),
    (O.Rprop, {}, True, 2),
    (O.SGD, {"lr": 0.01}, True, 1),
    (O.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, True, 2),
    (O.SGD, {"lr": torch.tensor(0.01)}, True, 1),
]


def _rows():
    rows = []
    for cls, options, lists, graphs in TABLE:
        for foreach in (False, True) if lists else (False,):
            given = options if lists is None else {**options, "foreach": foreach}
            name = "-".join([cls.__name__, *(key for key in options), *(["foreach"] if foreach else [])])
            rows.append(pytest.param(cls, given, graphs, id=name))
    return rows


class Counted:
    """A backend that counts."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))


def _set_gradients(model, seed):
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def _both(cls, options):
    """A model and its optimiser, twice."""
    pairs = []
    for _ in range(2):
        model = _model()
        pairs.append((model, cls(model.parameters(), **copy.deepcopy(options))))
    return pairs


def _assert_same(pairs):
    (model, optimizer), (expected, expected_optimizer) = pairs
    assert_close(list(model.parameters()), list(expected.parameters()), rtol=1e-5, atol=1e-5)
    assert optimizer.param_groups[0].keys() == expected_optimizer.param_groups[0].keys()
    assert_close(optimizer.param_groups[0]["lr"], expected_optimizer.param_groups[0]["lr"])
    assert [*optimizer.state] == [] or all(
        key is parameter for key, parameter in zip(optimizer.state, model.parameters(), strict=True)
    )
    state, wanted = optimizer.state_dict()["state"], expected_optimizer.state_dict()["state"]
    assert [list(row) for row in state.values()] == [list(row) for row in wanted.values()]
    assert_close(state, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cls,options,graphs", _rows())
def test_seven_steps(cls, options, graphs):
    pairs, backend = _both(cls, options), Counted()
    step = triptych_dynamo.optimize(backend, fullgraph=True)(pairs[0][1].step)
    for index in range(7):
        for model, _ in pairs:
            _set_gradients(model, index)
        step()
        pairs[1][1].step()
        _assert_same(pairs)
    assert backend.graphs == graphs


SCHEDULED = [
    (O.Adam, {"lr": 0.1}, 2),
    (O.Adam, {"lr": 0.1, "foreach": True}, 2),
    (O.Adam, {"lr": torch.tensor(0.1)}, 2),
    (O.SGD, {"lr": 0.1, "momentum": 0.9}, 2),
    (O.SGD, {"lr": 0.1}, 2),
]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("cls,options,graphs", SCHEDULED)
def test_a_scheduler_changes_the_rate(cls, options, graphs, inside):
    pairs, backend = _both(cls, options), Counted()
    schedulers = [lr_scheduler.ExponentialLR(optimizer, 0.9) for _, optimizer in pairs]

    def step():
        pairs[0][1].step()
        if inside:
            schedulers[0].step()

    compiled = triptych_dynamo.optimize(backend, fullgraph=True)(step)
    for index in range(6):
        for model, _ in pairs:
            _set_gradients(model, index)
        compiled()
        pairs[1][1].step()
        for scheduler in schedulers[inside:]:
            scheduler.step()
        _assert_same(pairs)
    assert backend.graphs == graphs


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("cls", [O.Adam, O.SGD, O.RMSprop])
def test_a_whole_training_step(cls, foreach):
    pairs, backend = _both(cls, {"foreach": foreach, **({"momentum": 0.9} if cls is O.SGD else {})}), Counted()

    def train(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = triptych_dynamo.optimize(backend, fullgraph=True)(train)
    for index in range(5):
        torch.manual_seed(index)
        x = torch.randn(8, 3)
        assert_close(compiled(*pairs[0], x), train(*pairs[1], x))
        _assert_same(pairs)
    assert backend.graphs == 2


def test_the_state_is_guarded():
    pairs, backend = _both(O.Adam, {}), Counted()
    step = triptych_dynamo.optimize(backend, fullgraph=True)(pairs[0][1].step)

    def steps(change, graphs):
        for model, optimizer in pairs:
            change(optimizer, list(model.parameters()))
            _set_gradients(model, 1)
        step()
        pairs[1][1].step()
        assert backend.graphs == graphs
        state, expected = (optimizer.state_dict()["state"] for _, optimizer in pairs)
        assert_close(state, expected, rtol=1e-5, atol=1e-5)

    steps(lambda optimizer, parameters: None, 1)
    steps(lambda optimizer, parameters: None, 2)
    steps(lambda optimizer, parameters: None, 2)
    steps(lambda optimizer, parameters: optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict())), 2)
    steps(lambda optimizer, parameters: optimizer.state.pop(parameters[0]), 3)
    steps(lambda optimizer, parameters: None, 3)
    steps(lambda optimizer, parameters: optimizer.state.clear(), 3)
    steps(lambda optimizer, parameters: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]}), 4)
