"""`torch.nn.Module` under capture: parameters, buffers, containers, hooks, attributes, mutation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import triptych_dynamo
from harness import assert_same, check
from torch import nn

X = torch.arange(6.0).reshape(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0
        self.empty = None
        self.register_parameter("absent", None)
        self.options = {"alpha": 0.5, "names": ["a"]}

    def forward(self, x, *, extra=None):
        y = self.norm(self.lin(x)) * self.scale
        self.count += 1
        if self.absent is None and self.empty is None:
            y = y * self.options["alpha"]
        if extra is not None:
            y = y + extra
        return F.dropout(y, 0.5, self.training)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.log = []
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.calls = self.calls + 1
        self.log.append(self.calls)
        self.seen = self.seen + x.sum(0)
        return x * 2


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.by_name = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.GELU())
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.named = nn.ParameterDict({"w": nn.Parameter(torch.ones(3))})

    def forward(self, x):
        for layer in self.layers[:2]:
            x = layer(x)
        x = self.layers[-1](x)
        for name, module in self.by_name.items():
            x = module(x) if name != "relu" or "tanh" in self.by_name else x
        x = self.seq[0](x) + self.seq(x)
        for w in self.weights:
            x = x * w
        return x * self.named["w"] * self.weights[1], len(self.layers), len(self.seq), list(self.by_name.keys())


class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(3, 3)
        self.b = nn.Sequential(nn.Linear(3, 3))

    def forward(self, x):
        total = sum(p.sum() for p in self.parameters())
        names = [n for n, _ in self.named_parameters()]
        kinds = [type(m).__name__ for m in self.modules()]
        children = [n for n, _ in self.named_children()]
        return (
            x * total,
            names,
            kinds,
            children,
            dict(self.named_modules()).keys() >= {"a"},
            self.get_parameter("a.weight").shape,
        )


class Overriding(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def __getattr__(self, name):
        if name == "magic":
            return 42
        return super().__getattr__(name)

    def __call__(self, x):
        return super().__call__(x) + 1

    def forward(self, x):
        return self.inner(x) * self.magic


class Parent(nn.Module):
    def forward(self, x):
        return x + 1


class ChildModule(Parent):
    @property
    def factor(self):
        return 3

    def forward(self, x):
        return super().forward(x) * self.factor + self.helper(x)

    @staticmethod
    def helper(x):
        return x.mean()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def call(module, x):
    return module(x)


def call_method(module, x):
    return module.forward(x), module.training, module.__class__.__name__


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(
    "make", [Net, Counting, Containers, Walker, Overriding, ChildModule, Tied], ids=lambda c: c.__name__
)
def test_module(make, train):
    check(call, make().train(train), X)


STANDARD = [
    (lambda: nn.Linear(3, 2), X),
    (lambda: nn.Conv2d(3, 4, 3, padding=1), torch.randn(2, 3, 5, 5)),
    (lambda: nn.Conv1d(3, 4, 2), torch.randn(2, 3, 5)),
    (lambda: nn.ConvTranspose2d(3, 2, 2), torch.randn(1, 3, 4, 4)),
    (lambda: nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4)),
    (lambda: nn.LayerNorm(3), X),
    (lambda: nn.GroupNorm(1, 3), torch.randn(2, 3, 4)),
    (lambda: nn.InstanceNorm1d(3), torch.randn(2, 3, 4)),
    (lambda: nn.RMSNorm(3), X),
    (lambda: nn.Embedding(10, 3), torch.tensor([[1, 2]])),
    (lambda: nn.Dropout(0.5), X),
    (lambda: nn.MaxPool2d(2), torch.randn(1, 2, 4, 4)),
    (lambda: nn.AdaptiveAvgPool2d(1), torch.randn(1, 2, 4, 4)),
    (lambda: nn.MultiheadAttention(4, 2, batch_first=True), torch.randn(2, 3, 4)),
    (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.randn(2, 3, 4)),
    (lambda: nn.Softmax(-1), X),
    (lambda: nn.Flatten(), torch.randn(2, 3, 4)),
    (lambda: nn.PReLU(), X),
    (lambda: nn.Upsample(scale_factor=2), torch.randn(1, 2, 3, 3)),
    (lambda: nn.ZeroPad2d(1), torch.randn(1, 2, 3, 3)),
    (lambda: nn.Bilinear(3, 3, 2), X),
    (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), X),
]


@pytest.mark.parametrize(("make", "x"), STANDARD, ids=lambda item: "")
def test_standard_module(make, x):
    torch.manual_seed(0)
    module = make()

    def fn(module, x):
        if isinstance(module, nn.MultiheadAttention):
            return module(x, x, x)
        if isinstance(module, nn.Bilinear):
            return module(x, x)
        return module(x)

    check(fn, module, x)


def test_hooks_run_in_order():
    log = []

    def make():
        module = Net()
        module.lin.register_forward_pre_hook(lambda m, args: (log.append("pre"), (args[0] * 2,))[1])
        module.lin.register_forward_hook(lambda m, args, out: (log.append("post"), out + 1)[1])
        module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "extra": 1}), with_kwargs=True)
        return module.eval()

    expected = make()(X)
    eager_log, log[:] = list(log), []
    got = triptych_dynamo.optimize("eager", fullgraph=True)(call)(make(), X)
    assert_same(got, expected)
    assert log == eager_log == ["pre", "post"]


def test_hook_added_later_is_seen():
    module = nn.Linear(3, 3)
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(call)
    assert_same(compiled(module, X), module(X))
    handle = module.register_forward_hook(lambda m, args, out: out * 3)
    assert_same(compiled(module, X), module(X))
    handle.remove()
    assert_same(compiled(module, X), module(X))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.eval(),
        lambda m: setattr(m, "empty", 1),
        lambda m: m.options.update(alpha=2.0),
        lambda m: setattr(m.lin, "weight", nn.Parameter(torch.zeros(4, 3))),
        lambda m: setattr(m, "lin", nn.Linear(3, 4)),
        lambda m: setattr(m, "norm", nn.Identity()),
        lambda m: setattr(m.norm, "eps", 1.0),
        lambda m: setattr(m, "forward", lambda x: x * 0),
        lambda m: setattr(m.lin, "forward", lambda x: F.pad(x, (0, 1))),
        lambda m: m.double(),
        lambda m: m.requires_grad_(False),
        lambda m: delattr(m, "scale") or setattr(m, "scale", 2.0),
    ],
    ids=range(12),
)
def test_change_of_the_module_is_seen(change):
    torch.manual_seed(0)
    module = Net().eval()
    twin = copy.deepcopy(module)
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(call)
    assert_same(compiled(module, X), twin(X))
    change(module)
    twin = copy.deepcopy(module)
    x = X.to(next(module.parameters()).dtype)
    assert_same(compiled(module, x), twin(x))


def test_buffers_and_attributes_follow():
    module, twin = Net(), Net()
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(call)
    for _ in range(3):
        torch.manual_seed(1)
        got = compiled(module, X)
        torch.manual_seed(1)
        assert_same(got, twin(X))
    assert_same(dict(module.named_buffers()), dict(twin.named_buffers()))
    assert module.count is not twin.count


def test_gradients_and_training():
    module, twin = Net(), Net()
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(call)
    for net, run in ((module, compiled), (twin, call)):
        torch.manual_seed(0)
        run(net, X).sum().backward()
    for (name, got), (_, expected) in zip(module.named_parameters(), twin.named_parameters()):
        torch.testing.assert_close(got.grad, expected.grad, msg=name)


def test_one_module_by_two_paths():
    shared = nn.Linear(3, 3)

    def fn(pair, x):
        return pair[0](pair[1](x)), pair[0] is pair[1]

    check(fn, [shared, shared], X)


def test_graph_inputs_are_parameters():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    triptych_dynamo.optimize(backend, fullgraph=True)(call)(Tied(), X)
    placeholders = [node for node in graphs[0].graph.nodes if node.op == "placeholder"]
    assert len(placeholders) == 2, "the tied weight is one input"


def test_data_that_stays_the_same_is_no_change():
    layer = torch.nn.Linear(3, 3)

    def program(x):
        layer.to(torch.float32)  # gives `.data` of each parameter what it is
        layer.bias.data = layer.bias.detach()
        return layer(x)

    assert not triptych_dynamo.explain(program)(torch.ones(2, 3)).breaks

    def reshaped(x):
        y = x + 1
        y.data = y.view(3, 2)
        return y

    assert len(triptych_dynamo.explain(reshaped)(torch.ones(2, 3)).breaks) == 1
    compiled = triptych_dynamo.optimize("eager")(reshaped)
    torch.testing.assert_close(compiled(torch.ones(2, 3)), reshaped(torch.ones(2, 3)))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(3, 3)

    def forward(self, x, **options):
        x = self.lin(x)
        if x.sum() < options["least"]:
            x = x + 1
        return x * 2


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Branching()

    def forward(self, x, **options):
        return self.inner(x, **options) + 1


@pytest.mark.parametrize("least", [-1000.0, 1000.0])
def test_a_break_in_a_submodule_is_one_break(least):
    """The graph ends inside the submodule, not before the call of it as well."""
    model = Outer()
    explained = triptych_dynamo.explain(model)(X, least=least)
    assert (len(explained.graphs), len(explained.breaks)) == (2, 1)
    assert_same(triptych_dynamo.optimize("eager")(model)(X, least=least), model(X, least=least))
