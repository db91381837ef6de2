"""Graphs of which only parts can be recorded: how they are cut, in which order they run, and that they are right."""

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.runtime.cuda import replay
from triptych_inductor.segments import SegmentedGraph, split


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch):
    """Recordings are of the CPU, and run what they would replay."""
    monkeypatch.setattr(replay, "RECORDED", "cpu")
    monkeypatch.setattr(replay.Replay, "__call__", lambda self, args: self.run(args))


def graph_of(fn, *args):
    return make_fx(fn, tracing_mode="fake", _allow_non_fake_inputs=True)(*args)


def counted(x, y):
    """A count of elements, in the middle of work that does not need it."""
    a = torch.relu(x) * 2 + y
    found = torch.nonzero(a[0])
    b = torch.sigmoid(a) - torch.tanh(y) * a
    return b.sum(1) + 1, found + 1, b


def early(x, y):
    """What waits comes first, and is needed last."""
    found = torch.masked_select(x, x > 0)
    a = torch.relu(x).exp() * torch.cos(y) + y
    return a, found.sum() + a.sum()


def written(x, y):
    a = (x.sin() + 1) * y
    kept = torch.nonzero(a)
    b = a.cos() * 2 + 1
    x.copy_(b)
    return kept, b


@pytest.mark.parametrize("fn", [counted, early, written])
def test_right_and_in_parts(fn):
    torch.manual_seed(0)
    given = torch.randn(4, 6), torch.randn(4, 6)
    gm = graph_of(fn, *given)
    values = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    compiled = triptych_inductor.compile(gm, values, options={"cudagraphs": True})
    assert isinstance(compiled, SegmentedGraph)
    assert compiled.replay.recorded >= 1 and compiled.replay.plain >= 1
    assert "waits for the GPU" in compiled.replay.reason and "parts replayed" in str(compiled.replay)
    for _ in range(2):
        mine, theirs = ([t.clone() for t in given] for _ in range(2))
        torch.testing.assert_close(tuple(compiled(*mine)), fn(*theirs))
        torch.testing.assert_close(mine, theirs)
    assert compiled.kernels and compiled.source.count("def call(") == len(compiled.compiled)
    assert len(compiled.files) >= len(compiled.compiled) and compiled.fallbacks
    again = triptych_inductor.CompiledGraph.from_bytes(compiled.to_bytes())
    assert isinstance(again, SegmentedGraph) and again.replay == compiled.replay and again.key == compiled.key
    mine, theirs = ([t.clone() for t in given] for _ in range(2))
    torch.testing.assert_close(again(*mine), fn(*theirs))
    torch.testing.assert_close(mine, theirs)


def test_sides_change_as_seldom_as_may_be():
    given = torch.randn(4, 6), torch.randn(4, 6)
    parts, reasons = split(graph_of(counted, *given))
    assert [p.recorded for p in parts] == [True, False] and reasons[0].startswith("aten.nonzero")
    parts, _ = split(graph_of(early, *given))
    assert [p.recorded for p in parts] == [True, False, False]  # the last is too small to be worth it


def test_nothing_to_gain():
    """Too little that could be recorded, or nothing in the way."""
    x = torch.randn(5)
    assert split(graph_of(lambda x: torch.nonzero(x) + 1, x))[0] == []
    assert split(graph_of(lambda x: (x + 1).relu() * 2 + x.sin(), x))[0] == []


def test_other_devices_are_in_the_way(monkeypatch):
    monkeypatch.setattr(replay, "RECORDED", "meta")
    gm = make_fx(lambda x, y: ((x.sin() + 1) * x, y + 1), tracing_mode="fake")(
        torch.ones(3, device="meta"), torch.ones(3)
    )
    parts, reasons = split(gm)
    assert [p.recorded for p in parts] == [True, False] and reasons == ["tensors on cpu"]
