"""The compiled module as an object: it is the original in everything but its call."""

import copy
import functools
import pickle

import pytest
import torch
from torch import nn
from triptych import modules
from triptych.reports import Report, report


class Net(nn.Module):
    """A module with parameters, a buffer, a property and a method that calls itself."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))
        self.note = "first"

    @property
    def width(self):
        return self.linear.in_features

    def forward(self, x):
        return self.linear(x) * self.scale

    def twice(self, x):
        return self(x), self(x)


def doubled(original, *args):
    return 2 * original(*args)


def make(model):
    return modules.twin(model, functools.partial(doubled, model), make, Report("net"), lambda example: example)


@pytest.fixture
def pair():
    model = Net()
    return model, make(model)


def test_class_and_keys(pair):
    model, compiled = pair
    assert isinstance(compiled, Net)
    assert type(compiled).__name__ == "Net"
    assert repr(compiled) == repr(model)
    assert list(compiled.state_dict()) == list(model.state_dict()) == ["scale", "linear.weight", "linear.bias"]
    assert compiled is not model


def test_only_the_twin_calls_the_compiled_code(pair):
    model, compiled = pair
    x = torch.randn(4, 3)
    torch.testing.assert_close(compiled(x), 2 * model(x))


def test_methods_of_the_twin_use_the_compiled_call(pair):
    model, compiled = pair
    x = torch.randn(4, 3)
    for got in compiled.twice(x):
        torch.testing.assert_close(got, 2 * model(x))


def test_parameters_are_shared(pair):
    model, compiled = pair
    assert all(a is b for a, b in zip(model.parameters(), compiled.parameters(), strict=True))
    compiled.load_state_dict({key: torch.zeros_like(value) for key, value in model.state_dict().items()})
    assert model.linear.weight.abs().sum() == 0
    compiled.double()
    assert model.linear.weight.dtype == torch.float64


def test_attributes_go_both_ways(pair):
    model, compiled = pair
    compiled.note = "second"
    assert model.note == "second"
    model.extra = nn.Linear(1, 1)
    assert compiled.extra is model.extra
    assert "extra.weight" in compiled.state_dict()
    del compiled.extra
    assert not hasattr(model, "extra")
    compiled.eval()
    assert not model.training
    model.train()
    assert compiled.training
    assert compiled.width == 3
    assert {"linear", "twice", "note"} <= set(dir(compiled))


def test_hooks_are_shared(pair):
    model, compiled = pair
    seen = []
    compiled.register_forward_hook(lambda *_: seen.append(1))
    model(torch.ones(1, 3))
    assert seen == [1]


def test_deepcopy_is_compiled_and_separate(pair):
    model, compiled = pair
    copied = copy.deepcopy(compiled)
    assert modules.is_twin(copied)
    assert copied.linear.weight is not model.linear.weight
    assert modules.original_of(copied) is not model
    with torch.no_grad():
        copied.linear.weight.zero_()
    assert model.linear.weight.abs().sum() > 0
    x = torch.ones(1, 3)
    torch.testing.assert_close(copied(x), 2 * modules.original_of(copied)(x))


def test_deepcopy_of_a_parent_keeps_sharing(pair):
    model, compiled = pair
    parent = nn.ModuleList([compiled, compiled])
    copied = copy.deepcopy(parent)
    assert copied[0] is copied[1]
    assert copied[0] is not compiled


def test_pickle_compiles_again(pair):
    model, compiled = pair
    loaded = pickle.loads(pickle.dumps(compiled))
    assert modules.is_twin(loaded)
    assert torch.equal(loaded.linear.weight, model.linear.weight)


def test_subclass_hook_of_the_original_does_not_run():
    made = []

    class Registering(nn.Module):
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            made.append(cls)

        def forward(self, x):
            return x

    make(Registering())
    assert made == []


def test_slots_are_copied():
    class Slotted(nn.Module):
        __slots__ = ("extra",)

    model = Slotted()
    object.__setattr__(model, "extra", 5)
    assert make(model).extra == 5


def test_twin_inside_a_parent_counts_as_submodule(pair):
    _, compiled = pair
    parent = nn.Sequential(compiled)
    assert list(parent.state_dict()) == ["0.scale", "0.linear.weight", "0.linear.bias"]


def test_report_is_found(pair):
    _, compiled = pair
    assert report(compiled).name == "net"
    with pytest.raises(TypeError, match="not made by triptych.compile"):
        report(pair[0])
