"""`triptych.compile` through the whole stack: one test for each thing that users of `torch.compile` rely on."""

import copy
import pickle
import warnings

import pytest
import torch
import triptych
import triptych_dynamo
import triptych_inductor
from torch import nn


def sizes_and_graphs(sizes, fn=lambda x: (x * 2).sum(-1) + x.shape[0], **settings):
    compiled = triptych.compile(fn, **settings)
    for n in sizes:
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), fn(x))
    return len(triptych.report(compiled).graphs)


# -- sizes and versions ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "sizes", "graphs"),
    [
        ({}, (4, 4, 4), 1),
        ({}, (4, 5, 6, 7), 2),
        ({"dynamic": True}, (4, 5, 6), 1),
        ({"dynamic": False, "recompile_limit": 4, "on_recompile_limit": "eager"}, range(2, 9), 4),
    ],
    ids=["equal", "automatic", "dynamic", "static"],
)
def test_sizes(settings, sizes, graphs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert sizes_and_graphs(sizes, **settings) == graphs


@pytest.mark.parametrize("name", ["shapes_spec", "dynamic_shapes"])
def test_declared_sizes_cost_one_compile(name):
    def fn(x, y):
        return x.sum(0) + y.sum(0)

    batch = triptych_dynamo.Dim("batch")
    compiled = triptych.compile(fn, **{name: {"x": [batch, None], "y": [batch, None]}})
    for n in (4, 5, 9):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert len(triptych.report(compiled).graphs) == 1


def test_the_limit_is_announced_and_is_an_error_when_asked_for():
    with pytest.raises(RuntimeError, match="limit"):
        sizes_and_graphs(range(2, 9), dynamic=False, recompile_limit=3, on_recompile_limit="error")
    with pytest.raises(RuntimeError, match="fullgraph"):
        sizes_and_graphs(range(2, 9), dynamic=False, recompile_limit=3, fullgraph=True, on_recompile_limit="eager")


@pytest.mark.parametrize("isolate", [True, False])
def test_compiled_forms_of_one_function_share_nothing(isolate):
    def fn(x):
        return x + 1

    one, two = (triptych.compile(fn, isolate_recompiles=isolate, dynamic=False) for _ in range(2))
    for n in (2, 3, 4):
        one(torch.ones(n))
    two(torch.ones(2))
    assert [len(triptych.report(c).graphs) for c in (one, two)] == [3, 1]


# -- nesting -----------------------------------------------------------------------------------------------------------
def test_nested_compile_gives_one_graph():
    inner = triptych.compile(lambda x: x.sin() * 2)
    layer = triptych.compile(nn.Linear(3, 3))
    outer = triptych.compile(lambda x: layer(inner(x)) + 1, fullgraph=True)
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(outer(x), nn.functional.linear(x.sin() * 2, layer.weight, layer.bias) + 1)
    assert [len(triptych.report(c).graphs) for c in (outer, inner, layer)] == [1, 0, 0]


def test_a_module_with_compiled_parts():
    plain = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    mixed = nn.Sequential(plain[0], triptych.compile(plain[1]), triptych.compile(plain[2]))
    x = torch.randn(4, 3)
    for module in (mixed, triptych.compile(mixed, fullgraph=True)):
        torch.testing.assert_close(module(x), plain(x))


def test_in_place_by_torchs_own_method():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    keys, seen = list(model.state_dict()), []
    model.register_forward_hook(lambda module, args, output: seen.append(1))
    plain = copy.deepcopy(model)
    model.compile(backend="triptych")
    x = torch.randn(2, 3)
    torch.testing.assert_close(model(x), plain(x))
    assert list(model.state_dict()) == keys and seen.count(1) == 2


# -- modes and options -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"])
def test_every_mode_compiles_and_trains(mode):
    def fn(x, w):
        return torch.softmax(x @ w, -1).square().sum()

    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    compiled = triptych.compile(fn, mode=mode)
    compiled(x, w).backward()
    torch.testing.assert_close(w.grad, torch.autograd.grad(fn(x, w), w)[0])


@pytest.mark.parametrize("freezing", [False, True])
def test_use_aoti_runs_what_the_packages_hold(freezing, monkeypatch):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval(), torch.randn(3, 4)
    loaded, load = [], triptych_inductor.CompiledGraph.from_bytes
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "0")
    monkeypatch.setattr(
        triptych_inductor.CompiledGraph,
        "from_bytes",
        staticmethod(lambda data: loaded.append(load(data)) or loaded[-1]),
    )
    compiled = triptych.compile(model, options={"use_aoti": True, "freezing": freezing})
    with torch.set_grad_enabled(not freezing):
        y = compiled(x)
        torch.testing.assert_close(y, model(x))
    if not freezing:
        torch.testing.assert_close(
            *[torch.autograd.grad(value.square().sum(), list(model.parameters())) for value in (y, model(x))]
        )
    assert [
        sum(stage.files[0][1] == graph.source for stage in triptych.report(compiled).stages) for graph in loaded
    ] == [1 for _ in range(1 if freezing else 2)]
    if freezing:
        assert dict(triptych.report(compiled).stages[0].frozen)["constants"] == 4


