"""Kinds of programs: training inside and outside, mutation, aliasing, random numbers, open sizes (p15, p19, p20)."""

import copy

import pytest
import torch
import triptych_dynamo
from torch import nn
from triptych.compiler import precompile as pc

BACKENDS = ["eager", "inductor"]


def load(tmp_path, fn, *args, backend="eager", **options):
    paths = tmp_path / "m.py", tmp_path / "m.cache"
    with pc.capture(fn, artifact_path=paths[0], cache_path=paths[1], backend=backend, **options) as cap:
        cap(*args)
    return pc.load(*paths)


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))


def grads(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def train(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss


def clear_and_train(model, x):
    model.zero_grad()
    train(model, x)


def clip(model, x):
    clear_and_train(model, x)
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [train, clear_and_train, clip], ids=["add", "replace", "clip"])
def test_backward_inside(tmp_path, backend, fn):
    model, x = net(), torch.randn(8, 4)
    run = load(tmp_path, fn, copy.deepcopy(model), x, backend=backend)
    mine, reference = copy.deepcopy(model), copy.deepcopy(model)
    for _ in range(2):
        torch.testing.assert_close(run(mine, x), fn(reference, x), check_stride=False)
        torch.testing.assert_close(grads(mine), grads(reference))
        torch.testing.assert_close(list(mine.buffers()), list(reference.buffers()))


def test_frozen_parameters_stay_without_gradient(tmp_path):
    model, x = net(), torch.randn(8, 4)
    model[0].requires_grad_(False)
    run = load(tmp_path, train, model, x)
    run(model, x)
    assert model[0].weight.grad is None and model[3].weight.grad is not None
    other = net()
    other[3].bias.requires_grad_(False)
    run(other, x)
    assert other[3].bias.grad is None and other[3].weight.grad is not None


def test_gradients_that_would_go_elsewhere_are_refused(tmp_path):
    model, x = net(), torch.randn(8, 4, requires_grad=True)
    with pytest.raises(pc.PrecompileError, match="reaches an argument"):
        load(tmp_path, train, model, x)

    class Buffered(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(4, requires_grad=True))

        def forward(self, x):
            return x * self.weight

    with pytest.raises(pc.PrecompileError, match="reaches buffer weight"):
        load(tmp_path, train, Buffered(), torch.randn(8, 4))


def test_earlier_gradients_that_the_program_reads_are_refused(tmp_path):
    def scales(model, x):
        train(model, x)
        for p in model.parameters():
            p.grad.mul_(0.5)

    with pytest.raises(pc.PrecompileError, match="zero_grad"):
        load(tmp_path, scales, net(), torch.randn(8, 4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_as_results(tmp_path, backend):
    def fn(model, x):
        return torch.autograd.grad(model(x).sum(), list(model.parameters()))

    model, x = net(), torch.randn(8, 4)
    run = load(tmp_path, fn, copy.deepcopy(model), x, backend=backend)
    torch.testing.assert_close(run(copy.deepcopy(model), x), fn(copy.deepcopy(model), x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_outside(tmp_path, backend):
    model, x = net(), torch.randn(8, 4, requires_grad=True)
    run = load(tmp_path, lambda model, x: model(x), copy.deepcopy(model), x, backend=backend)
    found = []
    for call in (run, lambda model, x: model(x)):
        mine, inputs = copy.deepcopy(model), x.detach().clone().requires_grad_()
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            call(mine, inputs).square().mean().backward()
            optimizer.step()
        found.append([*mine.state_dict().values(), inputs.grad])
    torch.testing.assert_close(*found)


def test_the_grad_mode_of_the_capture_is_part_of_the_program(tmp_path):
    model, x = net(), torch.randn(8, 4)
    with torch.no_grad():
        run = load(tmp_path, lambda model, x: model(x), model, x)
    assert not run(model, x).requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_mutation_and_aliasing(tmp_path, backend):
    def fn(x, y):
        x.mul_(2)
        return x, x[0], y + x.sum()

    x, y = torch.ones(2, 3), torch.ones(3)
    run = load(tmp_path, fn, x, y, backend=backend)
    assert torch.equal(x, torch.full((2, 3), 2.0))  # the capture itself ran once
    first, second, third = run(x, y)
    assert first is x and second.data_ptr() == x.data_ptr() and torch.equal(x, torch.full((2, 3), 4.0))
    assert torch.equal(third, y + 24)
    both = torch.ones(3, 3)
    with pytest.raises(pc.PrecompileError, match="share memory"):
        run(both[:2], both[1])


def test_random_numbers_follow_the_generator(tmp_path):
    model, x = nn.Dropout(0.5), torch.ones(50)
    run = load(tmp_path, lambda model, x: model(x), model, x, backend="inductor")
    torch.manual_seed(7)
    found = [run(model, x), run(model, x), torch.rand(2)]
    torch.manual_seed(7)
    torch.testing.assert_close(found, [model(x), model(x), torch.rand(2)])
    assert not torch.equal(found[0], found[1])


def test_buffers_that_the_program_replaces(tmp_path):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + x.sum()
            return x * self.count

    model, x = Counter(), torch.ones(3)
    run = load(tmp_path, lambda model, x: model(x), model, x)
    assert model.count == 3  # once, by the capture
    torch.testing.assert_close(run(model, x), x * 6)
    assert model.count == 6


def test_autocast_and_decompositions(tmp_path):
    def fn(model, x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    tracer = pc.MakeFxTracer(decompositions={torch.ops.aten.addmm.default: lambda b, x, w: x @ w + b})
    run = load(tmp_path, fn, model, x, tracer=tracer)
    assert run(model, x).dtype == torch.bfloat16 and "addmm.default(" not in run.source
    torch.testing.assert_close(run(model, x), fn(model, x))


def test_a_mode_other_than_the_captured_one_warns(tmp_path):
    model, x = net().eval(), torch.randn(8, 4)
    run = load(tmp_path, lambda model, x: model(x), model, x)
    with pytest.warns(UserWarning, match="captured in mode"):
        run(net(), x)


# -- open sizes --------------------------------------------------------------------------------------------------------
def opened(x, dim=0, **facts):
    triptych_dynamo.mark_unbacked(x, dim, **facts)
    return x


needs_marks = pytest.mark.skipif(not hasattr(triptych_dynamo, "mark_unbacked"), reason="mark_unbacked is not there")


@needs_marks
def test_any_size_of_an_open_dimension(tmp_path):
    model = nn.Linear(4, 3)
    run = load(tmp_path, lambda model, x: model(x).relu(), model, opened(torch.randn(5, 4)), backend="inductor")
    for count in (1, 2, 5, 64):
        x = torch.randn(count, 4)
        torch.testing.assert_close(run(model, x), model(x).relu())
    with pytest.raises(pc.PrecompileError, match="invariant 3"):
        run(model, torch.randn(5, 5))


@needs_marks
def test_bounds_and_shared_sizes(tmp_path):
    x, y = opened(torch.randn(5, 4), min=2, max=8, shape_id="rows"), opened(torch.randn(5, 4), shape_id="rows")
    run = load(tmp_path, lambda x, y: x * 2 + y, x, y, backend="inductor")
    a = torch.randn(3, 4)
    torch.testing.assert_close(run(a, a), a * 3)
    with pytest.raises(pc.PrecompileError, match="size 1 in dimension 0 but mark_unbacked declared min=2"):
        run(a[:1], a[:1])
    with pytest.raises(pc.PrecompileError, match="declared max=8"):
        run(torch.randn(9, 4), torch.randn(9, 4))
    with pytest.raises(pc.PrecompileError, match="shape_id"):
        run(a, torch.randn(4, 4))


@needs_marks
def test_open_sizes_that_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="inductor"):
        load(tmp_path, lambda x: x + 1, opened(torch.randn(5)))
    marked = torch.randn(5)
    triptych_dynamo.mark_dynamic(marked, 0)
    with pytest.raises(pc.PrecompileError, match="mark_dynamic"):
        load(tmp_path, lambda x: x + 1, marked, backend="inductor")
    with pytest.raises(pc.PrecompileError, match="guard"):
        load(tmp_path, lambda x: x + 1 if x.shape[0] > 3 else x, opened(torch.randn(5)), backend="inductor")
