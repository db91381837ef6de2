"""`capture`: its life, what it refuses, and what it writes (rows p1 to p8, p16 to p18, p21, p22)."""

import collections
import copy
import functools
import os
import stat
import threading

import pytest
import torch
from torch import nn
from triptych.compiler import precompile as pc
from triptych.precompile import files


def run_model(model, x):
    return model(x)


@pytest.fixture
def paths(tmp_path):
    return {"artifact_path": tmp_path / "deep" / "m.py", "cache_path": tmp_path / "deep" / "m.cache"}


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return nn.Linear(4, 3), torch.randn(2, 4)


def eager(paths, fn=run_model):
    return pc.capture(fn, **paths, backend="eager")


def written(paths):
    return all(path.exists() for path in paths.values())


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gives_what_the_program_gives_and_writes_both_files(paths, pair, backend):
    model, x = pair
    with pc.capture(run_model, **paths, backend=backend) as cap:
        y = cap(model, x)
        assert not written(paths)
    torch.testing.assert_close(y, model(x))
    assert y.requires_grad
    assert written(paths)
    loaded = pc.load(paths["artifact_path"], paths["cache_path"])
    torch.testing.assert_close(loaded(model, x), y)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_effects_happen_once(paths, backend):
    """Those on Python objects as well as those on tensors."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.linear = nn.Linear(2, 2)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            self.count += 1
            seen.append(self.calls)
            return nn.functional.dropout(self.linear(x), 0.5)

    seen, model, x = [], Counting(), torch.ones(3, 2)
    plain, own = copy.deepcopy(model), x.clone()

    def program(model, x):
        x.add_(1)
        return model(x)

    torch.manual_seed(5)
    expected, state = program(plain, own), torch.get_rng_state()
    seen.clear()
    torch.manual_seed(5)
    with pc.capture(program, **paths, backend=backend) as cap:
        found = cap(model, x)
    torch.testing.assert_close((found, x, model.count), (expected, own, plain.count))
    assert seen == [1] and model.calls == 1 and torch.equal(torch.get_rng_state(), state)


def test_single_use(paths, pair):
    cap = eager(paths)
    with pytest.raises(pc.PrecompileError, match="outside its with block"):
        cap(*pair)
    with pytest.raises(pc.PrecompileError, match="outside"):
        cap.save()
    with cap:
        cap(*pair)
        with pytest.raises(pc.PrecompileError, match="second time"):
            cap(*pair)
        with pytest.raises(pc.PrecompileError, match="already active"):
            cap.__enter__()
    for late in (lambda: cap(*pair), cap.save, cap.__enter__):
        with pytest.raises(pc.PrecompileError, match="spent"):
            late()


def test_a_block_that_raises_writes_nothing_but_what_was_saved(paths, pair):
    with pytest.raises(KeyError), eager(paths) as cap:
        cap(*pair)
        raise KeyError
    assert not written(paths)
    with pytest.raises(KeyError), eager(paths) as cap:
        cap(*pair)
        cap.save()
        raise KeyError
    assert written(paths)


def test_nothing_captured_is_an_error(paths, pair):
    def fails(model, x):
        raise ValueError("the program's own")

    with pytest.raises(pc.PrecompileError, match="nothing was captured"), eager(paths):
        pass
    with pytest.raises(pc.PrecompileError, match="nothing was captured"), eager(paths, fails) as cap:
        with pytest.raises(ValueError, match="the program's own"):
            cap(*pair)
    assert not written(paths)


def test_positional_arguments_only(paths, pair):
    model, x = pair
    with pytest.raises(TypeError, match="positional arguments only, got x"), eager(paths) as cap:
        cap(model, x=x)


def test_programs_that_carry_a_model_are_refused(paths, pair):
    model, x = pair
    for fn in (
        model,
        model.forward,
        functools.partial(run_model, model),
        functools.partial(model),
        functools.partial(run_model, x=x),
    ):
        with pytest.raises((pc.PrecompileError, TypeError)):
            eager(paths, fn)


def test_wrong_settings(paths, tmp_path):
    with pytest.raises(ValueError, match="precompile backend must be 'inductor' or 'eager', got 'fast'"):
        pc.capture(run_model, **paths, backend="fast")
    with pytest.raises(TypeError, match="MakeFxTracer"):
        pc.capture(run_model, **paths, tracer="make_fx")
    with pytest.raises(ValueError, match="same file"):
        pc.capture(run_model, artifact_path=tmp_path / "a", cache_path=str(tmp_path / "a"))
    with pytest.raises(ValueError, match="not a regular file"):
        pc.capture(run_model, artifact_path=tmp_path, cache_path=tmp_path / "a")
    with pytest.raises(TypeError, match="takes a function"):
        pc.capture(3, **paths)


def test_files_keep_their_permissions_and_leave_nothing_beside_them(paths, pair):
    with eager(paths) as cap:
        cap(*pair)
    os.chmod(paths["cache_path"], 0o640)
    with eager(paths) as cap:
        cap(*pair)
    assert stat.S_IMODE(paths["cache_path"].stat().st_mode) == 0o640
    assert sorted(p.name for p in paths["cache_path"].parent.iterdir()) == ["m.cache", "m.py"]


def test_a_failed_write_leaves_the_old_pair(paths, pair, monkeypatch):
    model, x = pair
    with eager(paths) as cap:
        cap(model, x)
    before = [path.read_bytes() for path in paths.values()]
    replace = os.replace

    def full_disk(source, target):
        if str(target).endswith(".py"):
            raise OSError("no space left")
        replace(source, target)

    cap = eager(paths, lambda model, x: model(x) + 1)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"), cap:
        patch.setattr(files.os, "replace", full_disk)
        cap(model, x)
    assert [path.read_bytes() for path in paths.values()] == before
    assert sorted(p.name for p in paths["cache_path"].parent.iterdir()) == ["m.cache", "m.py"]
    with pytest.raises(pc.PrecompileError, match="spent"):
        cap.save()
    torch.testing.assert_close(pc.load(*paths.values())(model, x), model(x))


OUTSIDE = torch.ones(4)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(4)
        self.cache = None

    def forward(self, x):
        return x + self.plain


HOLDER, OTHER = Holder(), nn.Linear(4, 3)


@pytest.mark.parametrize(
    "fn",
    [
        lambda model, x: model(x) + OUTSIDE[:3],
        lambda model, x: HOLDER(x),
        lambda model, x: OTHER(x),
        lambda model, x: model(x) * torch.tensor([1.0, 2.0, 3.0]),
        lambda model, x: model(x) if x.sum() > 0 else x,
        lambda model, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
    ],
    ids=["closed-over tensor", "plain attribute", "closed-over module", "literal", "branch", "cond"],
)
def test_what_a_graph_without_baked_tensors_cannot_hold(paths, pair, fn):
    with pytest.raises(RuntimeError), eager(paths, fn) as cap:
        cap(*pair)
    assert not written(paths)


def test_tensors_of_other_kinds_are_refused(paths):
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(pc.PrecompileError), eager(paths, lambda x: x + 1) as cap:
        cap(nested)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_numbers_read_from_tensors_stay_variable(paths, backend):
    with pc.capture(lambda x: x * x.sum().item(), **paths, backend=backend) as cap:
        cap(torch.arange(3.0))
    other = torch.tensor([5.0, 7.0, 9.0])
    torch.testing.assert_close(pc.load(*paths.values())(other), other * 21)


Pair = collections.namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "fn", [lambda m, x: x, lambda m, x: (x + 1, 2.5), lambda m, x: (x + 1, "name"), lambda m, x: (x + 1, 1j)]
)
def test_results_that_only_the_eager_backend_takes(paths, pair, fn):
    with pytest.raises(pc.PrecompileError, match="backend='eager'"), pc.capture(fn, **paths) as cap:
        cap(*pair)
    with eager(paths, fn) as cap:
        y = cap(*pair)
    loaded = pc.load(*paths.values())(*pair)
    torch.testing.assert_close(loaded[0] if isinstance(y, tuple) else loaded, y[0] if isinstance(y, tuple) else y)
    if isinstance(y, tuple):
        assert loaded[1] == y[1]


def test_a_class_unknown_to_pytree_is_refused(paths, pair):
    with pytest.raises(pc.PrecompileError, match="pytree"), eager(paths, lambda m, x: Pair(x + 1, x)) as cap:
        cap(*pair)


def test_the_examples_gradients_stay(paths, pair):
    model, x = pair
    before = model.weight.grad = torch.ones(3, 4)

    def train(model, x):
        model(x).sum().backward()

    with eager(paths, train) as cap:
        assert cap(model, x) is None
    assert model.weight.grad is before and torch.equal(before, torch.ones(3, 4))
    assert model.bias.grad is None


def test_captures_of_two_threads_do_not_mix(tmp_path, pair):
    """Each thread with a module of its own: while a capture traces, its modules hold stand-ins."""
    original, x = pair
    failures = []

    def work(number):
        model = copy.deepcopy(original)
        try:
            here = [tmp_path / f"{number}.py", tmp_path / f"{number}.cache"]
            with pc.capture(
                lambda m, x: m(x) + number, artifact_path=here[0], cache_path=here[1], backend="eager"
            ) as cap:
                cap(model, x)
            torch.testing.assert_close(pc.load(*here)(model, x), model(x) + number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert type(original.weight) is nn.Parameter


def test_summary(paths, pair):
    with pc.capture(run_model, **paths, backend="eager") as cap:
        assert not cap.summary.complete
        cap(*pair)
    assert cap.summary.complete and cap.summary.backend_graphs == 2
    assert "backend_graphs: 2" in str(cap.summary)
    other = pc.PrecompileSummary(frames=1, dropped_guards=("TYPE", "TYPE", "ID"), capture_errors=("x",))
    assert not other.complete and other.dropped_guard_types == ("TYPE", "ID") and other.kept_guard_types == ()
    with pytest.raises(AttributeError):
        other.frames = 2


def test_the_error_is_one_of_the_compilers():
    assert issubclass(pc.PrecompileError, RuntimeError)
    assert pc.PrecompileError.__module__ == "triptych.compiler"
