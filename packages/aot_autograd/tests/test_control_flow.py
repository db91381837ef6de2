"""Higher-order operators in a graph: subgraphs, gradients, and loops over a known dimension."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx
from triptych_aot_autograd import aot_backend

HIGHER = torch.ops.higher_order


def body(function, count):
    """A subgraph with `count` parameters that returns a tuple, or a tensor."""
    names = [f"arg{i}" for i in range(count)]
    graph = fx.Graph()
    found = function(*[fx.Proxy(graph.placeholder(name)) for name in names])
    graph.output(tuple(item.node for item in found) if isinstance(found, tuple) else found.node)
    return fx.GraphModule(torch.nn.Module(), graph)


def program(operator_, bodies, arrange, inputs, results):
    """A graph that calls the operator on subgraphs and placeholders and returns its results."""
    graph, root = fx.Graph(), torch.nn.Module()
    nodes = [graph.placeholder(f"in{i}") for i in range(inputs)]
    attributes = []
    for number, module in enumerate(bodies):
        root.register_module(f"body{number}", module)
        attributes.append(graph.get_attr(f"body{number}"))
    call = graph.call_function(operator_, arrange(nodes, attributes))
    graph.output(tuple(graph.call_function(operator.getitem, (call, index)) for index in range(results)))
    return fx.GraphModule(root, graph)


def compiled_with(gm, inputs):
    """The compiled graph, and the targets of the graphs that compilers were given."""
    targets = []

    def compiler(module, example_inputs):
        targets.append([node.target for node in module.graph.nodes if node.op == "call_function"])
        return module

    return aot_backend(compiler)(gm, inputs), targets


@pytest.mark.parametrize("scale", [-1.0, 1.0])
def test_cond_and_its_gradient(scale):
    gm = program(
        HIGHER.cond,
        [body(lambda x, y: (x.sin() * y,), 2), body(lambda x, y: (x * 3,), 2)],
        lambda nodes, graphs: (nodes[0], *graphs, (nodes[1], nodes[2])),
        3,
        1,
    )
    predicate = torch.tensor(scale > 0)
    grads = []
    run, targets = compiled_with(gm, [predicate, torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)])
    for call in (run, None):
        x, y = torch.arange(3.0).requires_grad_(), torch.full((3,), 2.0).requires_grad_()
        if call is not None:
            out = call(predicate, x, y)[0]
        else:
            out = x.sin() * y if scale > 0 else x * 3
        out.square().sum().backward()
        grads.append((out.detach(), x.grad, y.grad if y.grad is not None else torch.zeros(3)))
    torch.testing.assert_close(grads[0], grads[1])
    assert sum(HIGHER.cond in row for row in targets) == 2, "the forward and the backward each hold one cond"


def test_cond_without_gradients():
    gm = program(
        HIGHER.cond,
        [body(lambda x: (x + 1, x.sum()), 1), body(lambda x: (x - 1, x.mean()), 1)],
        lambda nodes, graphs: (nodes[0], *graphs, (nodes[1],)),
        2,
        2,
    )
    run, targets = compiled_with(gm, [torch.tensor(True), torch.ones(4)])
    x = torch.arange(4.0)
    torch.testing.assert_close(run(torch.tensor(True), x), (x + 1, x.sum()))
    torch.testing.assert_close(run(torch.tensor(False), x), (x - 1, x.mean()))
    assert HIGHER.cond in targets[0]


def test_while_loop():
    gm = program(
        HIGHER.while_loop,
        [body(lambda i, x: i < 5, 2), body(lambda i, x: (i + 1, x * 2), 2)],
        lambda nodes, graphs: (*graphs, (nodes[0], nodes[1]), ()),
        2,
        2,
    )
    run, targets = compiled_with(gm, [torch.tensor(0), torch.ones(2)])
    torch.testing.assert_close(run(torch.tensor(2), torch.ones(2)), (torch.tensor(5), torch.full((2,), 8.0)))
    assert HIGHER.while_loop in targets[0]


def test_scan_and_map_become_plain_operators():
    scan = program(
        HIGHER.scan,
        [body(lambda carry, row, k: (carry + row, carry * k), 3)],
        lambda nodes, graphs: (graphs[0], (nodes[0],), (nodes[1],), (nodes[2],)),
        3,
        2,
    )
    init, rows, k = torch.zeros(2), torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.tensor(2.0)
    run, targets = compiled_with(scan, [init, rows, k])
    carry, stacked = run(init, rows, k)
    torch.testing.assert_close(carry, rows.sum(0))
    torch.testing.assert_close(stacked, 2 * torch.stack([rows[:0].sum(0), rows[0], rows[0] + rows[1]]))
    (carry.sum() + stacked.sum()).backward()
    torch.testing.assert_close(rows.grad, torch.tensor([[5.0, 5], [3, 3], [1, 1]]))
    assert not any(HIGHER.scan in row for row in targets)
    mapped = program(
        HIGHER.map_impl,
        [body(lambda row, k: (row.cos() * k,), 2)],
        lambda nodes, graphs: (graphs[0], (nodes[0],), (nodes[1],)),
        2,
        1,
    )
    run, targets = compiled_with(mapped, [rows.detach(), k])
    torch.testing.assert_close(run(rows.detach(), k)[0], rows.detach().cos() * 2)
