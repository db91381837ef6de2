"""Compiled callables inside torch's own tracers: these see the original, whole (row 1.18)."""

import operator
import warnings

import pytest
import torch
import triptych
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

X = torch.randn(2, 3)


@triptych.compile
def double(x, by=2, *, add=1):
    return x.sin() * by + add


class Thing:
    offset = 3

    @triptych.compile
    def shift(self, x):
        return x + self.offset


THING = Thing()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = triptych.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    def forward(self, x):
        return THING.shift(self.layer(x)) + double(x, 3, add=2)


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def operators(graph):
    return [node.target for node in graph.nodes if node.op in ("call_function", "call_method")]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: double(x) * 2,
        double,
        lambda x: THING.shift(x) * 2,
        triptych.compile(nn.Linear(3, 3)),
        Net(),
    ],
    ids=["function", "itself", "method", "module", "parts"],
)
def test_torch_compile_sees_one_graph(fn):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = torch.compile(fn, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(X), fn(X))
    assert len(graphs) == 1 and operators(graphs[0].graph)


@pytest.mark.parametrize("strict", [True, False])
def test_export_sees_the_modules_under_their_names(strict, quiet):
    model = Net()
    exported = torch.export.export(model, (X,), strict=strict)
    assert list(exported.state_dict) == list(model.state_dict()) == ["layer.0.weight", "layer.0.bias"]
    torch.testing.assert_close(exported.module()(X), model(X))
    assert torch.ops.aten.sin.default in operators(exported.graph)


def test_export_without_a_trace_says_so():
    fresh = triptych.compile(lambda x: x + 1)
    model = nn.Module()
    model.forward = lambda x: fresh(x)
    with pytest.warns(UserWarning, match="called while a program is exported: its original is used"):
        torch.export.export(model, (X,), strict=False)


def test_other_tracers(quiet):
    model = Net()
    for trace in (lambda m: make_fx(m)(X), torch.fx.symbolic_trace):
        torch.testing.assert_close(trace(model)(X), model(X))
    torch.testing.assert_close(torch.vmap(double)(X), double(X))
    torch.testing.assert_close(torch.func.grad(lambda x: double(x).sum())(X), X.cos() * 2)


def test_the_attribute_is_the_call():
    fresh = triptych.compile(lambda x: x + 1)
    torch.testing.assert_close(fresh.__call__(X), X + 1)
    torch.testing.assert_close(operator.call(fresh, X), X + 1)
    assert len(triptych.report(fresh).graphs) == 1
