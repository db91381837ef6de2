"""`compile(fn, fullgraph=True).aot_compile(...)`: saved, loaded, and checked by live guards (rows 1.19 and 2.17)."""

import copy
import dataclasses
import inspect
import io
import itertools
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import triptych
from torch import nn
from torch._higher_order_ops.map import map as hmap
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from triptych.aot import AOTCompiledFunction
from triptych.compiler import PrecompileError, load_compiled_function, nested_compile_region

SCALE = 2.0


NET = nn.Linear(4, 4)


def scaled(x, weight, *, add=3):
    return {"y": (x @ weight).relu() * SCALE + add}


@pytest.fixture
def example():
    torch.manual_seed(0)
    return torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)


def ahead(fn, *args, backend="eager", **kwargs):
    return triptych.compile(fn, fullgraph=True, backend=backend).aot_compile((args, kwargs))


@pytest.mark.parametrize("backend", ["eager", "inductor", None])
def test_round_trip_with_gradients(example, tmp_path, backend):
    x, weight = example
    compiled = ahead(scaled, x, weight, backend=backend)
    assert isinstance(compiled, AOTCompiledFunction) and inspect.signature(compiled) == inspect.signature(scaled)
    compiled.save_compiled_function(tmp_path / "f.bin")
    with open(tmp_path / "f.bin", "rb") as file:
        loaded = [load_compiled_function(tmp_path / "f.bin"), load_compiled_function(file)]
    loaded.append(AOTCompiledFunction.deserialize(compiled.serialize()))
    expected = scaled(x, weight)["y"]
    (gradient,) = torch.autograd.grad(expected.sum(), weight)
    for call in (compiled, *loaded):
        y = call(x, weight=weight, add=3)["y"]
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), weight), (gradient,))


def test_the_error_names_the_guard(example, monkeypatch):
    x, weight = example
    compiled = AOTCompiledFunction.deserialize(ahead(scaled, x, weight).serialize(), globals())
    for args, kwargs, text in (
        ((x[:2], weight), {}, r"L\['x'\].*size mismatch at dimension 0: expected 3, got 2"),
        ((x.double(), weight), {}, r"L\['x'\].*dtype mismatch"),
        ((x, weight.detach()), {}, r"L\['weight'\].*grad"),
        ((x, weight), {"add": 4}, r"L\['add'\] == 3: it is 4"),
    ):
        assert not compiled.guard_check(*args, **kwargs)
        with pytest.raises(RuntimeError, match=f"guard check failed, reason: {text}"):
            compiled(*args, **kwargs)
    assert compiled.guard_check(x, weight)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    with pytest.raises(RuntimeError, match=r"G\['SCALE'\] == 2.0"):
        compiled(x, weight)
    compiled.disable_guard_check()
    torch.testing.assert_close(compiled(x, weight)["y"], (x @ weight).relu() * 2.0 + 3)
    with pytest.raises(RuntimeError, match="size mismatch"):  # what kernels rely on is checked all the same
        compiled(x[:2], weight)


def test_missing_globals(example):
    data = ahead(scaled, *example).serialize()
    with pytest.raises(KeyError, match="SCALE"):
        AOTCompiledFunction.deserialize(data, f_globals={})
    with pytest.raises(TypeError):
        AOTCompiledFunction.deserialize(data, globals())(example[0])


@pytest.mark.parametrize("of", [lambda m: m.forward, lambda m: m], ids=["forward", "module"])
def test_modules_are_passed_first(tmp_path, of):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.randn(5, 4)
    before = copy.deepcopy(model.state_dict())
    compiled = of(triptych.compile(model, fullgraph=True, backend="eager")).aot_compile(((x,), {}))
    torch.testing.assert_close(dict(model.state_dict()), dict(before))  # the function did not run
    compiled.save_compiled_function(tmp_path / "m.bin")
    loaded = load_compiled_function(tmp_path / "m.bin")
    for _ in range(2):
        mine, reference = copy.deepcopy(model), copy.deepcopy(model)
        torch.testing.assert_close(loaded(mine, x), reference(x))
        torch.testing.assert_close(dict(mine.state_dict()), dict(reference.state_dict()))


def test_modules_of_closure_and_globals():
    local, x = nn.Linear(4, 4), torch.randn(2, 4)

    def fn(x):
        return local(x) + NET(x)

    data = ahead(fn, x).serialize()
    with pytest.raises(KeyError, match="local"):
        AOTCompiledFunction.deserialize(data, globals())
    other = nn.Linear(4, 4)
    loaded = AOTCompiledFunction.deserialize(data, globals(), {"local": other})
    torch.testing.assert_close(loaded(x), other(x) + NET(x))


