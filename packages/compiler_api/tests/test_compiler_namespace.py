"""`triptych.compiler`: every name of `torch.compiler` is there and means what it means there."""

import inspect
import subprocess
import sys
import textwrap

import pytest
import torch
import triptych
from torch import nn
from triptych import compiler
from triptych.errors import CacheArtifactError, InvalidBackendError, InvalidOptionError
from triptych_inductor.container import pack

ADDED_LATER = {"nonstrict_trace", "cudagraph_mark_warmup_incomplete"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "1")
    return tmp_path


def counted():
    """A backend that counts its graphs."""
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return backend, graphs


X = torch.arange(4.0)


def test_every_name_of_torch_is_here():
    names = set(torch.compiler.__all__) | ADDED_LATER
    missing = {name for name in names if not hasattr(compiler, name)}
    assert missing == set()
    assert set(compiler.__all__) <= set(dir(compiler))
    with pytest.raises(AttributeError, match="has no attribute 'zzz'"):
        _ = compiler.zzz


TAKES_MORE = {"config", "compile", "load_compiled_function"}


@pytest.mark.parametrize("name", sorted(set(torch.compiler.__all__) - TAKES_MORE))
def test_parameters_have_the_names_of_torchs(name):
    """What is called with keywords there can be called so here."""
    theirs, ours = (inspect.signature(getattr(where, name)) for where in (torch.compiler, compiler))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in ours.parameters.values())
    keywords = {p.name for p in theirs.parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert takes_any or keywords <= set(ours.parameters)


def test_compile_is_compile():
    assert compiler.compile is triptych.compile


def test_reset_forgets_what_is_in_the_process():
    backend, graphs = counted()
    fn = triptych.compile(lambda x: x + 1, backend=backend)
    fn(X), fn(X)
    compiler.reset()
    fn(X)
    assert len(graphs) == 2


def test_allow_in_graph():
    def opaque(x):
        return x.sin() if x.sum() > 0 else x.cos()

    assert compiler.allow_in_graph(opaque) is opaque
    backend, graphs = counted()
    fn = triptych.compile(lambda x: x.relu() * 2, backend=backend, fullgraph=True)
    torch.testing.assert_close(fn(X), X.relu() * 2)
    allowed = compiler.allow_in_graph(lambda x: torch.cat([x, x]))
    fn = triptych.compile(lambda x: allowed(x) + 1, backend=backend, fullgraph=True)
    torch.testing.assert_close(fn(X), torch.cat([X, X]) + 1)
    assert [n.target for n in graphs[1].graph.nodes if n.op == "call_function"][0] is allowed


def test_assume_constant_result():
    answer = [1]

    @compiler.assume_constant_result
    def constant():
        return answer[0]

    fn = triptych.compile(lambda x: x + constant(), backend="eager", fullgraph=True)
    torch.testing.assert_close(fn(X), X + 1)
    answer[0] = 2
    torch.testing.assert_close(fn(X), X + 1)


def test_disable():
    @compiler.disable(reason="it is mine")
    def callee(x):
        return x * 2 if not compiler.is_compiling() else x

    backend, graphs = counted()
    fn = triptych.compile(lambda x: callee(x + 1) + 1, backend=backend)
    torch.testing.assert_close(fn(X), (X + 1) * 2 + 1)
    assert len(graphs) == 2
    with pytest.raises(RuntimeError, match="it is mine"):
        triptych.compile(lambda x: callee(x), backend=backend, fullgraph=True)(X)


@pytest.mark.parametrize("name", ["is_compiling", "is_dynamo_compiling"])
def test_is_compiling(name):
    asked = getattr(compiler, name)
    backend, graphs = counted()
    fn = triptych.compile(lambda x: x + 1 if asked() else x.sin(), backend=backend, fullgraph=True)
    torch.testing.assert_close(fn(X), X + 1)
    assert asked() is False and "sin" not in graphs[0].code
    assert compiler.is_exporting() is False


# -- stances -----------------------------------------------------------------------------------------------------------
def test_stances_take_backends_by_name():
    backend, graphs = counted()
    fn = triptych.compile(lambda x: x + 1, backend=backend)
    with compiler.set_stance(force_backend="eager"):
        torch.testing.assert_close(fn(X), X + 1)
    with compiler.set_stance("aot_eager_then_compile"):
        torch.testing.assert_close(fn(X), X + 1)
    assert graphs == []
    torch.testing.assert_close(fn(X), X + 1)
    with compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(fn(X), X + 1)
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            fn(X.double())
    with compiler.set_stance("force_eager"):
        torch.testing.assert_close(fn(X.double()), X.double() + 1)
    assert len(graphs) == 1


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"stance": "eagr"}, RuntimeError, "unknown stance 'eagr'"),
        ({"stance": "force_eager", "force_backend": "eager"}, RuntimeError, "force_backend"),
        ({"force_backend": "zzz"}, InvalidBackendError, "unknown backend 'zzz'"),
    ],
)
def test_wrong_stances(given, error, text):
    with pytest.raises(error, match=text):
        compiler.set_stance(**given)
    fn = triptych.compile(lambda x: x + 1, backend="eager")
    torch.testing.assert_close(fn(X), X + 1)


