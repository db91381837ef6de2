"""The cache of whole graphs: what is found again, what is not, and that nothing wrong ever is."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.build.cache import Store, touched
from triptych_inductor.cache import graphs, guards, text
from triptych_inductor.lowering.registry import LOWERINGS

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "1")
    return tmp_path


def softmax(x, y):
    return torch.softmax(x * y, -1) + 1


def traced(fn, *inputs, mode="real"):
    return make_fx(fn, tracing_mode=mode)(*inputs)


def compile(fn, *inputs, **options):
    compiled = triptych_inductor.compile(traced(fn, *inputs), inputs, options=options)
    torch.testing.assert_close(compiled(*inputs), fn(*inputs))
    return compiled


X, Y = torch.randn(8, 16), torch.randn(16)


def test_the_second_compile_is_a_look_up():
    first, second = compile(softmax, X, Y), compile(softmax, X, Y)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first.cache_key == second.cache_key != ""
    assert (first.source, first.files, first.kernels, first.key) == (
        second.source,
        second.files,
        second.kernels,
        second.key,
    )
    assert ("graph", first.cache_key) in touched.keys()


OTHERS = {
    "size": (softmax, (torch.randn(8, 32), torch.randn(32)), {}),
    "stride": (softmax, (torch.randn(16, 8).t(), Y), {}),
    "dtype": (softmax, (X.double(), Y.double()), {}),
    "offset": (softmax, (X, torch.randn(17)[1:]), {}),
    "constant": (lambda x, y: torch.softmax(x * y, -1) + 2, (X, Y), {}),
    "kind of constant": (lambda x, y: torch.softmax(x * y, -1) + 1.0, (X, Y), {}),
    "option": (softmax, (X, Y), {"exact": True}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_differs_is_compiled(what):
    compile(softmax, X, Y)
    fn, inputs, options = OTHERS[what]
    assert not compile(fn, *inputs, **options).from_cache


def test_tensors_in_the_graph_count_with_their_content():
    table = torch.arange(16.0)
    fn = lambda x: x + table
    compile(fn, X)
    assert compile(fn, X).from_cache
    table[3] = -1
    assert not compile(fn, X).from_cache


def test_graphs_that_are_not_kept_say_why(caplog):
    caplog.set_level("INFO", "triptych_inductor.cache")
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(text.Uncacheable, match=r"layout torch\.sparse"):
        text.graph_text(torch.fx.GraphModule({}, torch.fx.Graph()), [sparse])
    triptych_inductor.register_pass("nothing")(lambda gm: None)
    try:
        assert not any(compile(softmax, X, Y).from_cache for _ in range(2))
    finally:
        triptych_inductor.unregister_pass("nothing")
    assert "graph passes of users: nothing" in caplog.text
    before = LOWERINGS[aten.mul]
    triptych_inductor.register_lowering(aten.mul)(lambda ctx, x, y: before(ctx, x, y))
    try:
        assert not any(compile(softmax, X, Y).from_cache for _ in range(2))
    finally:
        LOWERINGS[aten.mul] = before
    assert "a lowering of users for aten.mul.Tensor" in caplog.text


def test_functions_of_users_have_no_text():
    assert text.function_text(torch.sin) == "torch.sin"
    assert text.function_text(torch.nn.functional.relu) == "torch.nn.functional.relu"
    with pytest.raises(text.Uncacheable, match="is not one of torch"):
        text.function_text(softmax)


def test_switched_off_nothing_is_read_or_written(folder):
    assert not any(compile(softmax, X, Y, disk_cache=False).from_cache for _ in range(2))
    assert not list(folder.rglob("*"))


def test_the_environment_switches_it_off(monkeypatch, folder):
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "0")
    assert not any(compile(softmax, X, Y).from_cache for _ in range(2))
    assert not (folder / "graph").exists() and (folder / "cpp").exists()


@pytest.mark.parametrize("size", [0, 10, 100, -1, -100])
def test_truncated_records_are_made_anew(size):
    key = compile(softmax, X, Y).cache_key
    path = Store("graph").path(key)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    assert not compile(softmax, X, Y).from_cache
    assert compile(softmax, X, Y).from_cache
    assert path.read_bytes() == data


def test_whole_records_of_something_else_are_made_anew():
    key = compile(softmax, X, Y).cache_key
    for payload in (b"", b"text", triptych_inductor.container.pack({"version": "0"}, {})):
        Store("graph").put(key, payload)
        assert not compile(softmax, X, Y).from_cache


def test_another_compiler_compiles_again_and_none_takes_what_there_is(monkeypatch):
    compile(softmax, X, Y)
    monkeypatch.setattr(graphs, "compiler_text", lambda: "another compiler")
    assert not compile(softmax, X, Y).from_cache
    monkeypatch.setattr(graphs, "compiler_text", lambda: "")
    assert compile(softmax, X, Y).from_cache


# -- sizes -------------------------------------------------------------------------------------------------------------
def halves(x):
    return x[: x.shape[0] // 2] * 2 if x.shape[0] % 2 == 0 else x * 3


def symbolic(fn, *inputs):
    return traced(fn, *inputs, mode="symbolic")


def values(gm):
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def test_symbolic_sizes_are_found_for_every_size():
    shape = lambda x: (x.sin() * 2).sum(0)
    gm = symbolic(shape, torch.randn(6, 4))
    first = triptych_inductor.compile(gm, values(gm))
    gm = symbolic(shape, torch.randn(10, 4))
    second = triptych_inductor.compile(gm, values(gm))
    assert second.from_cache and not first.from_cache
    x = torch.randn(10, 4)
    torch.testing.assert_close(second(x), shape(x))


def test_decisions_of_the_compiler_are_asked_again():
    """A fact that was decided while compiling is a guard of the program that takes the record, or the record is not
    taken."""
    gm = symbolic(lambda x: x + 1, torch.randn(6))
    recorder = guards.GuardRecorder(values(gm))
    size = values(gm)[0].shape[0]
    assert size % 2 == 0 and size < 20
    facts = recorder.facts()
    assert [f[0] for f in facts] == [f"({size.node.expr} % 2) == 0", f"{size.node.expr} < 20"]
    for length, right in ((8, True), (7, False), (22, False)):
        other = symbolic(lambda x: x + 1, torch.randn(length))
        environment = values(other)[0].shape[0].node.shape_env
        count = len(environment.guards)
        assert guards.hold(facts, values(other)) is right
        assert (len(environment.guards) > count) is right


def test_facts_known_before_are_part_of_the_key():
    one, two = symbolic(lambda x: x + 1, torch.randn(6)), symbolic(lambda x: x + 1, torch.randn(6))
    assert guards.environment_text(values(one)) == guards.environment_text(values(two))
    assert values(two)[0].shape[0] > 3
    assert guards.environment_text(values(one)) != guards.environment_text(values(two))


# -- processes ---------------------------------------------------------------------------------------------------------
PROGRAM = textwrap.dedent("""
    import logging, sys, torch, triptych_inductor
    from torch.fx.experimental.proxy_tensor import make_fx
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    fn = lambda x: torch.softmax(x, -1) * 3
    compiled = triptych_inductor.compile(make_fx(fn)(x), [x])
    torch.testing.assert_close(compiled(x), fn(x))
    print(compiled.from_cache)
""")


def run(**environment):
    """The program in a process of its own; tensors are made in Python: the library that makes them is a record too."""
    environment = {"TRIPTYCH_PLAIN_TENSORS": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ | environment, check=True
    )
    return done.stdout.strip()


def test_processes_share_records_and_need_no_compiler_then(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(lambda _: run(), range(2))) <= {"False", "True"}
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(PATH=str(empty), CXX="") == "True"
    left = [p for p in Path(os.environ["TRIPTYCH_CACHE_DIR"]).rglob("*") if p.is_file()]
    assert len(left) == 2  # the graph and its kernels, nothing half written
