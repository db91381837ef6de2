"""CUDA graphs: which graphs can be recorded, and the order of copies, records and replays, with a recording in
Python."""

import contextlib
import copy
import ctypes
import threading

import numpy
import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.runtime import objects
from triptych_inductor.runtime.cuda import replay, steps
from triptych_inductor.runtime.cuda.replay import Replay, ReplayFacts, replay_facts


class FakeGraph:
    """Stands for a CUDA graph: what ran while it was recorded runs again, on the same tensors."""

    made = []

    def __init__(self):
        self.work, self.replays = None, 0
        FakeGraph.made.append(self)

    def replay(self):
        self.replays += 1
        self.work()


class FakeStream:
    """Notes who waits for whom."""

    current, waits = None, []

    def __init__(self, name):
        self.name = name

    def wait_stream(self, other):
        FakeStream.waits.append((self.name, other.name))


@pytest.fixture
def recording(monkeypatch):
    """torch's recording replaced by one that keeps a closure; gives a function that wraps work on tensors."""
    FakeGraph.made = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: object())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **_: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: FakeStream.current)
    monkeypatch.setattr(replay, "RECORDED", "cpu")
    pool = replay.Pool(0)
    pool.handle()
    FakeGraph.made, FakeStream.waits, FakeStream.current = [], [], FakeStream("first")
    monkeypatch.setattr(replay, "pool_of", lambda device: pool)

    def wrap(function, facts=ReplayFacts("", frozenset())):
        """`function(inputs, outputs)` writes preallocated outputs; a replay repeats it on the recorded tensors."""

        def run(args):
            inputs = list(args)
            args.clear()
            result, work = function(inputs)
            if FakeGraph.made and FakeGraph.made[-1].work is None:
                FakeGraph.made[-1].work = work
            return result

        return Replay(run, facts)

    return wrap


def doubled(inputs):
    out = torch.empty_like(inputs[0])

    def work():
        torch.mul(inputs[0], 2, out=out)

    work()
    return (out,), work


def test_second_call_records_and_outputs_are_kept(recording):
    call = recording(doubled)
    kept = []
    for k in range(6):
        x = torch.full((4,), float(k))
        kept.append((k, call([x])[0]))
    assert len(FakeGraph.made) == 1 and FakeGraph.made[0].replays >= 4
    for k, out in kept:
        assert out.tolist() == [2.0 * k] * 4


def test_weights_are_read_where_they_lie(recording):
    weight = torch.ones(4)

    def scaled(inputs):
        out = torch.empty(4)
        work = lambda: torch.mul(inputs[0], inputs[1], out=out)
        work()
        return [out], work

    call = recording(scaled)
    for k in range(4):
        assert call([torch.full((4,), float(k)), weight])[0].tolist() == [k * float(weight[0])] * 4
        weight.add_(1)
    (recorded,) = call.recordings.values()
    assert 1 not in recorded.copied
    moved = torch.full((4,), 10.0)
    assert call([torch.ones(4), moved])[0].tolist() == [10.0] * 4  # a new address: recorded again, now copied
    assert 1 in recorded.copied


@pytest.mark.skipif(objects.native() is None, reason="without torch's C functions there is no quick comparison")
def test_calls_like_the_last_are_not_looked_up(recording, monkeypatch):
    weight, looked_up = torch.ones(4), []

    def scaled(inputs):
        out = torch.empty(4)
        work = lambda: torch.mul(inputs[0], inputs[1], out=out)
        work()
        return [out], work

    call, key = recording(scaled), replay._key
    monkeypatch.setattr(replay, "_key", lambda *given: looked_up.append(1) or key(*given))
    for k in range(8):
        assert call([torch.full((4,), float(k)), weight])[0].tolist() == [k * float(weight[0])] * 4
        weight.add_(1)
    assert len(looked_up) == 2  # the run as it is and the recording
    moved = torch.full((4,), 10.0)
    for _ in range(3):
        assert call([torch.ones(4), moved])[0].tolist() == [10.0] * 4
    assert len(looked_up) == 3 and len(FakeGraph.made) == 2