def test_stances_of_modules():
    model = nn.Linear(4, 4)
    backend, graphs = counted()
    compiled = triptych.compile(model, backend=backend)
    with compiler.set_stance("force_eager"):
        torch.testing.assert_close(compiled(X), model(X))
    assert graphs == []


# -- guards ------------------------------------------------------------------------------------------------------------
FACTOR = 2


def test_guard_filters():
    global FACTOR
    filters = [
        compiler.skip_guard_on_globals_unsafe,
        lambda entries: [not entry.is_global for entry in entries],
        compiler.skip_all_guards_unsafe,
    ]
    for keep in filters:
        FACTOR = 2
        backend, graphs = counted()
        fn = triptych.compile(lambda x: x * FACTOR, backend=backend, options={"guard_filter_fn": keep})
        torch.testing.assert_close(fn(X), X * 2)
        FACTOR = 3
        torch.testing.assert_close(fn(X), X * 2)
        assert len(graphs) == 1
    with pytest.raises(InvalidOptionError, match="guard_filter_fn"):
        triptych.compile(lambda x: x, options={"guard_filter_fn": 3})


def test_filters_give_one_answer_for_each_entry():
    seen = []
    names = [name for name in compiler.__all__ if name.endswith("_unsafe")]
    assert len(names) == 6

    def watch(entries):
        for name in names:
            answers = getattr(compiler, name)(entries)
            assert len(answers) == len(entries) and all(isinstance(a, bool) for a in answers)
        seen.extend(entries)
        return [True] * len(entries)

    model = nn.Linear(4, 4)
    triptych.compile(lambda x: model(x) * FACTOR, backend="eager", options={"guard_filter_fn": watch})(X)
    assert {"guard_type", "name", "value", "is_global"} <= set(dir(seen[0]))


# -- regions, arrays, hints --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"options": {"a": 1}}, InvalidOptionError),
        ({"max_reuse_entries": 0}, ValueError),
        ({"reuse_hash_fn": 3}, TypeError),
        ({"fn": 3}, TypeError),
    ],
)
def test_wrong_regions(given, error):
    with pytest.raises(error):
        compiler.nested_compile_region(**given)
    assert compiler.nested_compile_region(max_reuse_entries=2, reuse_hash_fn=hash)(len)([1]) == 1


def test_wrap_numpy_eagerly():
    np = pytest.importorskip("numpy")
    fn = compiler.wrap_numpy(lambda a, more: (np.sum(a * more["b"]), a + 1))
    total, plus = fn(X, more={"b": X})
    assert isinstance(total, torch.Tensor)
    torch.testing.assert_close(total, (X * X).sum())
    torch.testing.assert_close(plus, X + 1)


