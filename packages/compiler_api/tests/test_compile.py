"""`triptych.compile` with the backend "eager": what comes back, for each kind of callable and each argument."""

import copy
import functools
import inspect

import pytest
import torch
import triptych
import triptych_dynamo
from torch import nn
from triptych import errors, modules


def shift(x, by=1):
    """Adds."""
    return x + by


class Scaler:
    """A callable object with a method."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def scale(self, x):
        return x * self.factor + 1


@pytest.fixture(autouse=True)
def _no_switch(monkeypatch):
    for name in ("TRIPTYCH_DISABLE", "TORCH_COMPILE_DISABLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: shift,
        lambda: lambda x: x.sin() * 2,
        lambda: Scaler(3).scale,
        lambda: Scaler(3),
        lambda: torch.sin,
        lambda: functools.partial(shift, by=5),
        lambda: nn.Linear(4, 4),
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
    ],
    ids=["function", "lambda", "method", "object", "builtin", "partial", "module", "sequential"],
)
def test_every_kind_of_callable(make):
    fn, x = make(), torch.randn(3, 4)
    compiled = triptych.compile(fn, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), fn(x))
    assert len(triptych.report(compiled).graphs) == 1


def test_decorator_with_and_without_parentheses():
    @triptych.compile
    def plain(x):
        return x + 1

    @triptych.compile(backend="eager", fullgraph=True)
    def given(x):
        return x + 1

    assert plain.__name__ == "plain" and given.__name__ == "given"
    torch.testing.assert_close(given(torch.ones(2)), torch.full((2,), 2.0))


def test_decorated_method_binds():
    class Thing:
        def __init__(self):
            self.offset = 2

        @triptych.compile(backend="eager")
        def add(self, x):
            return x + self.offset

    torch.testing.assert_close(Thing().add(torch.ones(2)), torch.full((2,), 3.0))


def test_classes_compile_the_calls_of_their_instances():
    counts = []

    def backend(gm, inputs):
        counts.append(gm)
        return gm.forward

    @triptych.compile(backend=backend)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).relu()

    @triptych.compile(backend=backend, fullgraph=True)
    class Times:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    x, first, second = torch.ones(2, 3), Net(), Net()
    for net in (first, second, copy.deepcopy(first)):
        assert type(net) is Net and torch.equal(net(x), net.forward(x))
    assert len(counts) == 1 and list(first.state_dict()) == ["linear.weight", "linear.bias"]
    assert torch.equal(Times(3.0)(x), x * 3)
    counts.clear()
    outer = triptych.compile(lambda x: Times(2.0)(second(first(x))), backend=backend, fullgraph=True)
    assert torch.equal(outer(x), second.forward(first.forward(x)) * 2) and len(counts) == 1


def test_disabled_classes_are_made_and_called_eagerly():
    @triptych.compiler.disable
    class Eager(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x * self.factor + triptych.compiler.is_compiling()

    net, x = Eager(2), torch.ones(2)
    assert type(net) is Eager and isinstance(Eager, type) and net(x).tolist() == [2, 2]
    compiled = triptych.compile(lambda x: net(x + 1).sin(), backend="eager")
    torch.testing.assert_close(compiled(x), net(x + 1).sin())
    assert len(triptych.report(compiled).graphs) == 2
    with pytest.raises(triptych_dynamo.GraphBreakError, match="disabled"):
        triptych.compile(lambda x: net(x + 1), backend="eager", fullgraph=True)(x)
    assert triptych.compiler.disable(nn.Linear)(2, 2)(x).shape == (2,) and type(nn.Linear.__init__) is type(shift)
    made = triptych.compile(lambda x: Eager(3)(x), backend="eager")
    assert made(x).tolist() == [3, 3]


def test_kinds_of_methods_stay_what_they_are():
    class Holder:
        @triptych.compile(backend="eager")
        @staticmethod
        def plain(x):
            return x + 2

        @triptych.compile(backend="eager")
        @classmethod
        def named(cls, x):
            return x + len(cls.__name__)

        @triptych.compile(backend="eager")
        def own(self, x):
            return x + 1

    x = torch.ones(2)
    for holder in (Holder, Holder()):
        assert holder.plain(x).tolist() == [3, 3] and holder.named(x).tolist() == [7, 7]
    inside = triptych.compile(
        lambda holder, x: holder.own(holder.plain(holder.named(x))), backend="eager", fullgraph=True
    )
    assert inside(Holder(), x).tolist() == [10, 10] and len(triptych.report(inside).graphs) == 1


def test_signature_and_documentation_are_kept():
    compiled = triptych.compile(shift, backend="eager")
    assert inspect.signature(compiled) == inspect.signature(shift)
    assert compiled.__doc__ == "Adds." and compiled.__wrapped__ is shift


def test_module_trains_like_the_original():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    plain = copy.deepcopy(model)
    compiled = triptych.compile(model, backend="eager", fullgraph=True)
    assert isinstance(compiled, nn.Sequential) and len(compiled) == 4
    x = torch.randn(5, 4)
    for net in (compiled, plain):
        net(x).sum().backward()
    for (name, a), (_, b) in zip(compiled.named_parameters(), plain.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    torch.testing.assert_close(model[1].running_mean, plain[1].running_mean)
    compiled.eval(), plain.eval()
    torch.testing.assert_close(compiled(x), plain(x))


def test_hooks_of_a_compiled_module_run():
    model, seen = nn.Linear(2, 2), []
    compiled = triptych.compile(model, backend="eager")
    compiled.register_forward_hook(lambda module, args, output: output + 1)
    x = torch.ones(1, 2)
    torch.testing.assert_close(compiled(x), nn.functional.linear(x, model.weight, model.bias) + 1)
    assert seen == []


def test_compiling_twice_starts_from_the_original():
    model = nn.Linear(2, 2)
    once = triptych.compile(model, backend="eager")
    again = triptych.compile(once, backend="eager", fullgraph=True)
    assert modules.original_of(again) is model
    torch.testing.assert_close(again(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_two_compiled_forms_of_one_function_are_separate():
    one, two = (triptych.compile(shift, backend="eager") for _ in range(2))
    one(torch.ones(2))
    assert len(triptych.report(one).graphs) == 1 and len(triptych.report(two).graphs) == 0


def test_disable_gives_the_original_back(monkeypatch):
    assert triptych.compile(shift, disable=True) is shift
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert triptych.compile(shift) is shift


def test_custom_backend_gets_graph_inputs_and_keywords():
    seen = []

    def backend(gm, example_inputs, **kwargs):
        seen.append((type(gm), len(example_inputs), kwargs))
        return gm.forward

    x = torch.randn(3)
    torch.testing.assert_close(triptych.compile(shift, backend=backend)(x), x + 1)
    triptych.compile(shift, backend=backend, options={"a": 1})(x)
    triptych.compile(shift, backend=backend, mode="max-autotune")(x)
    assert [kwargs for _, _, kwargs in seen] == [{}, {"options": {"a": 1}}, {"mode": "max-autotune"}]
    assert all(issubclass(kind, torch.fx.GraphModule) and count == 1 for kind, count, _ in seen)


def test_default_backend():
    assert triptych.compiler.get_default_backend() == "inductor"
    triptych.compiler.set_default_backend("eager")
    try:
        compiled = triptych.compile(shift)
        compiled(torch.ones(2))
        assert triptych.report(compiled).stages == []
    finally:
        triptych.compiler.set_default_backend(None)
    assert triptych.compiler.get_default_backend() == "inductor"
    with pytest.raises(errors.InvalidBackendError):
        triptych.compiler.set_default_backend("zzz")


def test_names():
    compiled = triptych.compile(shift, backend="eager", name="my region")
    assert triptych.report(compiled).name == "my region"
    assert triptych.report(triptych.compile(shift, backend="eager")).name == "shift"


def test_list_backends():
    assert "inductor" in triptych.compiler.list_backends()
    assert "eager" not in triptych.compiler.list_backends()
    assert triptych.compiler.list_backends("debug") == triptych.compiler.list_backends(("debug",))
    assert {"inductor", "eager", "aot_eager", "triptych"} <= set(triptych.compiler.list_backends(()))


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"backend": "indcutor"}, errors.InvalidBackendError, "unknown backend 'indcutor': did you mean 'inductor'"),
        ({"backend": 3}, errors.InvalidBackendError, "a backend is a name or a callable"),
        ({"mode": "max-autotun"}, errors.InvalidModeError, "unknown mode 'max-autotun': did you mean 'max-autotune'"),
        ({"options": {"zzzzz": 1}}, errors.InvalidOptionError, "unknown option 'zzzzz': known: "),
        ({"backend": "eager", "mode": "max-autotune"}, errors.InvalidModeError, "generates no code"),
        ({"backend": "aot_eager", "options": {"a": 1}}, errors.InvalidOptionError, "generates no code"),
    ],
)
def test_bad_arguments_are_told_at_once(given, error, text):
    with pytest.raises(error, match=text):
        triptych.compile(shift, **given)


@pytest.mark.parametrize("thing", [5, "text", nn.Linear, object()])
def test_not_callable(thing):
    with pytest.raises(TypeError, match=r"triptych\.compile takes a function"):
        triptych.compile(thing)


def test_unsupported_python(monkeypatch):
    monkeypatch.setattr("triptych.support.sys.version_info", (3, 99, 0))
    with pytest.raises(RuntimeError, match=r"triptych\.compile is not supported on Python 3\.99"):
        triptych.compile(shift)


def test_users_exception_is_the_users():
    def wrong(x):
        x.add_(1)
        raise KeyError("mine")

    def shapes(x):
        return x @ torch.ones(7, 7)

    with pytest.raises(KeyError, match="mine") as caught:
        triptych.compile(wrong, backend="eager")(torch.ones(2))
    assert "wrong" in [frame.name for frame in caught.traceback]
    with pytest.raises(RuntimeError) as compiled_error:
        triptych.compile(shapes, backend="eager")(torch.ones(2, 2))
    with pytest.raises(RuntimeError) as eager_error:
        shapes(torch.ones(2, 2))
    assert str(compiled_error.value) == str(eager_error.value)


def test_is_compiling():
    def which(x):
        return x + 1 if triptych.compiler.is_compiling() else x - 1

    x = torch.zeros(2)
    torch.testing.assert_close(triptych.compile(which, backend="eager", fullgraph=True)(x), x + 1)
    torch.testing.assert_close(which(x), x - 1)


def test_explain():
    def broken(x):
        x = x + 1
        triptych.compiler.graph_break("hello")
        return x * 2

    text = str(triptych.explain(broken)(torch.ones(2)))
    assert "test_compile.py" in text
