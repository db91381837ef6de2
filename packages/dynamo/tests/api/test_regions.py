"""`nested_compile_region`: what the captured graph looks like, and which calls share a module."""

import operator

import pytest
import torch
import triptych_dynamo as td
from torch import nn

X, W, V = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)


@td.nested_compile_region
def layer(x, w, scale=1.0):
    return torch.relu(x @ w) * scale


def captured(fn, *args):
    graph = td.capture(fn)(*args)
    torch.testing.assert_close(graph(*args), fn(*args))
    return graph.graph_module


def calls(module):
    return [str(node.target) for node in module.graph.nodes if node.op == "call_module"]


def test_calls_share_one_module():
    module = captured(lambda x, w, v: layer(layer(layer(x, w), v), w), X, W, V)
    assert calls(module) == ["layer_region_0"] * 3
    inner = module.layer_region_0.graph
    assert [n.target for n in inner.nodes if n.op == "call_function"][1:] == [torch.relu, operator.mul]
    assert not [n for n in module.graph.nodes if n.target is torch.relu]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, w: layer(x, w, scale=2.0),
        lambda x, w: layer(x, w, scale=1),
        lambda x, w: layer(x[:2], w),
        lambda x, w: layer(x.double(), w.double()),
        lambda x, w: layer(x.t(), w),
    ],
    ids=["constant", "type", "size", "dtype", "stride"],
)
def test_what_differs_has_a_module_of_its_own(other):
    module = captured(lambda x, w: (layer(x, w), layer(x, w.relu()), other(x, w)), X, W)
    assert calls(module) == ["layer_region_0", "layer_region_0", "layer_region_1"]


def test_the_number_of_modules_is_limited():
    few = td.nested_compile_region(max_reuse_entries=2)(lambda x, k: x * k + 1)
    module = captured(lambda x: [few(x, k) for k in (1, 2, 3, 4, 1, 2)], X)
    assert len(set(calls(module))) == 2 and len(calls(module)) == 4


def test_calls_with_other_hashes_share_nothing():
    @td.nested_compile_region(reuse_hash_fn=lambda x, kind: kind)
    def told(x, kind):
        return x.sin() + 1

    module = captured(lambda x: told(told(told(x, 0), 1), 0), X)
    assert calls(module) == ["told_region_0", "told_region_1", "told_region_0"]
    with pytest.raises(td.GraphBreakError, match="reuse_hash_fn"):
        bad = td.nested_compile_region(reuse_hash_fn=lambda x: x.sum())(lambda x: x + 1)
        td.capture(lambda x: bad(x))(X)


def test_methods_and_regions_in_regions():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        @td.nested_compile_region
        def forward(self, x):
            return layer(layer(self.linear(x), x), x)

    model = nn.Sequential(Block(), Block(), Block())
    module = captured(model, X)
    assert len(calls(module)) == 3 and len(set(calls(module))) == 1
    block = getattr(module, calls(module)[0])
    assert calls(block) == ["layer_region_0"] * 2


def test_effects_and_writes_of_a_region():
    seen = []

    @td.nested_compile_region
    def step(x, state):
        seen.append(len(seen))
        state.add_(x)
        return x * 2

    def fn(x, state):
        return step(step(x, state), state)

    compiled = td.optimize("eager", fullgraph=True)(fn)
    state, expected = torch.zeros(4, 4), torch.zeros(4, 4)
    torch.testing.assert_close(compiled(X, state), fn(X, expected))
    torch.testing.assert_close(state, expected)
    assert seen == [0, 1, 2, 3]


def test_a_break_inside_a_region():
    @td.nested_compile_region
    def broken(x):
        x = x + 1
        td.graph_break("here")
        return x * 2

    graphs = []
    compiled = td.optimize(lambda gm, inputs: (graphs.append(gm), gm.forward)[1])(
        lambda x: broken(broken(x)) + layer(x, x)
    )
    torch.testing.assert_close(compiled(X), ((X + 1) * 2 + 1) * 2 + torch.relu(X @ X))
    assert sum(len(calls(graph)) for graph in graphs) == 1


def test_numbers_out_of_tensors_are_each_calls_own():
    @td.nested_compile_region
    def scaled(x, w):
        return x * w.argmax().item()

    captured(lambda x, w, v: scaled(scaled(x, w), v), X, W, V)


def test_torchs_own_mark():
    theirs = torch.compiler.nested_compile_region(lambda x, w: torch.tanh(x @ w))
    assert len(set(calls(captured(lambda x, w, v: theirs(theirs(x, w), v), X, W, V)))) == 1


def test_saved_graphs_have_no_modules(tmp_path):
    def fn(x, w):
        return layer(layer(x, w), w)

    td.capture(fn)(X, W).save(tmp_path / "graph")
    loaded = td.CapturedGraph.load(tmp_path / "graph", f_globals=globals())
    torch.testing.assert_close(loaded(X, W), fn(X, W))


@pytest.mark.parametrize(
    ("given", "error"),
    [({"max_reuse_entries": 0}, ValueError), ({"reuse_hash_fn": 3}, TypeError), ({"fn": 3}, TypeError)],
)
def test_wrong_marks(given, error):
    with pytest.raises(error):
        td.nested_compile_region(**given)


def test_eagerly_it_is_the_function():
    assert layer.__name__ == "layer" and td.nested_compile_region(len)([1, 2]) == 2
