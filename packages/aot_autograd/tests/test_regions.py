"""Submodules that a graph calls many times: traced once and stamped, as tracing each call would have it."""

import operator

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule
from triptych_aot_autograd import aot_backend
from triptych_aot_autograd.tracing import joint, regions


def module_of(fn, count):
    """A graph module of a function of `count` tensors that gives a tuple."""
    graph = Graph()
    proxies = [torch.fx.Proxy(graph.placeholder(f"a{k}")) for k in range(count)]
    graph.output(tuple(p.node for p in fn(*proxies)))
    return GraphModule(nn.Module(), graph)


def chain(region, times, take=lambda result: result[0]):
    """x -> region(region(x, w0), w1) ..., and the plain function."""
    root, graph = nn.Module(), Graph()
    root.region = region
    x = graph.placeholder("x")
    weights = [graph.placeholder(f"w{k}") for k in range(times)]
    for weight in weights:
        call = graph.call_module("region", (x, weight))
        x = take(torch.fx.Proxy(call)).node
    graph.output((x,))
    return GraphModule(root, graph)


@pytest.fixture
def traces(monkeypatch):
    """How often something was traced."""
    found = []
    trace = joint.trace
    monkeypatch.setattr(regions, "trace", lambda request: found.append(request) or trace(request))
    return found


def graphs_and_gradients(gm, inputs):
    graphs = []
    backend = aot_backend(lambda graph, examples: (graphs.append(graph), graph.forward)[1])
    (y,) = backend(gm, inputs)(*inputs)
    wanted = [t for t in inputs if t.requires_grad]
    grads = torch.autograd.grad(y.sum(), wanted) if wanted else ()
    return y, grads, graphs


def check(gm, inputs):
    torch.manual_seed(0)
    y, grads, graphs = graphs_and_gradients(gm, inputs)
    torch.manual_seed(0)
    (expected,) = gm(*inputs)
    torch.testing.assert_close(y, expected)
    wanted = [t for t in inputs if t.requires_grad]
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sum(), wanted) if wanted else ())
    return graphs


def inputs_of(times, grad=True):
    torch.manual_seed(1)
    return [torch.randn(3, 3), *(torch.randn(3, 3, requires_grad=grad) for _ in range(times))]


def test_a_region_is_traced_once_for_each_kind_of_operands(traces):
    gm = chain(module_of(lambda x, w: (torch.tanh(x @ w),), 2), 6)
    check(gm, inputs_of(6))
    assert len(traces) == 2  # the first call's x wants no gradient
    traces.clear()
    check(gm, inputs_of(6, grad=False))
    assert len(traces) == 1


def test_the_graphs_are_those_of_the_plain_program():
    def layer(x, w):
        return (torch.softmax(x @ w, -1) + x,)

    region = module_of(layer, 2)
    gm, inputs = chain(region, 4), inputs_of(4)
    flat = Graph()
    names = [flat.placeholder(n.name) for n in gm.graph.nodes if n.op == "placeholder"]
    x = torch.fx.Proxy(names[0])
    for name in names[1:]:
        (x,) = layer(x, torch.fx.Proxy(name))
    flat.output((x.node,))
    counts = [
        [sorted(str(n.target) for n in graph.graph.nodes if n.op == "call_function") for graph in check(m, inputs)]
        for m in (gm, GraphModule(nn.Module(), flat))
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: (nn.functional.dropout(x @ w, 0.5),),
        lambda x, w: (x.t() @ w.t(),),
        lambda x, w: ((x @ w).to(torch.float64).sum(0, keepdim=True).expand(3, 3).to(torch.float32),),
        lambda x, w: (x.add(1).mul_(w),),
        lambda x, w: (x * w, x),
        lambda x, w: (x.sin_() * w,),
        lambda x, w: (torch.stack(torch.split(x @ w, 1, 1), 0).squeeze(-1).contiguous(),),
    ],
    ids=["random", "transposed", "casts", "own write", "operand back", "write to operand", "split"],
)
def test_kinds_of_regions(fn):
    gm, inputs, results = chain(module_of(fn, 2), 3), inputs_of(3), []
    for run in (lambda *args: graphs_and_gradients(gm, list(args))[0], lambda *args: gm(*args)[0]):
        torch.manual_seed(0)
        own = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
        out = run(*own)
        results.append((out.detach(), [t.detach() for t in own]))
    torch.testing.assert_close(results[0], results[1])


def test_a_result_without_a_gradient_adds_nothing():
    """Not even zero times something: the gradient of a root at zero is infinite."""
    region = module_of(lambda x, w: (torch.tanh(x @ w), torch.sqrt(w * 0)), 2)
    check(chain(region, 3), inputs_of(3))
    assert all(g.isfinite().all() for g in graphs_and_gradients(chain(region, 3), inputs_of(3))[1])


def test_gradients_inside_the_graph_want_history(traces):
    gm = chain(module_of(lambda x, w: (torch.tanh(x @ w),), 2), 3)
    graph = gm.graph
    output = graph.output_node()
    with graph.inserting_before(output):
        total = graph.call_method("sum", (output.args[0][0],))
        weight = next(n for n in graph.nodes if n.name == "w0")
        found = graph.call_function(torch.autograd.grad, (total, [weight]), {"create_graph": True})
        first = graph.call_function(operator.getitem, (found, 0))
    output.args = ((first,),)
    gm.recompile()
    check(gm, inputs_of(3))
    assert not traces


def test_recomputation_holds_for_all_of_a_call():
    gm = chain(module_of(lambda x, w: (torch.sin(torch.exp(x @ w)),), 2), 3)
    for number, node in enumerate(n for n in gm.graph.nodes if n.op == "call_module"):
        node.meta["recompute"] = number + 1
    forward, backward = check(gm, inputs_of(3))
    assert sum("mm" in str(n.target) for n in backward.graph.nodes) > sum(
        "mm" in str(n.target) for n in forward.graph.nodes
    )
