"""Data dependencies between nodes, from the buffers that they read and write in program order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triptych_inductor.ir.computed import needed_symbols
from triptych_inductor.ir.index import Index, Quotient
from triptych_inductor.ir.nodes import ExternNode, Node, Strided, leaves


def dependencies(nodes: list[Node]) -> list[set[int]]:
    """For each node the positions of the nodes that must run before it.

    Read after write, write after read and write after write on each buffer; ordered extern calls (random numbers,
    effects) keep their sequence.

    In: nodes in program order. Out: direct dependencies only, always on earlier positions.
    """
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    ordered: int | None = None
    defined = _definitions(nodes)
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
        if defined:
            needs.update(defined[s] for s in _symbols(node) if s in defined and defined[s] < position)
        needs.discard(position)
        for name in reads:
            readers.setdefault(name, []).append(position)
        for name in writes:
            writers.setdefault(name, []).append(position)
        result.append(needs)
    return result


def _definitions(nodes: list[Node]) -> dict[Any, int]:
    """Symbols that become known by an extern call: numbers read out of tensors, sizes of data-dependent results."""
    defined: dict[Any, int] = {}
    for position, node in enumerate(nodes):
        if not isinstance(node, ExternNode):
            continue
        found = {symbol for known in node.symbols for symbol in known.free_symbols}  # a bool is known as an equation
        for buffer in node.outputs:
            if buffer is not None:
                found |= {s for extent in buffer.size for s in getattr(extent, "free_symbols", ()) if s.name[0] in "uz"}
        for symbol in found:
            defined.setdefault(symbol, position)
    return defined


def _symbols(node: Node) -> set[Any]:
    """Symbols whose values the node needs."""
    found: set[Any] = set()
    for item in _extents(node):
        found |= needed_symbols(item)
    return found


def _extents(node: Node) -> Iterator[Any]:
    if isinstance(node, ExternNode):
        for leaf in leaves((node.args, node.kwargs)):
            yield from (*leaf.size, *leaf.stride, leaf.offset) if isinstance(leaf, Strided) else (leaf,)
        return
    for var in (*node.axes, *node.reduction):
        yield var.extent
    for index in (*[i for _, i in (*node.reads, *node.writes)], *node.expressions):
        yield from _index_extents(index)


def _index_extents(index: Index) -> Iterator[Any]:
    yield index.const
    for atom, coefficient in index.terms.items():
        yield coefficient
        if isinstance(atom, Quotient):
            yield atom.divisor
            yield from _index_extents(atom.inner)


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
