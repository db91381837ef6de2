"""The order pass: steps beside each other change places where that lowers the peak, and only where they may."""

from __future__ import annotations

import random

import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.ir.nodes import Buffer, ExternNode, IRGraph, Strided
from triptych_inductor.schedule.dependencies import dependencies
from triptych_inductor.schedule.fuse import Step
from triptych_inductor.schedule.memory import Sizes
from triptych_inductor.schedule.order import lower_peak

CPU = torch.device("cpu")


def graph_of(sizes, calls, inputs=(), returned=()):
    """Extern calls (read, made) on buffers of some sizes, in bytes."""
    graph = IRGraph()
    for name, size in sizes.items():
        kind = "input" if name in inputs else "temporary"
        graph.buffers[name] = Buffer(name, (size,), (1,), torch.uint8, CPU, kind)

    def window(name):
        return Strided(graph.buffers[name], graph.buffers[name].size, (1,))

    for k, (read, made) in enumerate(calls):
        args = tuple([window(n) for n in read])
        graph.nodes.append(ExternNode(f"op{k}", "f", args, {}, [graph.buffers[n] for n in made], True))
    graph.outputs = [window(name) for name in returned]
    return graph


def ordered(graph):
    steps = [Step(node, needs) for node, needs in zip(graph.nodes, dependencies(graph.nodes), strict=True)]
    order = lower_peak(steps, graph, [node.write_names for node in graph.nodes], Sizes(int))
    for at, k in enumerate(order):
        assert steps[k].needs <= set(order[:at])
    return order


def peak(graph, order):
    """By simulation: inputs end at their last use."""
    touched = [graph.nodes[k].read_names | graph.nodes[k].write_names for k in order]
    last = {name: at for at, names in enumerate(touched) for name in names}
    alive = {name for name, buffer in graph.buffers.items() if buffer.kind == "input"}
    most = 0
    for at, k in enumerate(order):
        alive |= graph.nodes[k].write_names
        most = max(most, sum(graph.buffers[n].size[0] for n in alive))
        alive -= {n for n in touched[at] if last[n] == at} - graph.returned
    return most


SIZES = {"grad": 10, "weight": 1, "x": 100, "grad_x": 100, "grad_weight": 1, "rest": 5}


def test_what_ends_much_goes_first():
    calls = [(("grad", "weight"), ("grad_x",)), (("grad", "x"), ("grad_weight",)), (("grad_x",), ("rest",))]
    graph = graph_of(SIZES, calls, ("grad", "weight", "x"), ("grad_weight", "rest"))
    assert ordered(graph) == [1, 0, 2]


def test_what_needs_the_other_stays():
    calls = [(("weight",), ("grad_x",)), (("grad_x", "x"), ("grad_weight",))]
    graph = graph_of(SIZES, calls, ("weight", "x"), ("grad_weight",))
    assert ordered(graph) == [0, 1]


def test_away_from_the_peak_the_order_stays():
    calls = [(("grad", "weight"), ("grad_x",)), (("grad", "x"), ("grad_weight",))]
    calls += [((), ("large",)), (("large",), ("rest",))]
    graph = graph_of({**SIZES, "large": 10_000}, calls, ("grad", "weight", "x"), ("grad_x", "grad_weight", "rest"))
    assert ordered(graph) == [0, 1, 2, 3]


def test_no_peak_of_random_graphs_rises():
    maker = random.Random(0)
    moved = 0
    for _ in range(200):
        names = [f"b{k}" for k in range(16)]
        sizes = {name: maker.choice([1, 10, 100, 1000]) for name in names}
        calls = [(tuple(maker.sample(names[:k], min(k, maker.randint(0, 3)))), (names[k],)) for k in range(4, 16)]
        graph = graph_of(sizes, calls, names[:4], maker.sample(names[4:], 2))
        order = ordered(graph)
        moved += order != sorted(order)
        assert sorted(order) == list(range(len(calls)))
        assert peak(graph, order) <= peak(graph, range(len(calls)))
    assert moved > 20


def test_gradients_of_weights_are_made_first():
    """Of a wide layer: the weight's gradient ends the activations, the input's makes as large a result."""

    def backward(grad, w, x):
        grad_x, grad_w = grad @ w, grad.t() @ x
        return grad_x.sin().sum(1), grad_w

    grad, w, x = torch.randn(512, 8), torch.randn(8, 512), torch.randn(512, 512)
    gm = make_fx(backward, tracing_mode="fake")(grad, w, x)
    examples = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    compiled = triptych_inductor.compile(gm, examples)
    products = [line for line in compiled.source.splitlines() if "mm(" in line]
    assert "arg2" in products[0] and "arg1" in products[1]
    for got, want in zip(compiled(grad, w, x), backward(grad, w, x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
