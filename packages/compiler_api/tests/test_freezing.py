"""`triptych.compile(module, options={"freezing": True})`: what is frozen when, what a change does, what is reported."""

import copy
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
import triptych
import triptych_dynamo
from torch import nn
from triptych.compiler import config
from triptych.freezing import DiscardedError

FREEZING = {"freezing": True}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.fixture
def net():
    torch.manual_seed(3)
    made = Net()
    made(torch.randn(8, 3, 6, 6) * 2 + 1)  # statistics
    return made.eval()


@pytest.fixture
def x():
    return torch.randn(2, 3, 7, 6)


def stages(compiled):
    return triptych.report(compiled).stages


@torch.no_grad()
def test_no_batch_norm_is_left_and_values_are_eagers(net, x):
    compiled = triptych.compile(net, options=FREEZING)
    torch.testing.assert_close(compiled(x), net(x))
    (stage,) = stages(compiled)
    counts = dict(stage.frozen)
    assert counts["fold_affine"] == 1 and counts["constants"] == 8
    assert not any("batch_norm" in text for _, text in stage.files)
    assert "fold_affine 1" in str(triptych.report(compiled)) and not stage.not_frozen


@torch.no_grad()
def test_writing_a_weight_has_no_effect_and_replacing_it_has(net, x):
    compiled = triptych.compile(net, options=FREEZING)
    before = compiled(x)
    for tensor in [*net.parameters(), *net.buffers()]:
        tensor.zero_()
    torch.testing.assert_close(compiled(x), before)
    net.conv.weight = nn.Parameter(torch.randn_like(net.conv.weight))
    net.norm.running_var.fill_(1.0)
    torch.testing.assert_close(compiled(x), net(x))
    report = triptych.report(compiled)
    assert len(report.stages) == 2 and "weight'] is an object that is gone" in report.recompiles[0]


@torch.no_grad()
def test_other_modules_of_the_class_are_frozen_on_their_own(net, x):
    other = copy.deepcopy(net)
    other.head.weight.mul_(2)
    first, second = (triptych.compile(m, options=FREEZING) for m in (net, other))
    torch.testing.assert_close(first(x), net(x))
    torch.testing.assert_close(second(x), other(x))

    @triptych.compile(options=FREEZING)
    def apply(module, value):
        return module(value)

    for module in (net, other, net):
        torch.testing.assert_close(apply(module, x), module(x))
    assert len(stages(apply)) == 2


@torch.no_grad()
def test_training_mode_is_not_frozen(net, x):
    compiled, eager = triptych.compile(net, options=FREEZING), copy.deepcopy(net)
    compiled(x)
    net.train()
    eager.train()
    torch.testing.assert_close(compiled(x), eager(x))
    torch.testing.assert_close(net.norm.running_mean, eager.norm.running_mean)
    assert "training mode" in stages(compiled)[1].not_frozen and not stages(compiled)[1].frozen
    assert "training mode" in str(triptych.report(compiled))
    net.eval()
    compiled(x)
    assert len(stages(compiled)) == 2  # the frozen code again


def test_gradients_are_not_frozen(net, x):
    compiled, eager = triptych.compile(net, options=FREEZING), copy.deepcopy(net)
    compiled(x).sum().backward()
    eager(x).sum().backward()
    torch.testing.assert_close(net.conv.weight.grad, eager.conv.weight.grad)
    assert {"forward", "backward"} == {s.role for s in stages(compiled)}
    assert all("gradients" in s.not_frozen for s in stages(compiled))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x))
    assert dict(stages(compiled)[-1].frozen)["constants"] == 8


def test_parameters_without_gradients_are_frozen_with_gradients_enabled(net, x):
    net.requires_grad_(False)
    compiled = triptych.compile(net, options=FREEZING)
    result = compiled(x)
    torch.testing.assert_close(result, net(x))
    assert dict(stages(compiled)[0].frozen)["constants"] == 8 and not result.requires_grad


@torch.no_grad()
def test_a_part_in_training_stays_an_input(net, x):
    net.norm.train()
    compiled, eager = triptych.compile(net, options=FREEZING), copy.deepcopy(net)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), eager(x))
    torch.testing.assert_close(net.norm.running_var, eager.norm.running_var)
    assert dict(stages(compiled)[0].frozen)["constants"] == 4


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return self.layer(x) + self.seen


@torch.no_grad()
def test_buffers_that_the_program_writes_stay_inputs():
    module = Counting().eval()
    eager = copy.deepcopy(module)
    compiled = triptych.compile(module, options=FREEZING)
    for _ in range(3):
        value = torch.randn(2, 4)
        torch.testing.assert_close(compiled(value), eager(value))
    torch.testing.assert_close(module.seen, eager.seen)
    assert dict(stages(compiled)[0].frozen)["constants"] == 2


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.out = nn.Linear(6, 10, bias=False)
        self.out.weight = self.table.weight

    def forward(self, i):
        return self.out(self.table(i)), self.table.weight


@torch.no_grad()
def test_tied_weights_and_parameters_that_are_returned():
    module = Tied().eval()
    compiled = triptych.compile(module, options=FREEZING)
    i = torch.tensor([1, 5, 3])
    logits, weight = compiled(i)
    torch.testing.assert_close(logits, module(i)[0])
    assert weight is module.table.weight