def test_what_cannot_be_kept(example):
    x, weight = example

    class Local:
        pass

    local = Local
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        triptych.compile(scaled, backend="eager").aot_compile((example, {}))
    with pytest.raises(RuntimeError, match="makes"):
        ahead(scaled, x, weight, backend="eager_debug")
    with pytest.raises(TypeError, match="pair"):
        triptych.compile(scaled, fullgraph=True, backend="eager").aot_compile((x, weight))
    with pytest.raises(PrecompileError, match="no form as data"):
        ahead(lambda x: (x + 1, (k for k in range(3))), x)
    with pytest.raises(PrecompileError, match="no name under which another process"):
        ahead(lambda x: (x + 1, local()), x)
    with pytest.raises(RuntimeError, match="DYN"):
        ahead(lambda x: (triptych.compiler.graph_break(), x)[1], x)
    for junk in (b"", b"junk" * 100, ahead(scaled, x, weight).serialize()[:-3]):
        with pytest.raises(PrecompileError):
            load_compiled_function(io.BytesIO(junk))


# -- open sizes, and objects besides tensors ---------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_sizes_that_are_open(example, backend):
    _, weight = example
    compiled = triptych.compile(scaled, fullgraph=True, dynamic=True, backend=backend).aot_compile(
        ((torch.randn(3, 4), weight), {})
    )
    for call in (compiled, AOTCompiledFunction.deserialize(compiled.serialize(), globals())):
        for rows in (2, 3, 17):
            x = torch.randn(rows, 4)
            found, expected = call(x, weight)["y"], scaled(x, weight)["y"]
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(*[torch.autograd.grad(y.sum(), weight) for y in (found, expected)])
        assert call.guard_check(torch.randn(9, 4), weight)
        with pytest.raises(RuntimeError, match="guard check failed"):
            call(torch.randn(3, 5), weight)


# -- bodies of higher-order operators ----------------------------------------------------------------------------------
def chooses(x, w):
    def inner(a, b):
        return torch.cond(b.sum() > 0, lambda a, b: (a * b, a.cos()), lambda a, b: (a - b, b.sin()), (a, b))

    return torch.cond(x.sum() > 0, inner, lambda a, b: (a + b * a.shape[0], b.exp()), (x, w))


@nested_compile_region
def part(x, w):
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a + b, (x, w))


def loops(x, w):
    steps = (torch.tensor(0), x + w.detach().sum())
    return while_loop(lambda i, y: i < y.shape[0], lambda i, y: (i + 1, y * 2), steps)[1] * w.sum()


def scans(x, w):
    return scan(lambda carry, row: (carry + row, carry * row), w[0], x + w.sum())