def test_written_inputs_are_written_back(recording):
    def counted(inputs):
        work = lambda: inputs[0].add_(1)
        work()
        return (inputs[0],), work

    call = recording(counted, ReplayFacts("", frozenset({0})))
    for k in range(5):
        x = torch.full((3,), float(k))
        (out,) = call([x])
        if k not in (0, 1):  # the recording in Python runs once while it records
            assert out is x and x.tolist() == [k + 1.0] * 3


def test_views_of_inputs_are_views_of_this_calls_inputs(recording):
    call = recording(lambda inputs: ((inputs[0][1:], 7), lambda: None))
    for _ in range(4):
        x = torch.rand(4)
        view, number = call([x])
        assert view.data_ptr() == x[1:].data_ptr() and number == 7


def test_expanded_tensors(recording):
    def expanded(inputs):
        row = torch.empty(3)
        work = lambda: torch.mul(inputs[0][0], 2, out=row)
        work()
        return (row.expand(2, 3),), work

    call = recording(expanded)
    for k in range(4):
        (out,) = call([torch.full((3,), float(k)).expand(2, 3)])
        assert out.tolist() == [[2.0 * k] * 3] * 2


def test_shapes_are_recorded_apart(recording):
    call = recording(doubled)
    for n in (3, 5, 3, 5, 3, 5):
        assert call([torch.ones(n)])[0].shape == (n,)
    assert len(call.recordings) == 2


def test_replays_on_several_streams_take_turns(recording):
    """They share memory between their inputs and outputs."""
    calls = [recording(doubled), recording(doubled)]
    other = FakeStream("second")
    for _ in range(3):
        for call in calls:
            call([torch.ones(3)])
    assert FakeStream.waits == []
    first, FakeStream.current = FakeStream.current, other
    calls[0]([torch.ones(3)])
    calls[1]([torch.ones(3)])
    FakeStream.current = first
    calls[1]([torch.ones(3)])
    assert FakeStream.waits == [("second", "first"), ("first", "second")]


def test_failed_recording_runs_as_it_is(recording, monkeypatch):
    call = recording(doubled)

    def refuse(*_, **__):
        raise RuntimeError("no recording today")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    call([torch.ones(2)])
    with pytest.warns(UserWarning, match="no recording today"):
        assert call([torch.ones(2)])[0].tolist() == [2.0, 2.0]
    assert "no recording today" in call.reason
    assert call([torch.ones(2)])[0].tolist() == [2.0, 2.0]


def unowned(tensor):
    """The tensor's memory as a recorded kernel knows it: by its address alone."""
    size = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype).untyped_storage().nbytes()
    memory = numpy.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(tensor.data_ptr()))
    return torch.from_numpy(memory).view(tensor.dtype).as_strided(tensor.size(), tensor.stride())


FORWARD = ReplayFacts("", frozenset(), private=frozenset({1}))


def pair(recording):
    """A forward that keeps `sin(x)` for its backward, which multiplies it with a gradient."""

    def forward(inputs):
        out, kept = torch.empty(3), torch.empty(3)

        def work():
            torch.sin(inputs[0], out=kept)
            torch.mul(kept, 2, out=out)

        work()
        return (out, kept), work

    def backward(inputs):
        out, given = torch.empty(3), [unowned(a) for a in inputs]
        work = lambda: torch.mul(*given, out=out)
        work()
        return (out,), work

    return recording(forward, FORWARD), recording(backward)