def test_options_with_dashes():
    compiled = triptych.compile(lambda x: x.sin() + 1, options={"max-fusion-nodes": 1})
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x.sin() + 1)


# -- what eager does ---------------------------------------------------------------------------------------------------
def raises_in_a_helper(x):
    def helper(y):
        raise KeyError("mine")

    return helper(x + 1)


def shape_error(x):
    return (x + 1) @ torch.ones(7, 7)


def index_error(x):
    return x.sin()[torch.tensor([99])]


def after_a_write(x):
    x.add_(1)
    raise ValueError("after")


@pytest.mark.parametrize("fn", [raises_in_a_helper, shape_error, index_error, after_a_write], ids=lambda f: f.__name__)
def test_exceptions_are_eagers(fn):
    found = []
    for call in (fn, triptych.compile(fn)):
        x = torch.ones(2, 2)
        with pytest.raises(Exception) as caught:
            call(x)
        found.append((type(caught.value), str(caught.value), x))
        assert fn.__name__ in [entry.name for entry in caught.traceback]
    assert found[0][0] is found[1][0]
    if fn is not index_error:  # the kernel does not know which dimension it was
        assert found[0][1] == found[1][1]
    torch.testing.assert_close(found[0][2], found[1][2])


def test_random_numbers_and_the_generators_state():
    def fn(x):
        noise = torch.rand_like(x) + torch.randn(3)
        return nn.functional.dropout(x, 0.4) * noise, torch.randint(0, 9, (2,))

    results = []
    for call in (fn, triptych.compile(fn)):
        torch.manual_seed(7)
        results.append((call(torch.ones(2, 3)), torch.get_rng_state()))
    torch.testing.assert_close(results[0], results[1])


def layouts(x):
    return x.t(), x[:, ::2], (x * 2).t(), x.expand(2, *x.shape), (x.t() + 1), torch.empty_like(x.t()).copy_(x.t())


def aliases(x):
    y = x * 2
    return y, y[0], x, x.view(-1), y.detach()


@pytest.mark.parametrize("fn", [layouts, aliases])
@pytest.mark.parametrize("grad", [False, True])
def test_strides_aliases_and_gradients(fn, grad):
    facts = []
    for call in (fn, triptych.compile(fn)):
        x = torch.arange(12.0).reshape(3, 4).requires_grad_(grad)
        outputs = call(x)
        storages = [o.untyped_storage().data_ptr() for o in (x, *outputs)]
        facts.append(
            [(o.stride(), o.storage_offset(), o.requires_grad, o.is_leaf) for o in outputs]
            + [[storages.index(s) for s in storages]]
        )
    assert facts[0] == facts[1]


def test_hooks_run_in_order_and_once():
    def build():
        torch.manual_seed(0)
        model, seen = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), []
        model[0].register_forward_pre_hook(lambda m, args: seen.append("before") or (args[0] * 2,))
        model[0].register_forward_hook(lambda m, args, output: seen.append("after") or output + 1)
        model[0].weight.register_hook(lambda grad: seen.append("gradient") or grad * 3)
        return model, seen

    x, results = torch.randn(2, 3), []
    for make in (lambda model: model, triptych.compile):
        model, seen = build()
        make(model)(x).sum().backward()
        results.append((seen, model[0].weight.grad))
    assert results[0][0] == results[1][0]
    torch.testing.assert_close(results[0][1], results[1][1])


