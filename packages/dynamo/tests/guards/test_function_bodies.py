"""What the bodies of an `autograd.Function` read is guarded: a change gives one recompile and the right numbers."""

import pytest
import torch
import triptych_dynamo as td

SCALE, ON, TENSOR, CONFIG = 2.0, True, torch.full((2,), 3.0), {"k": 5.0}


def outside(x):
    return x * SCALE


class Reading(torch.autograd.Function):
    bias = 1.0

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        y = outside(x) if ON else x
        return y + TENSOR * CONFIG["k"] + Reading.bias

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * SCALE * 10 * (x * 0 + 1) * ctx.n, None


class ByName(torch.autograd.Function):
    """A body that no trace goes through."""

    @staticmethod
    def forward(ctx, x, n):
        td.graph_break()
        return outside(x) * n

    @staticmethod
    def backward(ctx, grad):
        return grad * SCALE, None


class NewStyle(torch.autograd.Function):
    @staticmethod
    def forward(x, n):
        return x * n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.n * SCALE, None


FUNCTIONS = {cls.__name__: (lambda cls: lambda x: cls.apply(x, 3).sin())(cls) for cls in (Reading, ByName, NewStyle)}


def eager(fn):
    x = torch.ones(2, requires_grad=True)
    out = fn(x)
    out.sum().backward()
    return out, x.grad


def snapshot_backend(gm, inputs):
    """A backend that builds in whatever bodies read while it compiles: it keeps the result that it sees first."""
    known = []

    def run(*args):
        if not known:
            known.append(gm(*args))
        return known[0]

    return run


def changes():
    yield "SCALE", lambda: globals().update(SCALE=4.0)
    yield "ON", lambda: globals().update(ON=False)
    yield "TENSOR", lambda: globals().update(TENSOR=torch.full((2,), 7.0))
    yield "CONFIG", lambda: CONFIG.update(k=6.0)
    yield "outside", lambda: globals().update(outside=lambda x: x * 100)
    yield "bias", lambda: setattr(Reading, "bias", 2.0)
    yield "backward", lambda: setattr(Reading, "backward", staticmethod(lambda ctx, g: (g * 0, None)))


@pytest.fixture
def restored():
    saved, config = {name: globals()[name] for name in ("SCALE", "ON", "TENSOR", "outside")}, dict(CONFIG)
    backward = vars(Reading)["backward"]
    yield
    globals().update(saved)
    CONFIG.update(config)
    Reading.bias, Reading.backward = 1.0, backward


@pytest.mark.parametrize("change", [change for _, change in changes()], ids=[name for name, _ in changes()])
def test_a_change_of_what_is_read(restored, change):
    compiled = td.optimize("eager")(FUNCTIONS["Reading"])
    stale = td.optimize(snapshot_backend)(FUNCTIONS["Reading"])
    for _ in range(2):
        assert all(map(torch.equal, eager(compiled), eager(FUNCTIONS["Reading"])))
    assert len(td.region_of(compiled).records) == 1
    x = torch.ones(2)
    stale(x)
    change()
    assert all(map(torch.equal, eager(compiled), eager(FUNCTIONS["Reading"])))
    assert len(td.region_of(compiled).records) == 2
    assert torch.equal(stale(x), FUNCTIONS["Reading"](x))


@pytest.mark.parametrize("name", ["ByName", "NewStyle"])
def test_other_forms_of_bodies(restored, name):
    compiled = td.optimize("eager")(FUNCTIONS[name])
    for value in (2.0, 2.0, 5.0):
        globals()["SCALE"] = value
        assert all(map(torch.equal, eager(compiled), eager(FUNCTIONS[name])))
    assert len([r for r in td.region_of(compiled).records if r.graph is not None]) >= 2


def test_a_closure_of_the_body():
    def make(factor):
        class Closed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * factor

        return Closed

    compiled = td.optimize(snapshot_backend)(lambda cls, x: cls.apply(x))
    assert [compiled(make(factor), torch.ones(1)).item() for factor in (2.0, 3.0, 2.0)] == [2.0, 3.0, 2.0]


def test_symbolic_numbers_that_a_body_reads_are_fixed(restored):
    """A scale that changed is an input of the graph, but the body's own reading of it still tells versions apart."""
    compiled = td.optimize("eager")(lambda x: Reading.apply(x * SCALE, 1) * SCALE)
    for value in (2.0, 3.0, 4.0, 5.0):
        globals()["SCALE"] = value
        assert compiled(torch.ones(1, 2)).tolist() == [[value * (value * value + 16.0)] * 2]
    assert len(td.region_of(compiled).records) == 4


def test_changes_that_a_body_makes_happen_at_each_call():
    calls = []

    class Logged(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    compiled = td.optimize("eager")(lambda x: Logged.apply(x) + 1)
    for _ in range(3):
        assert compiled(torch.ones(1)).item() == 3.0
    assert calls == ["forward"] * 3
