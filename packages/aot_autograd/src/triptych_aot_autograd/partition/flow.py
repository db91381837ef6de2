"""Minimum cuts of flow networks, by Dinic's method.

A network is a list of edges `(tail, head, capacity)` between hashable nodes; `math.inf` is an edge that cannot be cut.
Of all minimum cuts the one nearest to the sink is taken, which does not depend on how the flow was found.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

Edge = tuple[Hashable, Hashable, float]


def cut_off(edges: Iterable[Edge], source: Hashable, sink: Hashable) -> set[Hashable]:
    """The nodes on the source's side of the minimum cut nearest to the sink (without the two).

    Components that hang together only through source and sink are solved one by one; one that the source does not
    reach has nothing to cut and gives none of its nodes. Raises `ValueError` where an uncuttable path joins the two.

    >>> sorted(cut_off([("s", "a", 3), ("a", "b", 1), ("b", "t", 2)], "s", "t"))
    ['a']
    """
    found: set[Hashable] = set()
    for part in _components(list(edges), source, sink):
        if any(tail == source for tail, _, _ in part):
            network = _Network(part)
            network.fill(source, sink)
            found |= network.names() - network.reaching(sink)
    return found - {source, sink}


def _components(edges: list[Edge], source: Hashable, sink: Hashable) -> list[list[Edge]]:
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = node = parent.setdefault(above, above)
        return node

    for tail, head, _ in edges:
        if tail != source and head != sink:
            parent[root(tail)] = root(head)
    parts: dict[Hashable, list[Edge]] = {}
    for edge in edges:
        inner = edge[1] if edge[0] == source else edge[0]
        parts.setdefault(root(inner), []).append(edge)
    return list(parts.values())


class _Network:
    """Edges in pairs: `k ^ 1` is `k` turned round; `room` is what more can flow along each."""

    def __init__(self, edges: list[Edge]) -> None:
        self.index: dict[Hashable, int] = {}
        self.leaving: list[list[int]] = []
        self.head: list[int] = []
        self.room: list[float] = []
        for tail, head, capacity in edges:
            self._add(self._number(tail), self._number(head), capacity)
            self._add(self._number(head), self._number(tail), 0)

    def _number(self, name: Hashable) -> int:
        number = self.index.setdefault(name, len(self.leaving))
        if number == len(self.leaving):
            self.leaving.append([])
        return number

    def _add(self, tail: int, head: int, capacity: float) -> None:
        self.leaving[tail].append(len(self.head))
        self.head.append(head)
        self.room.append(capacity)

    def names(self) -> set[Hashable]:
        """All nodes."""
        return set(self.index)

    def fill(self, source: Hashable, sink: Hashable) -> None:
        """Send as much as the network takes."""
        start, end = self._number(source), self._number(sink)
        while (levels := self._levels(start, end)) is not None:
            tried = [0] * len(self.leaving)
            while path := self._path(start, end, levels, tried):
                amount = min(self.room[k] for k in path)
                if amount == math.inf:
                    raise ValueError("the source reaches the sink along edges that cannot be cut")
                for k in path:
                    self.room[k] -= amount
                    self.room[k ^ 1] += amount

    def _levels(self, start: int, end: int) -> list[int] | None:
        """Distance of each node from the start, -1 for those farther than the end; None where that is not reached."""
        levels = [-1] * len(self.leaving)
        levels[start] = 0
        ring = [start]
        while ring and levels[end] < 0:
            following = []
            for node in ring:
                for k in self.leaving[node]:
                    if self.room[k] > 0 and levels[self.head[k]] < 0:
                        levels[self.head[k]] = levels[node] + 1
                        following.append(self.head[k])
            ring = following
        return levels if levels[end] >= 0 else None

    def _path(self, start: int, end: int, levels: list[int], tried: list[int]) -> list[int]:
        """Edges of a path that has room and goes one level up with each; [] where there is none left."""
        path: list[int] = []
        node = start
        while node != end:
            edges = self.leaving[node]
            while tried[node] < len(edges):
                k = edges[tried[node]]
                if self.room[k] > 0 and levels[self.head[k]] == levels[node] + 1:
                    break
                tried[node] += 1
            if tried[node] < len(edges):
                path.append(edges[tried[node]])
                node = self.head[path[-1]]
            elif not path:
                return []
            else:
                node = self.head[path.pop() ^ 1]
                tried[node] += 1
        return path

    def reaching(self, sink: Hashable) -> set[Hashable]:
        """The nodes from which more could flow to the sink."""
        names = list(self.index)
        seen = {self._number(sink)}
        stack = list(seen)
        while stack:
            for k in self.leaving[stack.pop()]:
                if self.room[k ^ 1] > 0 and self.head[k] not in seen:
                    seen.add(self.head[k])
                    stack.append(self.head[k])
        return {names[number] for number in seen}
