"""Minimum cuts against networkx, which torch brings."""

import math
import random

import networkx as nx
import pytest
from triptych_aot_autograd.partition.flow import cut_off


def random_network(seed):
    """Layers of nodes with edges forward, some of them uncuttable, none of these from end to end."""
    rng = random.Random(seed)
    layers = [[f"{depth}.{k}" for k in range(rng.randint(1, 5))] for depth in range(rng.randint(1, 6))]
    edges = []
    for k, (here, there) in enumerate(zip([["s"], *layers], [*layers, ["t"]], strict=True)):
        for tail in here:
            for head in rng.sample(there, rng.randint(1, len(there))):
                free = rng.random() < 0.3 and k != len(layers)
                edges.append((tail, head, math.inf if free else float(rng.randint(1, 9))))
    for _ in range(rng.randint(0, 6)):  # back edges
        a, b = rng.choice(sum(layers, [])), rng.choice(sum(layers, []))
        if a != b and not any(e[:2] == (a, b) for e in edges):
            edges.append((a, b, float(rng.randint(1, 5))))
    return edges


@pytest.mark.parametrize("seed", range(150))
def test_cuts_are_those_of_networkx(seed):
    edges = random_network(seed)
    network = nx.DiGraph()
    for tail, head, capacity in edges:
        network.add_edge(tail, head, **({} if capacity == math.inf else {"capacity": capacity}))
    value, (reached, _) = nx.minimum_cut(network, "s", "t")
    inside = cut_off(edges, "s", "t")
    crossing = sum(c for tail, head, c in edges if tail in inside | {"s"} and head not in inside)
    assert crossing == value
    assert inside == reached - {"s"}


def test_components_that_the_source_does_not_reach():
    assert cut_off([("s", "a", 2.0), ("a", "t", 1.0), ("b", "t", 1.0)], "s", "t") == {"a"}


def test_no_cut():
    with pytest.raises(ValueError, match="cannot be cut"):
        cut_off([("s", "a", math.inf), ("a", "t", math.inf)], "s", "t")


def test_long_chains():
    names = [f"n{k}" for k in range(5000)]
    edges = [("s", names[0], math.inf), *((a, b, 2.0) for a, b in zip(names, names[1:], strict=False))]
    edges[2500] = (*edges[2500][:2], 1.0)
    assert len(cut_off([*edges, (names[-1], "t", math.inf)], "s", "t")) == 2500