def test_wrap_numpy_compiled():
    np = pytest.importorskip("numpy")

    @compiler.wrap_numpy
    def energy(a, more):
        return np.sum(a * a * more["b"]), a + 1

    x = X.clone().requires_grad_()
    compiled = triptych.compile(energy, fullgraph=True)
    total, plus = compiled(x, more={"b": X})
    torch.testing.assert_close(total, (X**3).sum())
    torch.testing.assert_close(plus, X + 1)
    torch.testing.assert_close(torch.autograd.grad(total, x)[0], 2 * X * X)


def test_hints_about_replays_are_taken_anywhere():
    from triptych_inductor.runtime.cuda import steps  # noqa: PLC0415

    def fn(x):
        compiler.cudagraph_mark_step_begin()
        y = x + 1
        compiler.cudagraph_mark_warmup_incomplete()
        return y

    compiled = triptych.compile(fn, backend="eager", fullgraph=True)
    for call in (fn, compiled, compiled):
        before = steps.step()[1], steps.warmup()[1]
        torch.testing.assert_close(call(X), X + 1)
        assert (steps.step()[1], steps.warmup()[1]) == (before[0] + 1, before[1] + 1)


# -- artifacts ---------------------------------------------------------------------------------------------------------
def program(x):
    return torch.softmax(x * 3, -1)


ELSEWHERE = textwrap.dedent("""
    import sys, pathlib, torch, triptych
    info = triptych.compiler.load_cache_artifacts(pathlib.Path(sys.argv[1]).read_bytes())
    fn = triptych.compile(lambda x: torch.softmax(x * 3, -1))
    x = torch.arange(4.0)
    torch.testing.assert_close(fn(x), torch.softmax(x * 3, -1))
    print([stage.cached for stage in triptych.report(fn).stages], len(info.graph))
""")


@pytest.mark.slow
def test_artifacts_carry_everything_to_another_machine(tmp_path, monkeypatch):
    triptych.compile(program)(X)
    data, info = compiler.save_cache_artifacts()
    assert info.autograd and info.graph and info.inductor_artifacts == list(info.graph)
    assert b"pickle" not in data and str(tmp_path).encode() not in data
    (tmp_path / "artifacts").write_bytes(data)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "fresh"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "artifacts")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[True]")


def test_artifacts_in_this_process(monkeypatch, tmp_path):
    triptych.compile(program)(X)
    data, info = compiler.save_cache_artifacts()
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "other"))
    assert compiler.load_cache_artifacts(data) == info
    again = triptych.compile(program)
    again(X)
    assert [stage.cached for stage in triptych.report(again).stages] == [True]
    assert "graph" in str(info)


@pytest.mark.parametrize(
    "junk",
    [b"", b"junk", b"\x80\x04K\x01.", pack({"format": 1}, {"cpp/../../x": b""}), pack({"format": 2}, {}), pack([], {})]
    + [pack({"format": 1}, {"cpp/" + "0" * 64: b"x"})[:-1]],
)
def test_junk_is_no_artifact(junk):
    with pytest.raises(CacheArtifactError, match="these bytes"):
        compiler.load_cache_artifacts(junk)


def test_artifacts_are_bytes():
    with pytest.raises(TypeError, match="takes the bytes"):
        compiler.load_cache_artifacts("text")


# -- ranks -------------------------------------------------------------------------------------------------------------
RANK = textwrap.dedent("""
    import sys, torch, triptych
    place, rank = "file://" + sys.argv[1], int(sys.argv[2])
    torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    assert triptych.compiler.set_enable_guard_collectives(True) is False
    graphs = []
    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward
    fn = triptych.compile(lambda x: x + 1, backend=backend, dynamic=False)
    fn(torch.ones(2)); fn(torch.ones(2))
    assert len(graphs) == 1
    fn(torch.ones(2 + rank))   # rank 1 has to compile, so rank 0 does too
    assert len(graphs) == 2, len(graphs)
    assert triptych.compiler.set_enable_guard_collectives(False) is True
    torch.distributed.destroy_process_group()
    print("fine")
""")


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")
def test_ranks_compile_together(tmp_path):
    commands = [[sys.executable, "-c", RANK, str(tmp_path / "meeting"), str(rank)] for rank in (0, 1)]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [rank.communicate(timeout=120)[0].strip() for rank in ranks] == ["fine", "fine"]
