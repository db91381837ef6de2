"""The memory plan: what is held for later buffers never raises the peak, and each buffer's memory has one owner; arenas
hold no two buffers in one place at a time."""

import random

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.ir.nodes import Buffer, IRGraph, Strided
from triptych_inductor.schedule import arena as arenas
from triptych_inductor.schedule import memory
from triptych_inductor.schedule.memory import Usage, plan

CPU = torch.device("cpu")


def graph_of(sizes, kinds=None):
    """A graph with one-dimensional float buffers of these sizes, by name."""
    graph = IRGraph()
    for name, size in sizes.items():
        graph.buffers[name] = Buffer(name, (size,), (1,), torch.float32, CPU, (kinds or {}).get(name, "temporary"))
    return graph


def walk(graph, steps, usages):
    """Run a plan: the most elements alive, after checking that nothing is used before its time or after its end."""
    owners, alive, most = {}, 0, 0
    for step, usage in zip(steps, usages, strict=True):
        alive += sum(a.size // 4 for a in step.opens)
        owners |= {place.buffer.name: True for place in step.places}
        for buffer, source in step.allocate:
            if source is None:
                alive += buffer.size[0]
            else:
                assert source.size == buffer.size and owners.pop(source.name)
            owners[buffer.name] = True
        most = max(most, alive)
        for name in usage.touched:
            assert graph.buffers[name].kind != "temporary" or name in owners, name
        for buffer in step.free:
            if buffer.kind == "temporary":
                del owners[buffer.name]
                alive -= buffer.size[0]
        alive -= sum(a.size // 4 for a in step.closes)
        for closed in step.closes:
            for place in closed.places:
                del owners[place.buffer.name]
    return most, set(owners)


def both_plans(graph, usages):
    return [walk(graph, plan(graph, usages, reuse, int), usages) for reuse in (False, True)]


def test_memory_is_taken_over_where_that_costs_nothing():
    graph = graph_of({"a": 8, "b": 8, "c": 8})
    usages = [Usage({"a"}, ["a"]), Usage({"a", "b"}, ["b"]), Usage({"b", "c"}, ["c"])]
    graph.outputs = [Strided(graph.buffers["c"], (8,), (1,))]
    steps = plan(graph, [*usages, Usage({"c"}, [])], True, int)
    (allocation,) = steps[2].allocate
    assert allocation[0].name == "c" and allocation[1].name == "a"


def test_memory_is_not_held_across_a_peak():
    """Between the end of `a` and its heir `d` lies the peak: holding `a` there would raise it."""
    graph = graph_of({"a": 8, "b": 1, "big": 100, "d": 8})
    usages = [
        Usage({"a"}, ["a"]),
        Usage({"a", "b"}, ["b"]),
        Usage({"b", "big"}, ["big"]),
        Usage({"big", "d"}, ["d"]),
        Usage({"d"}, []),
    ]
    graph.outputs = [Strided(graph.buffers["d"], (8,), (1,))]
    plain, held = both_plans(graph, usages)
    assert plain == held == (108, {"d"})
    usages[2:3] = [Usage({"b"}, [])]  # without the peak it is
    usages[3] = Usage({"b", "d"}, ["d"])
    usages.append(Usage({"d", "big"}, ["big"]))
    graph.outputs.append(Strided(graph.buffers["big"], (100,), (1,)))
    assert any(source for step in plan(graph, usages, True, int) for _, source in step.allocate)


def random_program(seed, sizes=(1, 4, 4, 16, 16, 64), most=30):
    """A graph and the usages of its steps."""
    draw = random.Random(seed)
    count = draw.randint(3, most)
    chosen = {f"b{k}": draw.choice(sizes) for k in range(count)}
    graph = graph_of({"x": 32, **chosen}, {"x": "input"})
    made, usages = ["x"], []
    for name in chosen:
        near = made[-8:] if draw.random() < 0.8 else made
        usages.append(Usage({name, *draw.sample(near, min(len(near), draw.randint(1, 3)))}, [name]))
        made.append(name)
    returned = draw.sample(sorted(chosen), draw.randint(1, 2))
    graph.outputs = [Strided(graph.buffers[n], graph.buffers[n].size, (1,)) for n in returned]
    return graph, [*usages, Usage(set(returned), [])], set(returned)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_peak(seed):
    graph, usages, returned = random_program(seed)
    (plain, left), (held, left_too) = both_plans(graph, usages)
    assert held <= plain and left == left_too == returned


@pytest.mark.parametrize("seed", range(60))
def test_arenas_of_random_programs(seed, monkeypatch):
    """Members never overlap while both are alive, views are shared by equals alone, and no peak rises."""
    monkeypatch.setattr(arenas, "GAIN", -1000)
    monkeypatch.setitem(arenas.LIMITS, "cpu", arenas.Limits(4))
    graph, usages, returned = random_program(seed, sizes=(1, 4, 16, 16, 64), most=60)
    plain, _ = walk(graph, plan(graph, usages, False, int), usages)
    steps = plan(graph, usages, True, int, True)
    held, left = walk(graph, steps, usages)
    assert held <= plain and left == returned
    found = [a for step in steps for a in step.opens]
    for arena in found:
        names = {place.buffer.name for place in arena.places}
        assert not names & returned and "x" not in names
        for place in arena.places:
            assert place.offset + place.size <= arena.size and place.size == place.buffer.size[0] * 4
            assert place.buffer.offset * 4 == place.offset
            uses = [k for k, usage in enumerate(usages) if place.buffer.name in usage.touched]
            assert arena.first <= place.first == uses[0] and place.last == uses[-1] <= arena.last
            if place.twin is not None:
                assert (place.twin.offset, place.twin.form) == (place.offset, place.form)
            for other in arena.places:
                apart = other.offset >= place.offset + place.size or place.offset >= other.offset + other.size
                assert other is place or apart or other.first > place.last or place.first > other.last


def test_many_random_programs_have_an_arena(monkeypatch):
    monkeypatch.setattr(arenas, "GAIN", -1000)
    monkeypatch.setitem(arenas.LIMITS, "cpu", arenas.Limits(4))
    programs = [random_program(seed, sizes=(1, 4, 16, 16, 64), most=60) for seed in range(60)]
    made = [any(step.opens for step in plan(graph, usages, True, int, True)) for graph, usages, _ in programs]
    assert sum(made) > 15


def _layers(x, weights):
    """Values of several dtypes and lives, windows of them given to products, and some that stay."""
    kept = []
    for w in weights:
        wide = torch.cat([x @ w, x.sin() @ w], 1)
        x = (wide[:, :6] @ w).tanh() + wide[:, 6:] @ w.t()
        half = x.half() * 2
        kept.append((half @ w.half()).float().sum(1) + (x > 0).sum(1))
        x = x + torch.linalg.inv(x @ x.t() + 3 * torch.eye(6)) @ x
    return x, kept[0], sum(kept)


@pytest.mark.parametrize("interpret", [False, True])
def test_a_wrapper_with_an_arena_is_right(interpret, monkeypatch):
    monkeypatch.setattr(arenas, "GAIN", -1000)
    monkeypatch.setattr(memory.Room, "fits", lambda *_: True)
    torch.manual_seed(0)
    given = torch.randn(6, 6), [torch.randn(6, 6) / 3 for _ in range(5)]
    gm = make_fx(lambda x, *w: _layers(x, w), tracing_mode="fake")(given[0], *given[1])
    options = {"interpret": interpret, "disk_cache": False}
    compiled = triptych_inductor.compile(gm, [given[0], *given[1]], options=options)
    assert "arena_cpu = new_uint8_" in compiled.source and "arena_cpu: " in compiled.schedule
    plain = triptych_inductor.compile(gm, [given[0], *given[1]], options=options | {"memory_arenas": False})
    assert "arena" not in plain.source
    for _ in range(2):
        torch.testing.assert_close(tuple(compiled(given[0], *given[1])), _layers(*given), rtol=1e-3, atol=1e-3)
    out = compiled(given[0], *given[1])
    assert all(t.untyped_storage().nbytes() == t.numel() * t.element_size() for t in out)  # of their own


def test_what_an_op_may_keep_is_not_overwritten():
    """An op of somebody's library keeps its argument; what is computed later lies elsewhere."""
    held = []
    with torch.library._scoped_library("keeping", "DEF") as library:
        library.define("hold(Tensor x) -> Tensor")
        library.impl("hold", lambda x: (held.append(x), x.sum())[1], "CPU")
        library.impl("hold", lambda x: x.new_empty(()), "Meta")

        def fn(x, w):
            total = torch.ops.keeping.hold(x @ w)
            y = x @ w.t()
            for _ in range(6):
                y = (y @ w).tanh()
            return total, y

        x, w = torch.randn(4, 4), torch.randn(4, 4)
        gm = make_fx(fn, tracing_mode="fake")(x, w)
        compiled = triptych_inductor.compile(gm, [x, w], options={"disk_cache": False})
        compiled(x, w)
        torch.testing.assert_close(held[-1], x @ w)