def test_warnings_of_the_program_are_given():
    def fn(x):
        warnings.warn("look here", stacklevel=1)
        return x + 1

    compiled = triptych.compile(fn)
    for _ in range(2):
        with pytest.warns(UserWarning, match="look here"):
            compiled(torch.ones(2))


# -- training ----------------------------------------------------------------------------------------------------------
OPTIMIZERS = {
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda ps: torch.optim.AdamW(ps, lr=torch.tensor(0.01)),
    "Adam": lambda ps: torch.optim.Adam(ps, lr=0.01, foreach=False),
}


def parameters_after_training(make_step, name, steps=5):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
    optimizer = OPTIMIZERS[name](model.parameters())
    step, x = make_step(model, optimizer), torch.randn(6, 4)
    losses = [step(x).detach() for _ in range(steps)]
    return torch.stack(losses), {name: p.detach() for name, p in model.named_parameters()}


def plain_step(model, optimizer):
    def step(x):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def compiled_optimizer(model, optimizer):
    optimizer.step = triptych.compile(optimizer.step)
    return plain_step(model, optimizer)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "make_step",
    [
        lambda m, o: plain_step(triptych.compile(m), o),
        compiled_optimizer,
        lambda m, o: triptych.compile(plain_step(m, o)),
    ],
    ids=["model", "optimizer", "whole step"],
)
def test_training_gives_eagers_parameters(make_step, name):
    torch.testing.assert_close(
        parameters_after_training(make_step, name), parameters_after_training(plain_step, name), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("inside", [True, False])
def test_autocast(inside):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))

    def run(call):
        if inside:
            return call(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return call(x)

    def forward(x):
        if not inside:
            return model(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    x = torch.randn(4, 8)
    compiled, eager = run(triptych.compile(forward, fullgraph=True)), run(forward)
    assert compiled.dtype == eager.dtype
    torch.testing.assert_close(compiled, eager, rtol=2e-2, atol=2e-2)


def test_grad_scaler():
    def train(call, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        for _ in range(3):
            scaler.scale(call(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    x, model = torch.randn(4, 3), nn.Linear(3, 3)
    plain = copy.deepcopy(model)
    torch.testing.assert_close(train(triptych.compile(model), model), train(plain, plain))


# -- objects -----------------------------------------------------------------------------------------------------------
class Saved(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.mark.parametrize("move", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_compiled_modules_are_copied_and_pickled(move, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, Saved.__module__, __import__("sys").modules.get(__name__))
    model = Saved()
    compiled = triptych.compile(model, fullgraph=True)
    x = torch.randn(2, 3)
    compiled(x)
    moved = move(compiled)
    torch.testing.assert_close(moved(x), model(x))
    assert len(triptych.report(moved).graphs) == 1
    assert list(moved.state_dict()) == ["linear.weight", "linear.bias"]
    assert all(a is not b for a, b in zip(moved.parameters(), model.parameters(), strict=True))


def test_state_goes_round():
    source, target = triptych.compile(Saved()), triptych.compile(Saved())
    target.load_state_dict(source.state_dict())
    x = torch.randn(2, 3)
    torch.testing.assert_close(source(x), target(x))
    target.eval()
    assert not target.linear.training


def test_kinds_of_methods():
    class Thing:
        scale = 3

        @staticmethod
        @triptych.compile
        def static(x):
            return x + 1

        @classmethod
        @triptych.compile
        def of_class(cls, x):
            return x * cls.scale

        @property
        @triptych.compile
        def given(self):
            return torch.ones(1) * self.scale

        @triptych.compile(fullgraph=True)
        def __call__(self, x, *more, by=2, **named):
            return x * by + sum(more) + sum(named.values())

    x = torch.ones(2)
    thing = Thing()
    torch.testing.assert_close(thing.static(x), x + 1)
    torch.testing.assert_close(Thing.of_class(x), x * 3)
    torch.testing.assert_close(thing.given, torch.full((1,), 3.0))
    torch.testing.assert_close(thing(x, 1, 2, by=3, z=4), x * 3 + 7)
