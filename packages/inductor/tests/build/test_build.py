"""Building, the cache on disk, containers, and failures of the compiler."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest
import torch
from triptych_inductor.build import CompileError, CompilerNotFoundError, find_compiler, host_isa
from triptych_inductor.build.cache import Store, cache_directory, digest
from triptych_inductor.build.pool import build, unit_key
from triptych_inductor.codegen.cpp.unit import Unit, make_units
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, Stage, TensorArg
from triptych_inductor.runtime import compile_kernels, load

F32 = torch.float32


def double_kernel(name="double", factor=2.0, n=40):
    def body(i, r):
        ops.store("y", i[0], ops.mul(ops.load("x", i[0]), ops.constant(factor, F32)))

    return Kernel(
        name, torch.device("cpu"), (n,), (), [Stage(body, False)], [TensorArg("x", F32, n)], [TensorArg("y", F32, n)]
    )


def assert_doubles(call, factor=2.0, n=40):
    x, y = torch.randn(n), torch.empty(n)
    call(x, y)
    torch.testing.assert_close(y, x * factor, rtol=0, atol=0)


def one_unit(**facts):
    return make_units([double_kernel(**facts)], host_isa().lanes, 1)


@pytest.fixture
def store(tmp_path):
    return Store("cpp", tmp_path / "cache")


def test_second_build_comes_from_the_store(store):
    first = build(one_unit(), store=store)
    assert first.hits == 0
    made = first.result()
    second = build(one_unit(), store=store)
    assert second.hits == 1 and not second.jobs
    assert second.result()[0].data == made[0].data
    assert_doubles(load(second.result())["double"])


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-100], lambda d: d[:-1] + bytes([d[-1] ^ 1]), lambda d: b"", lambda d: b"\x00" * 50]
)
def test_damaged_record_is_built_again(store, damage):
    key = build(one_unit(), store=store).result()[0].key
    path = store.path(key)
    path.write_bytes(damage(path.read_bytes()))
    again = build(one_unit(), store=store)
    assert again.hits == 0
    assert_doubles(load(again.result())["double"])
    assert build(one_unit(), store=store).hits == 1


def test_store_is_private_and_leaves_no_temporary_files(store):
    build(one_unit(), store=store).result()
    for folder, _, files in os.walk(store.directory):
        assert stat.S_IMODE(os.stat(folder).st_mode) & 0o077 == 0
        assert not [f for f in files if f.startswith("tmp")]


def test_store_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    store = Store("cpp", blocked)
    assert store.put(digest("a"), b"payload") is False
    assert store.get(digest("a")) is None
    assert_doubles(load(build(one_unit(), store=store).result())["double"])


def test_concurrent_writers_and_readers(store):
    key, wrong = digest("shared"), []
    payloads = [bytes([k]) * 50_000 for k in range(8)]

    def work(payload):
        for _ in range(30):
            store.put(key, payload)
            found = store.get(key)
            if found is not None and found not in payloads:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(p,)) for p in payloads]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert store.get(key) in payloads


def test_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"
    monkeypatch.delenv("TRIPTYCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "triptych"


def test_key_depends_on_source_flags_and_compiler_and_not_on_places(tmp_path):
    compiler, isa = find_compiler(), host_isa()
    (unit,), (other,) = one_unit(), one_unit(factor=3.0)
    key = unit_key(unit, compiler, isa)
    assert key != unit_key(other, compiler, isa)
    assert key != unit_key(unit, type(compiler)(compiler.path, compiler.version + "x"), isa)
    assert key == unit_key(unit, type(compiler)("/elsewhere/g++", compiler.version), isa)


def test_binaries_hold_no_paths(store):
    data = build(one_unit(), store=store).result()[0].data
    assert b"/tmp/" not in data and os.path.expanduser("~").encode() + b"/" not in data


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerNotFoundError, match="no C\\+\\+ compiler found .*g\\+\\+"):
        compile_kernels([double_kernel()], store=Store("cpp", tmp_path))


def test_named_compiler_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompilerNotFoundError, match="no-such-compiler"):
        compile_kernels([double_kernel()], store=Store("cpp", tmp_path))


def test_compiler_error_shows_command_and_output(store):
    with pytest.raises(CompileError) as caught:
        build([Unit("int f( { return 0; }", ())], store=store).result()
    text = str(caught.value)
    assert "-ffp-contract=off" in text and "error:" in text
    assert store.get(unit_key(Unit("int f( { return 0; }", ()), find_compiler(), host_isa())) is None


def test_units_are_balanced_and_named():
    units = make_units([double_kernel(f"k{i}", float(i)) for i in range(5)], 16, 2)
    assert sorted(len(u.names) for u in units) == [2, 3]
    assert sorted(n for u in units for n in u.names) == [f"k{i}" for i in range(5)]


def test_kernels_of_several_libraries_do_not_mix(store):
    calls = [load(build(one_unit(factor=float(f)), store=store).result())["double"] for f in range(2, 6)]
    for factor, call in enumerate(calls, 2):
        assert_doubles(call, float(factor))


def test_artifact_runs_in_a_process_without_compiler(store, tmp_path):
    binary = build(one_unit(), store=store).result()[0]
    path = tmp_path / "library"
    path.write_bytes(binary.data)
    script = """
import sys, torch
from triptych_inductor.build.pool import Binary
from triptych_inductor.runtime import load
binary = Binary(open(sys.argv[1], "rb").read(), "key", sys.argv[2], (("double", ("x", "y")),))
x, y = torch.randn(40), torch.empty(40)
load([binary])["double"](x, y)
assert torch.equal(y, x * 2)
"""
    environment = {**os.environ, "PATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script, str(path), binary.isa], check=True, env=environment, timeout=120)


def test_wrong_arguments():
    call = compile_kernels([double_kernel()]).result()["double"]
    with pytest.raises(TypeError, match="double takes 2 arguments, not 1"):
        call(torch.ones(40))
    with pytest.raises(TypeError, match="neither a tensor nor an int"):
        call(torch.ones(40), "text")


def test_floating_point_state_of_the_process_is_left_alone(store):
    tiny = torch.tensor([1e-42])
    before = (tiny * 0.5).item()
    assert before != 0
    assert_doubles(load(build(one_unit(), store=store).result())["double"])
    assert (tiny * 0.5).item() == before
    assert torch.get_default_dtype() is not torch.float64


def test_denormals_survive_a_kernel():
    call = compile_kernels([double_kernel(factor=0.5)]).result()["double"]
    x, y = torch.full((40,), 1e-42), torch.empty(40)
    call(x, y)
    assert torch.equal(y, x * 0.5) and (y != 0).all()


def test_thread_pool_is_the_one_of_torch():
    assert_doubles(compile_kernels([double_kernel(n=40)]).result()["double"])
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libraries = {line.split()[-1] for line in maps if "omp" in line.rsplit("/", 1)[-1] and ".so" in line}
    assert len(libraries) <= 1, libraries