BODIES = {
    "cond": chooses,
    "cond in regions": lambda x, w: part(part(x, w), w),
    "while_loop": loops,
    "scan": scans,
    "map": lambda x, w: hmap(lambda row, by: row.sin() * by, x, w.sum(0)),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_operators(name, backend, dynamic):
    fn = BODIES[name]
    dynamic = dynamic if name.startswith("cond") else None  # rows that are gone over are of one number
    compiled = triptych.compile(fn, fullgraph=True, backend=backend, dynamic=dynamic).aot_compile(
        ((torch.ones(3, 4), torch.ones(3, 4, requires_grad=True)), {})
    )
    loaded = AOTCompiledFunction.deserialize(compiled.serialize(), globals())
    for rows, left, right in itertools.product((3, 5) if dynamic else (3,), (1, -1), (1, -1)):
        x, w = torch.rand(rows, 4) * left, (torch.rand(rows, 4) * right).requires_grad_()
        found, expected = loaded(x, w), fn(x, w)
        torch.testing.assert_close(found, expected)
        results = [torch.utils._pytree.tree_leaves(values) for values in (found, expected)]
        torch.testing.assert_close(*[torch.autograd.grad(sum(v.sum() for v in values), w) for values in results])


def test_marked_sizes(example):
    _, weight = example
    x = torch.randn(3, 4)
    triptych.compiler.mark_dynamic(x, 0)
    compiled = ahead(scaled, x, weight)
    for rows in (2, 5):
        torch.testing.assert_close(compiled(torch.randn(rows, 4), weight)["y"].shape, torch.Size([rows, 5]))


@dataclasses.dataclass
class Outcome:
    loss: torch.Tensor
    extra: dict


def changes(x, cache, *, log=None):
    y = torch.tanh(x) * len(cache)
    cache["last"] = y
    cache["calls"].append(x.shape[0])
    if log is not None:
        log.update(total=y.sum())
    return Outcome(y.sum(), {"y": y, "cache": cache})


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_changed_objects_and_made_ones(backend):
    x = torch.randn(3, 4)
    cache = lambda: {"calls": [7], "other": None}
    compiled = ahead(changes, x, cache(), backend=backend, log={})
    for call in (compiled, AOTCompiledFunction.deserialize(compiled.serialize())):
        results = []
        for fn in (changes, call):
            held, log = cache(), {}
            outcome = fn(x, held, log=log)
            assert type(outcome) is Outcome and outcome.extra["cache"] is held and held["last"] is outcome.extra["y"]
            results.append((outcome.loss, held, log))
        torch.testing.assert_close(results[0], results[1])


def test_closure_lists_are_changed():
    seen = []

    def remembers(x):
        seen.append(x.shape[0])
        return x + 1

    compiled = ahead(remembers, torch.ones(3))
    assert not seen  # the function did not run
    compiled(torch.ones(3))
    assert seen == [3]
    with pytest.raises(KeyError, match="seen"):
        AOTCompiledFunction.deserialize(compiled.serialize())
    other = []
    AOTCompiledFunction.deserialize(compiled.serialize(), external_data={"seen": other})(torch.ones(3))
    assert other == [3] and seen == [3]


def test_buffers_and_modes_of_modules():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = torch.randn(6, 4)
    compiled = triptych.compile(model, fullgraph=True).aot_compile(((x,), {}))
    results = []
    for call in (lambda m: m(x), lambda m: compiled(m, x)):
        mine = copy.deepcopy(model)
        torch.manual_seed(3)
        y = call(mine)
        y.sum().backward()
        results.append((y, dict(mine.state_dict()), [p.grad for p in mine.parameters()]))
    torch.testing.assert_close(results[0], results[1])
    with pytest.raises(RuntimeError, match="training"):
        compiled(model.eval(), x)


def test_kernels_of_another_machine_are_built_again(example, monkeypatch, caplog):
    x, weight = example
    data = ahead(scaled, x, weight, backend="inductor").serialize()
    from triptych import aot_graph  # noqa: PLC0415

    def foreign(*_):
        raise aot_graph.ArtifactError("made for another processor")

    with monkeypatch.context() as patch:
        patch.setattr(aot_graph.CompiledGraph, "from_bytes", foreign)
        with caplog.at_level("WARNING", "triptych.aot"):
            loaded = AOTCompiledFunction.deserialize(data, globals())
    assert "compiled again: made for another processor" in caplog.text
    y, expected = loaded(x, weight)["y"], scaled(x, weight)["y"]
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(*[torch.autograd.grad(v.sum(), weight) for v in (y, expected)])


@pytest.mark.slow
def test_language_model_with_its_cache(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(0, 50, (2, 7))
    for options in ({"use_cache": False}, {}):
        with torch.no_grad():
            compiled = triptych.compile(model, fullgraph=True, dynamic=True).aot_compile(((ids,), options))
            compiled.save_compiled_function(tmp_path / "gpt2.bin")
            loaded = load_compiled_function(tmp_path / "gpt2.bin")
            for length in (7, 9):
                ids = torch.randint(0, 50, (2, length))
                found, expected = loaded(model, ids, **options), model(ids, **options)
                assert type(found) is type(expected) and list(found) == list(expected)
                torch.testing.assert_close(found.logits, expected.logits)


def test_no_pickle(example):
    data = ahead(scaled, *example, backend="inductor").serialize()
    assert (
        data.startswith(b"TRIPTYCH-AOT")
        and b"\x80\x04\x95" not in data
        and os.path.dirname(__file__).encode() not in data
    )


def test_in_a_fresh_process(example, tmp_path):
    x, weight = example
    ahead(scaled, x, weight, backend="inductor").save_compiled_function(tmp_path / "f.bin")
    torch.save((x, weight.detach(), scaled(x, weight)["y"].detach()), tmp_path / "x.pt")
    code = """
        import sys, torch
        from triptych.compiler import load_compiled_function
        x, weight, y = torch.load(sys.argv[2])
        fn = load_compiled_function(sys.argv[1], f_globals={"SCALE": 2.0, "torch": torch})
        torch.testing.assert_close(fn(x, weight.requires_grad_())["y"], y)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "f.bin"), str(tmp_path / "x.pt")]
    environment = os.environ | {"PATH": "", "CXX": "/nonexistent", "TRIPTYCH_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
