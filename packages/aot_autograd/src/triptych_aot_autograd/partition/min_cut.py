"""`min_cut_partition`: choose what is saved so that as few bytes as possible go from forward to backward.

A value that the backward reads can be saved, or computed again from other saved values. With an edge of a flow
network for
each value (its capacity is the price of saving it), the cheapest choice is a minimum cut between what is there and
what is needed. Before
the flow is computed the network is reduced: it ends at values that must be saved in any case, and its connected
components,
in a deep net one for each layer, are solved one by one.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from triptych_aot_autograd.partition.parts import (
    Partition,
    build_partition,
    eager_saved,
    is_symbol,
    node_bytes,
    tangent_dependents,
    view_root,
)
from triptych_aot_autograd.partition.rules import Recompute, cost, fusible, level, reads_in_place
from triptych_aot_autograd.partition.ways import add_statistics, way_to

if TYPE_CHECKING:
    from collections.abc import Iterable

    import networkx as nx

    from triptych_aot_autograd.joint_graph import JointGraph

SOURCE, SINK = "source", "sink"
COPY = 2.5
"""The price of a byte that is copied to be kept: read, written and kept; a little more than of one that is made so."""


@functools.cache
def _networkx() -> Any:
    """The package, which takes 0.1 s to import and is not needed where graphs come from disk."""
    return importlib.import_module("networkx")


class _Problem:
    """The choice for one joint graph, with ops up to `limit` free to be recomputed."""

    def __init__(self, joint: JointGraph, limit: Recompute, keep_materialised: bool) -> None:
        self.joint = joint
        self.limit = limit
        self.keep_materialised = keep_materialised
        self.dependents = tangent_dependents(joint)
        self.eager = eager_saved(joint)
        self.visible = {view_root(n) for n, _ in joint.of_kind("output", "base") if isinstance(n, Node)}
        self.needed = self._needed()
        self.saved: set[Node] = set()

    def _needed(self) -> list[Node]:
        """Values that ops of the backward proper (those that depend on tangents) read."""
        found: dict[Node, None] = {}
        for node in self.dependents:
            for used in node.all_input_nodes:
                if used not in self.dependents and not is_symbol(used):
                    found[used] = None
        for node, _ in self.joint.of_kind("gradient"):
            if isinstance(node, Node) and node not in self.dependents:
                found[node] = None
        return list(found)

    def savable(self, node: Node) -> bool:
        """Whether the value may be kept; see `copied`."""
        if view_root(node) is not node or not hasattr(node.meta.get("val"), "dtype"):
            return False
        return node.op in ("call_function", "placeholder")

    def copied(self, node: Node) -> bool:
        """Whether a copy is kept, as the program holds the memory, and eager would not keep it."""
        return (node.op == "placeholder" or node in self.visible) and node not in self.eager

    def fixed(self, node: Node) -> bool:
        """Whether the node may not be computed again."""
        if node.op == "placeholder" or (level(node) > self.limit and way_to(node) is None):
            return True
        return self.keep_materialised and self.savable(node) and self._materialised_in_backward(node)

    def _materialised_in_backward(self, node: Node) -> bool:
        """Whether an op that is never fused reads the value in the backward: it would be written twice."""
        stack = list(node.users)
        while stack:
            user = stack.pop()
            if view_root(user) is not user:
                stack.extend(user.users)
            elif user in self.dependents and not reads_in_place(user, node):
                return True
        return False

    def price(self, node: Node) -> float:
        """Bytes of the value; twice that where only saving brings it to memory; 0 for an input kept as it is."""
        size = float(node_bytes(node.meta["val"]))
        if self.copied(node):
            return COPY * size
        if node.op == "placeholder":
            return 0.0
        written_anyway = not fusible(node) or any(not fusible(u) for u in node.users if u not in self.dependents)
        return size if written_anyway else 2 * size

    def solve(self) -> set[Node]:
        """The values to save."""
        network = self._network()
        inner = network.subgraph([n for n in network if n not in (SOURCE, SINK)])
        for component in list(_networkx().weakly_connected_components(inner)):
            self._cut(network.subgraph([*component, SOURCE, SINK]))
        return self.saved

    def _network(self) -> nx.DiGraph:
        network = _networkx().DiGraph()
        network.add_nodes_from((SOURCE, SINK))
        stack: list[Node] = []
        entered: set[Node] = set()
        for node in self.needed:
            if self.fixed(node) and self.savable(node):
                self.saved.add(node)
        for node in self.needed:
            if node not in self.saved and node.op != "get_attr":
                network.add_edge((node, "out"), SINK)
                stack.append(node)
        while stack:
            node = stack.pop()
            if node in entered:
                continue
            entered.add(node)
            self._edge(network, node)
            if self.fixed(node):
                network.add_edge(SOURCE, (node, "in"))
                continue
            for used in self._sources(node):
                if not is_symbol(used) and used.op != "get_attr" and used not in self.saved:
                    network.add_edge((used, "out"), (node, "in"))
                    stack.append(used)
        return network

    def _sources(self, node: Node) -> Iterable[Node]:
        """What the node would be computed from again."""
        way = way_to(node) if level(node) > self.limit else None
        return node.all_input_nodes if way is None else way.inputs

    def _edge(self, network: nx.DiGraph, node: Node) -> None:
        if self.savable(node):
            network.add_edge((node, "in"), (node, "out"), capacity=self.price(node))
        else:
            network.add_edge((node, "in"), (node, "out"))  # no capacity: cannot be cut

    def _cut(self, network: nx.DiGraph) -> None:
        if network.out_degree(SOURCE) == 0:
            return  # computed from constants and saved values alone
        _, (reached, _) = _networkx().minimum_cut(network, SOURCE, SINK)
        for end in reached - {SOURCE}:
            node, side = end
            if side == "in" and (node, "out") not in reached:
                self.saved.add(node)


def min_cut_partition(joint: JointGraph, *, memory_budget: float = 1.0) -> Partition:
    """Split a joint graph, saving what costs the fewest bytes.

    Args:
        joint: the traced function.
        memory_budget: 1.0 saves time first: products, reductions and values that would have to be written again are
        not recomputed. Below
            that, saved bytes are brought down to this fraction, the cheapest recomputation first; at 0.0 only
            what cannot be recomputed is saved.

    Returns:
        The `Partition`.

    Raises:
        ValueError: `memory_budget` is not between 0 and 1.

    Example:
        >>> joint = trace_joint(lambda x: x.sin().cos().exp(), torch.ones(4, requires_grad=True))
        >>> len(joint.partition(min_cut_partition).saved_tensors) <=
        len(joint.partition(default_partition).saved_tensors)
        True
    """
    if not 0.0 <= memory_budget <= 1.0:
        raise ValueError(f"memory_budget is {memory_budget}; it must be between 0 and 1")
    if not joint.has_backward:
        return build_partition(joint, ())
    add_statistics(joint)
    fast = _Problem(joint, Recompute.CHEAP, keep_materialised=True).solve()
    if memory_budget == 1.0:
        return build_partition(joint, fast)
    small = _Problem(joint, Recompute.COSTLY, keep_materialised=False).solve()
    return build_partition(joint, _within_budget(fast, small, memory_budget))


def _bytes(nodes: set[Node]) -> int:
    return sum(node_bytes(n.meta["val"]) for n in nodes if n.op != "placeholder")


def _within_budget(fast: set[Node], small: set[Node], budget: float) -> set[Node]:
    """The smallest choice, plus as much of the fast one as the budget allows: the dearest to recompute first."""
    allowed = budget * _bytes(fast)
    chosen = set(small)
    spent = _bytes(chosen)
    for node in sorted(fast - small, key=lambda n: -cost(n, node_bytes) / max(1, node_bytes(n.meta["val"]))):
        size = node_bytes(node.meta["val"])
        if spent + size <= allowed:
            chosen.add(node)
            spent += size
    return chosen
