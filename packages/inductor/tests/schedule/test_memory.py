"""The memory plan: what is held for later buffers never raises the peak, and each buffer's memory has one owner."""

import random

import pytest
import torch
from triptych_inductor.ir.nodes import Buffer, IRGraph, Strided
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


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_peak(seed):
    draw = random.Random(seed)
    count = draw.randint(3, 30)
    sizes = {f"b{k}": draw.choice([1, 4, 4, 16, 16, 64]) for k in range(count)}
    graph = graph_of({"x": 32, **sizes}, {"x": "input"})
    made, usages = ["x"], []
    for name in sizes:
        usages.append(Usage({name, *draw.sample(made, min(len(made), draw.randint(1, 3)))}, [name]))
        made.append(name)
    returned = draw.sample(sorted(sizes), draw.randint(1, 2))
    graph.outputs = [Strided(graph.buffers[n], graph.buffers[n].size, (1,)) for n in returned]
    (plain, left), (held, left_too) = both_plans(graph, [*usages, Usage(set(returned), [])])
    assert held <= plain and left == left_too == set(returned)
