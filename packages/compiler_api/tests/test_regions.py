"""`nested_compile_region` through the whole compiler: values, gradients, effects, and what is shared."""

import warnings

import pytest
import torch
import triptych
from torch import nn
from torch.utils.checkpoint import checkpoint
from triptych.compiler import nested_compile_region


@nested_compile_region
def layer(x, w):
    return torch.tanh(x @ w)


@nested_compile_region
def random(x, w):
    return nn.functional.dropout(x @ w, 0.3) + torch.rand(1)


@nested_compile_region
def writes(x, w):
    x.add_(w.detach())
    return (x * 2 * w).sum()


@nested_compile_region
def passes_on(x, w):
    return x, w * 2, x


@nested_compile_region
def block(x, w):
    return layer(layer(x, w), w) + x


@nested_compile_region
def with_a_spare(x, w):
    return torch.relu(x @ w), torch.sqrt(w * 0)


@nested_compile_region
def mixed(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
    with torch.no_grad():
        z = y * 2
    return y.float() + z


@nested_compile_region
def branching(x, w):
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a + b, (x, w))


@nested_compile_region
def asking(x, w):
    return x * w.argmax().item()


PROGRAMS = {
    "layers": lambda x, w, v: layer(layer(layer(x, w), v), w),
    "random": lambda x, w, v: random(random(x, w), v),
    "writes": lambda x, w, v: writes(x, w) + writes(x, v),
    "passes on": lambda x, w, v: passes_on(passes_on(x, w)[0], v)[1] + passes_on(x, v)[2],
    "nested": lambda x, w, v: block(block(x, w), v),
    "spare result": lambda x, w, v: with_a_spare(with_a_spare(x, w)[0], v)[0],
    "mixed modes": lambda x, w, v: mixed(mixed(x.t(), w), v.t()),
    "branching": lambda x, w, v: branching(branching(x, w), v),
    "asking": lambda x, w, v: asking(asking(x, w), v),
    "checkpoint": lambda x, w, v: checkpoint(
        layer, checkpoint(layer, x, w, use_reentrant=False), v, use_reentrant=False
    ),
    "gradient inside": lambda x, w, v: torch.autograd.grad(layer(layer(x, w), v).sum(), [w], create_graph=True)[0] ** 2,
    "functional gradient": lambda x, w, v: torch.func.grad(lambda w: layer(layer(x, w), v).sum())(w),
    "vmap": lambda x, w, v: torch.vmap(lambda row: layer(layer(row[None], w), v))(x),
}


def outcome(call):
    """Results, gradients and the inputs afterwards."""
    torch.manual_seed(0)
    x, w, v = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    y = call(x, w, v)
    gradients = torch.autograd.grad(y.sum(), [w, v], allow_unused=True) if y.requires_grad else ()
    return y.detach(), list(gradients), x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_the_program_without_the_mark(name, backend):
    fn = PROGRAMS[name]
    torch.testing.assert_close(outcome(triptych.compile(fn, fullgraph=True, backend=backend)), outcome(fn))


def test_sizes_that_change():
    fn = triptych.compile(PROGRAMS["nested"])
    w = torch.randn(4, 4, requires_grad=True)
    for rows in (3, 5, 7, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(fn(x, w, w), PROGRAMS["nested"](x, w, w))
    assert len(triptych.report(fn).graphs) == 2


def test_one_subgraph_and_one_kernel_for_many_layers():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        @nested_compile_region
        def forward(self, x):
            return torch.softmax(self.norm(self.linear(x)), -1)

    model, graphs = nn.Sequential(*(Layer() for _ in range(6))).eval(), []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    x = torch.randn(3, 8)
    torch.testing.assert_close(triptych.compile(model, backend=backend)(x), model(x))
    calls = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_module"]
    assert len(calls) == 6 and len(set(calls)) == 1
    with torch.no_grad():
        six, one = triptych.compile(model), triptych.compile(model[:1])
        torch.testing.assert_close(six(x), model(x))
        one(x)
    assert triptych.report(six).kernels <= triptych.report(one).kernels + 1


def test_attention_in_a_region_is_found():
    @nested_compile_region
    def attend(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v

    q, k, v = (torch.randn(2, 2, 64, 16) for _ in range(3))
    fn = triptych.compile(lambda q, k, v: attend(attend(q, k, v), k, v))
    torch.testing.assert_close(fn(q, k, v), attend(attend(q, k, v), k, v))
    assert triptych.report(fn).patterns["fuse_attention"] == 1


@pytest.mark.parametrize("name", ["layers", "branching"])
def test_a_second_process_finds_it_on_disk(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "1")
    results = []
    for _ in range(2):
        fn = triptych.compile(PROGRAMS[name])
        results.append(outcome(fn))
    torch.testing.assert_close(*results)
    assert [stage.cached for stage in triptych.report(fn).stages] == [True, True]


def test_gradients_of_gradients():
    fn = triptych.compile(PROGRAMS["layers"])
    x, w, v = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    found = []
    for call in (fn, PROGRAMS["layers"]):
        (first,) = torch.autograd.grad(call(x, w, v).sum(), w, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [w, v]))
    torch.testing.assert_close(*found)


@pytest.mark.slow
def test_regions_of_torchs_own_front_end():
    theirs = torch.compiler.nested_compile_region(lambda x, w: torch.tanh(x @ w))
    compiled = torch.compile(lambda x, w, v: theirs(theirs(x, w), v), fullgraph=True, backend="triptych")
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(compiled(x, w, w), layer(layer(x, w), w))
