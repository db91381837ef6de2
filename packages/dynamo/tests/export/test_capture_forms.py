"""Forms of captured graphs: weights as attributes, declared dimensions, strictness, lines, graphs captured again."""

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo.guards.filters import skip_all_guards_unsafe

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)) * self.scale


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.blocks[1].linear.weight = self.blocks[0].linear.weight
        self.head = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x @ self.head


def test_weights_as_attributes():
    model = Tied()
    graph = td.capture(model, parameters="attributes")(X)
    module = graph.graph_module
    assert graph.inputs == {"args_0": "L['args'][0]"}
    (result,) = module(X)
    assert torch.equal(result, model(X))
    names = dict(module.named_parameters())
    assert names["blocks.0.linear.weight"] is model.blocks[0].linear.weight
    assert set(names) | set(dict(module.named_buffers())) == set(graph.attributes.values())
    assert torch.equal(graph(X), model(X))
    result.sum().backward()
    assert model.head.grad is not None


def test_attributes_of_two_modules():
    first, second = Block(), Block()
    graph = td.capture(lambda a, b, x: b(a(x)), parameters="attributes")(first, second, X)
    (result,) = graph.graph_module(X)
    assert torch.equal(result, second(first(X)))
    assert {"linear.weight", "module1.linear.weight"} <= set(graph.attributes.values())


def test_input_values_are_what_the_graph_takes():
    model = Tied()
    graph = td.capture(model)(X)
    (result,) = graph.graph_module(*graph.input_values(X))
    assert torch.equal(result, model(X)) and len(graph.inputs) == len(graph.sources)


def test_lines():
    graph = td.capture(Block())(X)
    line = Block.forward.__code__.co_firstlineno + 1
    places = {graph.lines[node.name] for node in graph.graph_module.graph.nodes if node.op == "call_function"}
    assert f"{__file__}:{line}" in places


def test_declared_dimensions():
    graph = td.capture(lambda x, items: x * 2 + items[0].sum(), dynamic_dims={"x": [0], "L['items'][0]": [1]})(
        X, [torch.ones(2, 5)]
    )
    for rows, columns in ((4, 5), (7, 2), (3, 9)):
        args = torch.ones(rows, 3), [torch.ones(2, columns)]
        assert torch.equal(graph(*args), args[0] * 2 + args[1][0].sum())
    with pytest.raises(td.GuardViolation, match="dimension 1"):
        graph(torch.ones(4, 4), [torch.ones(2, 5)])


def test_declared_dimensions_that_are_fixed():
    with pytest.raises(td.CaptureError, match=r"dimension 0 of L\['x'\] is 4"):
        td.capture(lambda x: x * (1 if x.shape[0] == 4 else 2), dynamic_dims={"x": [0]})(X)
    with pytest.raises(td.CaptureError, match="no tensor that the graph reads"):
        td.capture(lambda x: x + 1, dynamic_dims={"y": [0]})(X)


def test_strict_refuses_baked_tensors():
    def baked(x):
        return x + torch.tensor([1.0, 2.0, 3.0]).to(x.dtype) + HOLDER[0]()

    def clean(x):
        return x + torch.ones(3) + CONSTANT

    assert torch.equal(td.capture(clean, strict=True)(X)(X), clean(X))
    with pytest.raises(
        td.CaptureError, match=r"size \(3,\) would be baked into the graph \(used at .*test_capture_forms"
    ):
        td.capture(baked, strict=True)(X)


CONSTANT = torch.ones(3)
_HIDDEN = torch.ones(3)


@td.assume_constant_result
def hidden():
    return _HIDDEN


HOLDER = [hidden]


def test_guards_may_be_dropped():
    graph = td.capture(lambda x, n: x * n, guard_filter_fn=skip_all_guards_unsafe)(X, 2)
    assert graph.guards == [] and torch.equal(graph(X, 5), X * 2)


def attention(x, mask):
    q, k = x.chunk(2, dim=-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = q @ k.transpose(-1, -2)
    scores = scores.float().masked_fill(mask, float("-inf")).softmax(-1)
    with torch.no_grad():
        norm = scores.sum(-1, keepdim=True)
    return torch.nn.functional.dropout(scores / norm, 0.0, training=True), x.shape[0]


@pytest.mark.parametrize(
    "fn,args",
    [
        (attention, (torch.randn(2, 4, 6), torch.zeros(4, 4, dtype=torch.bool))),
        (Tied(), (X,)),
        (lambda x: (x.T, x[..., 1:], x.to(torch.float64), x.clone().add_(1), x.split(2)), (X,)),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_is_captured_again_unchanged(fn, args, dynamic):
    first = td.capture(fn, dynamic=dynamic)(*args)
    again = td.capture(first.graph_module, dynamic=dynamic)(*first.input_values(*args))
    assert shape_of(again) == shape_of(first)
    for one, two in zip(first.graph_module(*first.input_values(*args)), again(*first.input_values(*args)), strict=True):
        assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two


def shape_of(captured):
    """The graph without names: each node's operation, target and arguments by number."""
    numbers = {node: index for index, node in enumerate(captured.graph_module.graph.nodes)}
    return [
        (node.op, getattr(node.target, "__name__", node.target) if node.op != "placeholder" else "")
        + tuple(str(torch.fx.node.map_arg(part, numbers.__getitem__)) for part in (node.args, node.kwargs))
        for node in numbers
    ]