@torch.no_grad()
def test_sizes_that_change(net):
    compiled = triptych.compile(net, options=FREEZING)
    for rows in (2, 5, 7):
        x = torch.randn(rows, 3, 7, 6)
        torch.testing.assert_close(compiled(x), net(x))
    assert len(stages(compiled)) == 2


@torch.no_grad()
def test_autocast(net, x):
    compiled = triptych.compile(net, options=FREEZING)
    with torch.autocast("cpu", torch.bfloat16):
        result, expected = compiled(x), net(x)
    assert result.dtype is torch.bfloat16
    torch.testing.assert_close(result, expected, rtol=0.05, atol=0.05)
    assert dict(stages(compiled)[0].frozen)["fold_affine"] == 1


@torch.no_grad()
def test_graph_breaks_and_inference_mode(net, x):
    class Broken(Net):
        def forward(self, x):
            y = self.norm(self.conv(x))
            triptych_dynamo.graph_break()
            return self.head(F.relu(y).mean((2, 3)))

    broken = Broken().eval()
    broken.load_state_dict(net.state_dict())
    compiled = triptych.compile(broken, options=FREEZING)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), net(x))
    assert [bool(s.frozen) for s in stages(compiled)] == [True, True]


def test_nothing_to_freeze():
    compiled = triptych.compile(lambda x: x + 1, options=FREEZING)
    compiled(torch.ones(3))
    assert "no parameter" in stages(compiled)[0].not_frozen


@torch.no_grad()
def test_the_setting_and_what_overrides_it(net, x, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_FREEZING", "1")
    compiled = triptych.compile(net, options={"freezing": False})
    compiled(x)
    assert not stages(compiled)[0].frozen
    compiled = triptych.compile(net)
    compiled(x)
    assert stages(compiled)[0].frozen
    with config.patch(freezing=False):
        compiled = triptych.compile(net)
    compiled(x)
    assert not stages(compiled)[0].frozen


@torch.no_grad()
def test_what_failed_to_compile_runs_unfrozen(net, x, monkeypatch):
    import triptych_inductor  # noqa: PLC0415

    def fail(*args, **kwargs):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(triptych_inductor, "compile", fail)
    compiled = triptych.compile(net, options=FREEZING, on_error="eager")
    with pytest.warns(triptych.errors.CompileFallbackWarning):
        torch.testing.assert_close(compiled(x), net(x))


@torch.no_grad()
def test_parameters_are_not_kept_alive(net, x):
    compiled = triptych.compile(net, options=FREEZING)
    compiled(x)
    gone = weakref.ref(net.conv.weight)
    net.conv.weight = nn.Parameter(net.conv.weight * 2)
    gc.collect()
    assert gone() is None
    torch.testing.assert_close(compiled(x), net(x))


@torch.no_grad()
def test_code_on_disk_serves_any_weights_of_the_kind(net, x, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "1")
    other, cached = copy.deepcopy(net), []
    for parameter in other.parameters():
        parameter.mul_(2)
    for module in (net, net, other):
        compiled = triptych.compile(module, options=FREEZING)
        torch.testing.assert_close(compiled(x), module(x))
        cached.append(stages(compiled)[0].cached)
        assert dict(stages(compiled)[0].frozen)["fold_affine"] == 1
    assert cached == [False, True, True]


# -- discarding --------------------------------------------------------------------------------------------------------
@torch.no_grad()
def test_discarded_parameters(net, x):
    expected, eager = net(x), copy.deepcopy(net)
    compiled = triptych.compile(net, options={"freezing": True, "freezing_discard_parameters": True})
    for _ in range(3):
        torch.testing.assert_close(compiled(x), expected)
    assert len(stages(compiled)) == 1
    with torch._C.DisableTorchFunctionSubclass():
        assert all(t.untyped_storage().nbytes() <= 8 for t in (*net.parameters(), net.norm.running_var))
    assert net.conv.weight.shape == (8, 3, 3, 3) and "discarded" in repr(net.conv.weight)
    for use in (lambda: net(x), lambda: net.conv.weight + 1, lambda: net.norm.running_var.sum()):
        with pytest.raises(DiscardedError, match="freezing_discard_parameters"):
            use()
    with pytest.raises(DiscardedError):
        compiled(torch.randn(3, 3, 9, 9))
    net.load_state_dict(eager.state_dict(), assign=True)
    y = torch.randn(3, 3, 9, 9)
    torch.testing.assert_close(compiled(y), eager(y))


@torch.no_grad()
def test_parameters_that_results_are_made_of_are_not_discarded():
    module = Tied().eval()
    module.forward = lambda i: (module.table(i), module.table.weight.t())
    compiled = triptych.compile(module, options={"freezing": True, "freezing_discard_parameters": True})
    i = torch.tensor([1, 5, 3])
    for _ in range(2):
        torch.testing.assert_close(compiled(i), module(i))


@torch.no_grad()
def test_written_buffers_keep_their_neighbours():
    module = Counting().eval()
    eager = copy.deepcopy(module)
    compiled = triptych.compile(module, options={"freezing": True, "freezing_discard_parameters": True})
    for _ in range(2):
        value = torch.randn(2, 4)
        torch.testing.assert_close(compiled(value), eager(value))
    torch.testing.assert_close(module.layer(value), eager.layer(value))
