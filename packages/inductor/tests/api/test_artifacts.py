"""Compiled graphs as bytes and files: round trips, a fresh process without a compiler, damage."""

import os
import subprocess
import sys

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor import ArtifactError, CompiledGraph


def fn(x, w):
    return torch.softmax(x @ w, -1).sum(0), x.relu()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    x, w = torch.randn(6, 20), torch.randn(20, 30)
    gm = make_fx(fn, tracing_mode="fake")(x, w)
    path = tmp_path_factory.mktemp("package") / "graph.triptych"
    compiled = triptych_inductor.aot_compile(gm, [x, w], path)
    return path, compiled, x, w


def test_round_trip(package):
    path, compiled, x, w = package
    again = CompiledGraph.from_bytes(compiled.to_bytes())
    assert again.key == compiled.key and again.source == compiled.source and again.kernels == compiled.kernels
    torch.testing.assert_close(again(x, w), fn(x, w))
    assert CompiledGraph.from_bytes(again.to_bytes()).key == compiled.key


def test_fresh_process_needs_no_compiler(package, tmp_path):
    path, _, x, w = package
    torch.save((x, w), tmp_path / "inputs.pt")
    script = (
        "import sys, torch, triptych_inductor\n"
        "x, w = torch.load(sys.argv[2])\n"
        "out = triptych_inductor.load(sys.argv[1])(x, w)\n"
        "torch.testing.assert_close(out, (torch.softmax(x @ w, -1).sum(0), x.relu()))\n"
        "assert not any(name.startswith(('torch._dynamo', 'torch._inductor')) for name in sys.modules)\n"
    )
    environment = {
        **os.environ,
        "PATH": str(tmp_path),
        "CXX": "no-such-compiler",
        "TRIPTYCH_CACHE_DIR": str(tmp_path / "c"),
    }
    subprocess.run([sys.executable, "-c", script, str(path), str(tmp_path / "inputs.pt")], check=True, env=environment)


def test_constants_travel():
    table = torch.randn(3, 4).t()

    def with_table(x):
        return (x + table,)

    x = torch.randn(4, 3)
    compiled = triptych_inductor.compile(make_fx(with_table)(x), [x])
    again = CompiledGraph.from_bytes(compiled.to_bytes())
    torch.testing.assert_close(again(x), with_table(x))


def test_damage_is_noticed(package):
    data = package[1].to_bytes()
    for bad in (data[:-1], b"junk" + data, data[:200] + bytes([data[200] ^ 1]) + data[201:], b""):
        with pytest.raises(ArtifactError):
            CompiledGraph.from_bytes(bad)


def test_no_user_name_or_path_in_the_artifact(package):
    data = package[1].to_bytes()
    assert os.path.expanduser("~").encode() not in data or os.path.expanduser("~") == "/"
    assert os.getcwd().encode() not in data


def test_interpreted_graphs_stay_home():
    x = torch.randn(3)
    compiled = triptych_inductor.compile(make_fx(lambda x: (x + 1,))(x), [x], options={"interpret": True})
    with pytest.raises(ArtifactError, match="no machine code"):
        compiled.to_bytes()