def test_what_a_backward_reads_is_lent(recording):
    """It is read where the forward's recording left it: no copy out, no copy in."""
    forward, backward = pair(recording)
    x, gradient, addresses = torch.empty(3), torch.ones(3), []
    for k in range(8):
        out, kept = forward([x.fill_(k)])
        addresses.append(kept.data_ptr())
        (result,) = backward([kept, gradient])
        del kept
        assert out.tolist() == (2 * torch.full((3,), float(k)).sin()).tolist()
        assert result.tolist() == torch.full((3,), float(k)).sin().tolist()
    assert len(set(addresses[2:])) == 1 and len(forward.recordings) == 1
    (last,) = [r for r in backward.recordings.values() if r.graph is not None]
    assert last.copied == set() and last.graph.replays >= 4


@pytest.mark.parametrize("ahead", [2, 3, 4])
def test_forwards_ahead_of_their_backwards(recording, ahead):
    """What is lent stays as it is: a second recording, then calls as they are."""
    forward, backward = pair(recording)
    for k in range(8):
        inputs = [torch.full((3,), float(k + j) / 3) for j in range(ahead)]
        kept = [forward([x])[1] for x in inputs]
        for x, value in zip(inputs, kept, strict=True):
            assert torch.equal(value, x.sin())
            assert torch.equal(backward([value, torch.full((3,), 2.0)])[0], 2 * x.sin())
        del kept, value
    assert len([r for r in forward.recordings.values() if r.graph is not None]) == 2
    assert not forward.reason and not backward.reason


def test_views_of_what_was_lent_count(recording):
    forward, _ = pair(recording)
    for _ in range(3):
        forward([torch.ones(3)])
    view = forward([torch.full((3,), 0.5)])[1][1:]
    for k in range(4):
        assert torch.equal(forward([torch.full((3,), float(k))])[1], torch.full((3,), float(k)).sin())
        assert torch.equal(view, torch.full((2,), 0.5).sin())


def test_a_result_that_is_kept_too_is_copied_once(recording):
    """Autograd watches results for changes: the backward gets the tensor that the program has."""

    def both(inputs):
        out = torch.empty(3)
        work = lambda: torch.exp(inputs[0], out=out)
        work()
        return (out, out), work

    call = recording(both, FORWARD)
    for k in range(4):
        result, kept = call([torch.full((3,), float(k))])
        assert result is kept and torch.equal(result, torch.full((3,), float(k)).exp())
    assert not any(r.loans.held for r in call.recordings.values())


# -- what a program says about its steps -------------------------------------------------------------------------------
def replays(call):
    return [r.graph.replays for r in call.recordings.values() if r.graph is not None]


@pytest.mark.parametrize("marked", [True, False])
def test_a_step_moves_out_what_earlier_steps_keep(recording, marked):
    """A program that keeps its losses keeps all that their backward would read: it still replays one recording."""
    forward, backward = pair(recording)
    inputs, kept = [torch.full((3,), k / 5) for k in range(8)], []
    for x in inputs:
        if marked:
            steps.mark_step_begin()
        kept.append(forward([x])[1])
    recorded = [r for r in forward.recordings.values() if r.graph is not None]
    assert (len(recorded), sum(r.graph.replays for r in recorded)) == ((1, 7) if marked else (2, 2))
    for x, value in zip(inputs, kept, strict=True):
        assert torch.equal(value, x.sin())
        assert torch.equal(backward([value, torch.ones(3)])[0], x.sin())


def test_views_of_an_earlier_step_stay(recording):
    forward, _ = pair(recording)
    for k in range(3):
        forward([torch.full((3,), float(k))])
    view = forward([torch.full((3,), 0.5)])[1][1:]
    for k in range(4):
        steps.mark_step_begin()
        assert torch.equal(forward([torch.full((3,), float(k))])[1], torch.full((3,), float(k)).sin())
    assert torch.equal(view, torch.full((2,), 0.5).sin())


def test_a_step_of_another_thread_moves_nothing(recording):
    forward, _ = pair(recording)
    for k in range(2):
        forward([torch.full((3,), float(k))])
    kept = forward([torch.ones(3)])[1]
    address = kept.data_ptr()
    thread = threading.Thread(target=lambda: (steps.mark_step_begin(), forward([torch.zeros(3)])))
    thread.start()
    thread.join()
    assert kept.data_ptr() == address and torch.equal(kept, torch.ones(3).sin())


