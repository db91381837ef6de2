"""What was compiled once is taken from disk afterwards, and is the same in every respect."""

import copy
import os
import subprocess
import sys

import pytest
import torch
import triptych
from torch import nn
from triptych import warm_start
from triptych_inductor.build.cache import Store


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRIPTYCH_GRAPH_CACHE", raising=False)


def pointwise(x, w):
    return torch.tanh(x @ w) * 2


def writes(x, w):
    x.mul_(2)
    return x @ w, x.t()


def views(x, w):
    y = x * 2
    return y[0], y.t(), y.detach()


def draws(x, w):
    return nn.functional.dropout(x @ w, 0.5)


def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ w


def statistics(x, w):
    mean = torch.zeros(4)
    return nn.functional.batch_norm(x @ w, mean, torch.ones(4), training=True), mean


PROGRAMS = [pointwise, writes, views, draws, autocast, statistics]


def run(fn, grad):
    torch.manual_seed(0)
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=grad)
    out = fn(x, w)
    outputs = out if isinstance(out, tuple) else (out,)
    loss = sum(o.float().square().sum() for o in outputs if o.requires_grad)
    if grad and isinstance(loss, torch.Tensor):
        loss.backward()
    layout = [(o.dtype, o.stride(), o.requires_grad, o._base is not None) for o in outputs]
    return layout, [o.detach() for o in outputs], x, w.grad, torch.get_rng_state()


def compile_and_run(fn, grad=False, **settings):
    compiled = triptych.compile(fn, fullgraph=True, **settings)
    return run(compiled, grad), triptych.report(compiled)


def cached(report):
    return [stage.cached for stage in report.stages]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_second_time_is_the_first(program, grad):
    first, cold = compile_and_run(program, grad)
    second, warm = compile_and_run(program, grad)
    assert not any(cached(cold)) and all(cached(warm)), str(warm)
    assert [s.role for s in cold.stages] == [s.role for s in warm.stages]
    assert [s.operations for s in cold.stages] == [s.operations for s in warm.stages]
    assert (cold.kernels, cold.fallbacks) == (warm.kernels, warm.fallbacks)
    assert first[0] == second[0]
    torch.testing.assert_close(first[1:], second[1:], rtol=0, atol=0)
    eager = run(program, grad)
    assert eager[0] == second[0]
    torch.testing.assert_close(eager[1:], second[1:], rtol=2e-2 if program is autocast else 1e-5, atol=1e-4)


def test_without_a_backward_only_the_code_of_the_forward_is_there():
    def forward_only(x, w):
        return pointwise(x, w)

    compiled = triptych.compile(forward_only)
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    compiled(x, w)
    assert not list(Store(warm_start.STORE).directory.rglob("*"))
    again = triptych.compile(forward_only)
    again(x, w).sum().backward()
    assert cached(triptych.report(again)) == [True, False]
    torch.testing.assert_close(w.grad, torch.autograd.grad(pointwise(x, w).sum(), w)[0])


def under(mode):
    def run_under(fn):
        with mode():
            return compile_and_run(fn)[1]

    return run_under


CHANGES = {
    "grad": lambda fn: compile_and_run(fn, True)[1],
    "options": lambda fn: compile_and_run(fn, options={"exact": True})[1],
    "autocast": under(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "dynamic": lambda fn: compile_and_run(fn, dynamic=True)[1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_compiled(change):
    compile_and_run(pointwise)
    report = CHANGES[change](pointwise)
    assert not any(cached(report)) and report.stages


def test_a_size_that_changed_is_found_again_with_its_guards():
    def fn(x):
        return x.reshape(-1, 2).sum(1) * 3

    def sizes(compiled):
        for n in (4, 6, 8, 20):
            x = torch.randn(n)
            torch.testing.assert_close(compiled(x), fn(x))
        return triptych.report(compiled)

    cold, warm = (sizes(triptych.compile(fn)) for _ in range(2))
    assert len(cold.graphs) == len(warm.graphs) == 2
    assert cached(warm) == [True, True]
    with pytest.raises(RuntimeError, match="shape"):
        triptych.compile(fn)(torch.randn(5))


def test_operators_of_users_are_traced_each_time():
    op = torch.library.custom_op(
        "warm_start_tests::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.register_fake(torch.empty_like)

    def fn(x):
        return op(x) + 1

    for _ in range(2):
        compiled = triptych.compile(fn)
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert not list(Store(warm_start.STORE).directory.rglob("*"))


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", b'{"plan": {}, "parts": {}, "facts": []}'])
def test_damaged_records_are_made_anew(damage):
    compile_and_run(pointwise, True)
    (path,) = (p for p in Store(warm_start.STORE).directory.rglob("*") if p.is_file())
    Store(warm_start.STORE).put(path.parent.name + path.name, damage)
    result, report = compile_and_run(pointwise, True)
    torch.testing.assert_close(result[1:], run(pointwise, True)[1:])
    assert compile_and_run(pointwise, True)[1].graphs
    assert path.stat().st_size > 100


def test_missing_parts_are_made_anew():
    compile_and_run(pointwise, True)
    for path in Store("graph").directory.rglob("*"):
        if path.is_file():
            path.unlink()
    assert cached(compile_and_run(pointwise, True)[1]) == [False, False]
    assert cached(compile_and_run(pointwise, True)[1]) == [True, True]


def test_gradients_of_gradients_of_a_graph_from_disk():
    def cube(x):
        return (x**3).sum()

    for _ in range(2):
        compiled = triptych.compile(cube)
        x = torch.randn(4, requires_grad=True)
        compiled(x).backward()
        (grad,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        torch.testing.assert_close(torch.autograd.grad(grad.sum(), x)[0], 6 * x)
    assert all(cached(triptych.report(compiled)))


def test_a_training_model():
    def losses(model, compiled):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, found = torch.randn(8, 6), []
        for _ in range(4):
            loss = compiled(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.detach())
        return torch.stack(found)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))
    plain, twice = copy.deepcopy(model), copy.deepcopy(model)
    expected = losses(plain, plain)
    for each in (model, twice):
        compiled = triptych.compile(each)
        torch.testing.assert_close(losses(each, compiled), expected)
    assert cached(triptych.report(compiled)) == [True, True]


PROGRAM = """
import torch, triptych
@triptych.compile
def fn(x, w):
    return torch.softmax(x @ w, -1) * 3
torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
fn(x, w).square().sum().backward()
print([s.cached for s in triptych.report(fn).stages], w.grad.sum().item())
"""


@pytest.mark.slow
def test_another_process_needs_no_compiler(tmp_path):
    (tmp_path / "empty").mkdir()
    switches = [{}, {"CXX": "", "PATH": str(tmp_path / "empty")}]
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=os.environ | extra, capture_output=True, text=True, check=True
        )
        for extra in switches
    ]
    first, second = (done.stdout.split("]") for done in runs)
    assert (first[0], second[0]) == ("[False, False", "[True, True")
    assert first[1] == second[1]
