"""Data dependencies between nodes, from the buffers that they read and write in program order."""

from __future__ import annotations

from triptych_inductor.ir.nodes import ExternNode, Node


def dependencies(nodes: list[Node]) -> list[set[int]]:
    """For each node the positions of the nodes that must run before it.

    Read after write, write after read and write after write on each buffer; ordered extern calls (random numbers,
    effects) keep their sequence.

    In: nodes in program order. Out: direct dependencies only, always on earlier positions.
    """
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    ordered: int | None = None
    result: list[set[int]] = []
    for position, node in enumerate(nodes):
        needs: set[int] = set()
        reads, writes = node.read_names, node.write_names
        for name in reads:
            needs.update(writers.get(name, ()))
        for name in writes:
            needs.update(readers.get(name, ()))
            if not getattr(node, "part", False):  # pieces of a concatenation do not meet
                needs.update(writers.get(name, ()))
        if isinstance(node, ExternNode) and node.ordered:
            if ordered is not None:
                needs.add(ordered)
            ordered = position
        needs.discard(position)
        for name in reads:
            readers.setdefault(name, []).append(position)
        for name in writes:
            writers.setdefault(name, []).append(position)
        result.append(needs)
    return result


def reaches(start: set[int], goal: int, edges: list[set[int]]) -> bool:
    """Whether `goal` is among the transitive dependencies of `start`."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        k = stack.pop()
        if k == goal:
            return True
        if k in seen:
            continue
        seen.add(k)
        stack.extend(edges[k])
    return False