def test_a_run_that_was_no_warm_up_is_not_the_last(recording):
    call, x = recording(doubled), torch.ones(3)
    for _ in range(3):
        call([x])
        steps.mark_warmup_incomplete()
    assert not replays(call)
    for _ in range(3):
        assert torch.equal(call([x])[0], 2 * x)
    assert replays(call) == [2]
    steps.mark_warmup_incomplete()  # what is recorded stays
    call([x])
    assert replays(call) == [3]


@pytest.fixture
def recorded_graphs(recording, monkeypatch):
    """Compiled graphs are recorded and replayed: a replay runs the graph on the recorded inputs, into its outputs."""

    class Recorded(Replay):
        def __init__(self, run, facts):
            def function(inputs):
                result = run(list(inputs))
                given = [unowned(a) for a in inputs]

                def work():
                    for old, new in zip(result, run(list(given)), strict=True):
                        if old.data_ptr() != new.data_ptr():
                            old.copy_(new)

                return result, work

            super().__init__(recording(function, facts).run, facts)
            made.append(self)

    made = []
    monkeypatch.setattr(triptych_inductor.compiled, "Replay", Recorded)
    return made


def test_training_with_recorded_graphs(recorded_graphs):
    """Steps with one forward and with several ahead of their backwards, and a graph that is gone through twice."""
    autograd = pytest.importorskip("triptych_aot_autograd")
    torch.manual_seed(0)
    options = {"cudagraphs": True, "disk_cache": False}
    compiler = lambda gm, inputs: triptych_inductor.compile(gm, inputs, options=options).call
    boxed = lambda gm, inputs: _boxed(compiler(gm, inputs))
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 4), torch.nn.Softmax(-1))
    twin = copy.deepcopy(model)
    compiled = autograd.aot_module(model, boxed)
    for step in range(12):
        batches = [torch.randn(5, 6) for _ in range(1 + step % 3)]
        losses = [compiled(b).square().sum() for b in batches]
        expected = [twin(b).square().sum() for b in batches]
        for loss, other in zip(losses, expected, strict=True):
            for _ in range(2 if step == 10 else 1):
                loss.backward(retain_graph=step == 10)
                other.backward(retain_graph=step == 10)
        del losses, loss
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
            with torch.no_grad():
                p.sub_(0.1 * p.grad)
                q.sub_(0.1 * q.grad)
            if step % 2:
                p.grad = q.grad = None
    forward, backward = recorded_graphs
    assert forward.facts.private and not backward.facts.private and not forward.reason and not backward.reason
    assert any(r.loans.held and r.graph.replays > 2 for r in forward.recordings.values() if r.graph is not None)
    assert any(r.graph is not None and r.graph.replays > 1 for r in backward.recordings.values())


def _boxed(call):
    run = lambda args: call(args)
    run._boxed_call = True
    return run


def test_reasons_come_from_the_graph():
    gm = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(3))
    assert replay_facts(gm).reason == "tensors on cpu"
    compiled = triptych_inductor.compile(gm, [torch.ones(3)], options={"cudagraphs": True})
    assert compiled(torch.ones(3)).tolist() == [2.0] * 3 and compiled.replay.reason == "tensors on cpu"
    assert str(compiled.replay) == "runs without CUDA graphs (tensors on cpu)"


def test_written_inputs_are_found():
    def step(x, buffer):
        buffer.view(-1).add_(x)
        return x * 2

    gm = make_fx(step, tracing_mode="fake")(torch.ones(4), torch.ones(2, 2))
    assert replay_facts(gm).mutated == {1}


def test_modes_ask_for_replays():
    assert triptych_inductor.list_mode_options("reduce-overhead") == {"cudagraphs": True}
    assert replay._MOST_RECORDINGS >= 8
