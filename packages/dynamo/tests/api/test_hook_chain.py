"""The frame hook beside others: torch.compile's, tracers, debuggers, profilers and monitoring tools."""

import bdb
import cProfile
import pstats
import sys
import threading

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo._eval_frame import hook_state

X = torch.arange(3.0)
EXPECTED = [3.0, 5.0, 7.0]


def helper(x):
    y = x + 1
    td.graph_break()
    return y * 2


def program(x):
    y = helper(x)
    return y + 1


@pytest.fixture
def compiled():
    made = td.optimize("eager")(program)
    yield made
    assert hook_state()[:2] == (None, 0), "the hook is out when no region runs"


def warmed(compiled):
    assert compiled(X).tolist() == EXPECTED
    return compiled


# -- torch.compile -----------------------------------------------------------------------------------------------------
def graphs_of_peer():
    count = []

    def backend(gm, inputs):
        count.append(gm)
        return gm.forward

    return backend, count


def test_calling_what_torch_compile_compiled(compiled):
    backend, count = graphs_of_peer()
    inner = torch.compile(lambda x: x.sin() * 2, backend=backend)
    outer = td.optimize("eager")(lambda x: inner(x) + compiled(x))
    for _ in range(3):
        assert torch.equal(outer(X), X.sin() * 2 + program(X))
    assert len(count) == 1


def test_being_called_from_what_torch_compile_compiled(compiled):
    backend, count = graphs_of_peer()
    warmed(compiled)

    @torch.compile(backend=backend)
    def outer(x):
        y = x * 3
        torch._dynamo.graph_break()
        return compiled(y) + 1

    for _ in range(3):
        assert torch.equal(outer(X), program(X * 3) + 1)
    assert count


def test_the_peer_compiles_under_a_break_of_ours():
    backend, count = graphs_of_peer()

    @td.optimize("eager")
    def outer(x):
        y = x + 1
        made = torch.compile(lambda v: v * 2, backend=backend)
        return made(y) + 1

    assert outer(X).tolist() == EXPECTED and outer(X).tolist() == EXPECTED
    assert count


# -- tracers, profilers, debuggers -------------------------------------------------------------------------------------
@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_tracing(compiled, install, warm):
    names = []

    def tracer(frame, event, arg):
        names.append((event, frame.f_code.co_name))
        return tracer

    if warm:
        warmed(compiled)
    install(tracer)
    try:
        result = compiled(X)
    finally:
        install(None)
    assert result.tolist() == EXPECTED
    assert ("call", "program") in names
    assert compiled(X).tolist() == EXPECTED and td.region_of(compiled).records


def test_a_tracer_that_raises(compiled):
    warmed(compiled)

    def tracer(frame, event, arg):
        if event == "call" and frame.f_code.co_name.startswith("program"):
            raise KeyError("from the tracer")
        return None

    sys.settrace(tracer)
    try:
        with pytest.raises(KeyError, match="from the tracer"):
            compiled(X)
    finally:
        sys.settrace(None)
    assert compiled(X).tolist() == EXPECTED


class Debugger(bdb.Bdb):
    """Steps through everything and notes lines of this file."""

    def __init__(self):
        super().__init__()
        self.lines = set()

    def user_line(self, frame):
        if frame.f_code.co_filename == self.canonic(__file__):
            self.lines.add(frame.f_lineno)
        self.set_step()


def test_debuggers(compiled):
    debugger = Debugger()
    assert debugger.runcall(warmed(compiled), X).tolist() == EXPECTED
    eager = Debugger()
    assert eager.runcall(program, X).tolist() == EXPECTED
    assert eager.lines and compiled(X).tolist() == EXPECTED


def test_profilers(compiled):
    profiler = cProfile.Profile()
    assert profiler.runcall(warmed(compiled), X).tolist() == EXPECTED
    assert pstats.Stats(profiler).total_calls > 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert compiled(X).tolist() == EXPECTED
    names = {event.key for event in profile.key_averages()}
    assert {"aten::add", "aten::mul"} <= names


def test_a_tracer_in_a_thread(compiled):
    warmed(compiled)
    seen, results = [], []
    threading.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name))
    try:
        threads = [threading.Thread(target=lambda: results.append(compiled(X).tolist())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.settrace(None)
    assert results == [EXPECTED] * 4 and seen


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring came with 3.12")
def test_monitoring(compiled):
    events, names = sys.monitoring.events, []
    sys.monitoring.use_tool_id(4, "test")
    try:
        sys.monitoring.register_callback(4, events.PY_START, lambda code, offset: names.append(code.co_name))
        sys.monitoring.set_events(4, events.PY_START)
        assert warmed(compiled)(X).tolist() == EXPECTED
    finally:
        sys.monitoring.set_events(4, 0)
        sys.monitoring.free_tool_id(4)
    assert "program" in names


def test_coverage(compiled, tmp_path):
    coverage = pytest.importorskip("coverage")
    warmed(compiled)
    measure = coverage.Coverage(data_file=str(tmp_path / "data"), include=[__file__])
    measure.start()
    try:
        result = compiled(X)
        eager = program(X)
    finally:
        measure.stop()
    assert result.tolist() == EXPECTED and torch.equal(result, eager)
    lines = measure.get_data().lines(__file__) or []
    assert program.__code__.co_firstlineno + 1 in lines
