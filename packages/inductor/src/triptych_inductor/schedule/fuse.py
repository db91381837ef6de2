"""The fusion pass: nodes in program order into groups, greedily, nearly linear in their number.

In: nodes and their dependencies. Out: a list of groups and extern calls in an order that respects all dependencies. A
node is offered to the groups that touch its buffers, best first (most bytes shared); it joins the first that accepts
it, where that makes no cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from triptych_inductor.ir.extents import Extent, product
from triptych_inductor.ir.nodes import ExternNode, IRGraph, LoopNode, Node
from triptych_inductor.options import Options
from triptych_inductor.schedule.dependencies import dependencies, reaches
from triptych_inductor.schedule.groups import Group

# How far back (in steps) a node looks for a group that only shares its inputs.
HORIZONTAL_DISTANCE = 24
# Groups tried for one node.
CANDIDATES = 6
# Pointwise nodes over inputs alone that share a kernel only for having the same sizes (casts of weights, small
# updates).
SIDE_BY_SIDE = 12
# Values in the bodies of one kernel.
MAX_VALUES = 1500


@dataclass
class Step:
    """A group or an extern call, with the steps that must run before it."""

    content: Group | ExternNode
    needs: set[int] = field(default_factory=set)


class Fusion:
    """One run of the pass."""

    def __init__(self, graph: IRGraph, options: Options, hint: Callable[[Extent], int]) -> None:
        self.graph = graph
        self.options = options
        self.hint = hint
        self.needs = dependencies(graph.nodes)
        self.steps: list[Step] = []
        self.edges: list[set[int]] = []  # the needs of each step
        self.side_by_side: dict[Any, int] = {}  # sizes of independent pointwise nodes -> the step that takes them
        self.step_of: list[int] = []  # node position -> step
        self.touching: dict[str, list[int]] = {}  # buffer -> steps that read or write it
        self.bytes = {
            name: hint(product(b.size)) * b.dtype.itemsize if b.size is not None else 0
            for name, b in graph.buffers.items()
        }

    def run(self) -> list[Step]:
        for position, node in enumerate(self.graph.nodes):
            needs = {self.step_of[k] for k in self.needs[position]}
            chosen = self._choose(position, node, needs) if isinstance(node, LoopNode) else None
            if chosen is None:
                chosen = len(self.steps)
                content = node if isinstance(node, ExternNode) else Group(node, position, self.hint)
                self.steps.append(Step(content))
                self.edges.append(self.steps[-1].needs)
                self._offer(chosen, node, needs)
            self.steps[chosen].needs |= needs - {chosen}
            self.step_of.append(chosen)
            for name in node.read_names | node.write_names:
                known = self.touching.setdefault(name, [])
                if chosen not in known:
                    known.append(chosen)
        return _in_order(self.steps)

    def _choose(self, position: int, node: LoopNode, needs: set[int]) -> int | None:
        """The step that the node joins, or None."""
        if not self.options.fusion or node.kind == "scatter" or node.alone:
            return None
        for candidate in self._candidates(node, needs):
            group = self.steps[candidate].content
            assert isinstance(group, Group)
            if len(group.members) >= self.options.max_fusion_nodes or group.members[0].node.alone:
                continue
            if sum(len(m.node.values) for m in group.members) + len(node.values) > MAX_VALUES:
                continue
            others = needs - {candidate}
            if others and reaches(others, candidate, self.edges):
                continue
            if group.try_join(node, position):
                return candidate
        return self._beside(position, node, needs)

    def _beside(self, position: int, node: LoopNode, needs: set[int]) -> int | None:
        """A step of nodes of the same kind that depend on nothing and share nothing: one launch for all of them."""
        kind = _independent_kind(node, needs)
        step = self.side_by_side.get(kind) if kind is not None else None
        if step is None:
            return None
        group = self.steps[step].content
        assert isinstance(group, Group)
        if len(group.members) >= SIDE_BY_SIDE or not group.join_beside(node, position):
            return None
        return step

    def _offer(self, step: int, node: Node, needs: set[int]) -> None:
        """Remember a new step that others may join side by side."""
        kind = _independent_kind(node, needs) if isinstance(node, LoopNode) else None
        if kind is not None:
            self.side_by_side[kind] = step

    def _candidates(self, node: LoopNode, needs: set[int]) -> list[int]:
        """Groups that touch the node's buffers, those sharing most bytes first."""
        score: dict[int, int] = {}
        latest = len(self.steps) - 1
        for name in node.read_names | node.write_names:
            for step in self.touching.get(name, ()):
                if not isinstance(self.steps[step].content, Group):
                    continue
                if step not in needs and latest - step > HORIZONTAL_DISTANCE:
                    continue
                weight = 2 if step in needs else 1
                score[step] = score.get(step, 0) + weight * self.bytes[name]
        return sorted(score, key=lambda step: (-score[step], -step))[:CANDIDATES]


def _independent_kind(node: LoopNode, needs: set[int]) -> Any:
    """What a pointwise node without dependencies has in common with those it may run beside; None for other nodes."""
    if needs or node.kind != "pointwise" or len(node.values) > 40:
        return None
    return node.device, tuple([v.extent for v in node.axes]), len(node.reads)


def _in_order(steps: list[Step]) -> list[Step]:
    """Steps sorted so that needs come first, otherwise as made; needs renumbered by identity of position."""
    done: dict[int, int] = {}
    ordered: list[Step] = []

    for root in range(len(steps)):
        stack = [root]
        while stack:
            k = stack[-1]
            if k in done:
                stack.pop()
                continue
            missing = sorted((n for n in steps[k].needs if n not in done), reverse=True)
            if missing:
                stack.extend(missing)
                continue
            done[k] = len(ordered)
            ordered.append(steps[k])
            stack.pop()
    for step in ordered:
        step.needs = {done[n] for n in step.needs}
    return ordered


def fuse(graph: IRGraph, options: Options, hint: Callable[[Extent], int]) -> list[Step]:
    """Group the nodes of a graph into kernels and put everything in a valid order."""
    return Fusion(graph, options, hint).run()


def describe(steps: list[Step]) -> str:
    """The printable result of the pass."""
    lines = []
    for k, step in enumerate(steps):
        content = step.content
        if isinstance(content, ExternNode):
            lines.append(f"{k}: {content}")
        else:
            names = ", ".join(m.node.name + ("" if m.place == "outer" else f" ({m.place})") for m in content.members)
            sizes = (
                " x ".join(str(v.extent) for v in content.axes),
                " x ".join(str(v.extent) for v in content.reduction),
            )
            lines.append(f"{k}: kernel[{sizes[0]} | {sizes[1]}] of {names}")
    return "\n".join(lines)
