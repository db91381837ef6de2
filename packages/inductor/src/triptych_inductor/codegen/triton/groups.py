"""Groups of stages that share one loop over the reduction axes.

In: stage facts. Out: lists of stages; within a group no value inside the loop needs a reduction made in the group,
and no
buffer is written by one stage and touched at another index by a later one. Non-reduced stages end their group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych_inductor.codegen.triton.facts import ROOTS, LocalDef, StageFacts, operands
from triptych_inductor.loops.handlers import Value

Root = tuple[StageFacts, Value]


def tile_roots(stage: StageFacts) -> list[Root]:
    """What a stage does at every point of the reduction axes: stores there, and reductions."""
    if not stage.stage.reduced:
        return []
    found: list[Root] = []
    for node in stage.nodes:
        if node.op == "reduce":
            found.append((stage, node))
        elif node.op == "store_atomic_add" or (node.op in ROOTS and node.number in stage.on_reduction_axes):
            if node.number in stage.after_reduce:
                raise ValueError(
                    f"stage {stage.number} stores a value that depends on its own reduction at every point"
                )
            found.append((stage, node))
    return found


def point_roots(stage: StageFacts, wanted_locals: frozenset[tuple[int, int]]) -> list[Root]:
    """What a stage does once an outer point: other stores, and locals that later groups read."""
    inside = {id(node) for _, node in tile_roots(stage)}
    found: list[Root] = []
    for node in stage.nodes:
        if node.op in ROOTS and id(node) not in inside:
            found.append((stage, node))
        elif (stage.number, node.number) in wanted_locals and node.number not in stage.on_reduction_axes:
            found.append((stage, node))
    return found


def closure(roots: Sequence[Root], definitions: Mapping[tuple[int, int], LocalDef]) -> set[tuple[int, int]]:
    """(stage, value) numbers of everything that roots need, through locals."""
    seen: set[tuple[int, int]] = set()
    todo = list(roots)
    while todo:
        stage, node = todo.pop()
        key = (stage.number, node.number)
        if key in seen:
            continue
        seen.add(key)
        inside = [node, *(node.region.walk() if node.region is not None else ())]
        for inner in inside:
            if inner.op == "local_get":
                made = definitions[(stage.number, inner.number)]
                todo.append((made.stage, made.value))
        todo += [(stage, n) for n in operands(node, stage)]
    return seen


def _conflict(group: Sequence[StageFacts], stage: StageFacts) -> bool:
    """Whether a buffer that one side writes is touched by the other at another index."""
    earlier = [m for g in group for m in g.memory]
    for buffer, index, _, is_store in stage.memory:
        for other, other_index, _, other_store in earlier:
            if buffer == other and (is_store or other_store) and index != other_index:
                return True
    return False


def group_stages(
    stages: Sequence[StageFacts], definitions: Mapping[tuple[int, int], LocalDef]
) -> list[list[StageFacts]]:
    """Stages in groups, in order."""
    groups: list[list[StageFacts]] = []
    for stage in stages:
        if not groups or (stage.stage.reduced and _starts(groups[-1], stage, definitions)):
            groups.append([stage])
        else:
            groups[-1].append(stage)
    return groups


def _starts(group: Sequence[StageFacts], stage: StageFacts, definitions: Mapping[tuple[int, int], LocalDef]) -> bool:
    if not all(g.stage.reduced for g in group) or _conflict(group, stage):
        return True
    after = {(g.number, n) for g in group for n in g.after_reduce}
    roots = tile_roots(stage)
    return any(key in after for key in closure(_inputs(roots), definitions))


def _inputs(roots: Sequence[Root]) -> list[Root]:
    """The operands of roots: a root that is a reduction is not what it needs."""
    return [(stage, n) for stage, node in roots for n in operands(node, stage)]


def wanted_locals(definitions: Mapping[tuple[int, int], LocalDef]) -> frozenset[tuple[int, int]]:
    """(stage, value) numbers of the values that some `local_get` reads."""
    return frozenset((d.stage.number, d.value.number) for d in definitions.values())


def spilled_values(
    groups: Sequence[Sequence[StageFacts]], definitions: Mapping[tuple[int, int], LocalDef]
) -> dict[tuple[int, int], Root]:
    """Values of every point that a later group reads and cannot compute again, for a buffer they need was overwritten.

    They pass from loop to loop through memory instead. Keyed by (stage, value) numbers.
    """
    place = {stage.number: k for k, group in enumerate(groups) for stage in group}
    found: dict[tuple[int, int], Root] = {}
    for (user, _), made in definitions.items():
        source, value = made.stage, made.value
        if place[source.number] == place[user] or value.number not in source.on_reduction_axes:
            continue
        needs = _loads(source, value, definitions)
        for stage in (s for group in groups for s in group if s.number >= source.number):
            if place[stage.number] > place[user]:
                break
            own = place[stage.number] == place[user]
            if any(m[3] and _overwrites(m, needs, own) for m in stage.memory):
                found[(source.number, value.number)] = (source, value)
    return found


def _loads(
    source: StageFacts, value: Value, definitions: Mapping[tuple[int, int], LocalDef]
) -> set[tuple[str, object]]:
    """(buffer, index) of every load that computing a value again would make."""
    keys = closure([(source, value)], definitions)
    stages = {source.number: source} | {d.stage.number: d.stage for d in definitions.values()}
    found: set[tuple[str, object]] = set()
    for number, node_number in keys:
        for node in stages[number].nodes:
            if node.number == node_number:
                inside = [node, *(node.region.walk() if node.region is not None else ())]
                found |= {(n.attrs[0], n.attrs[1]) for n in inside if n.op == "load"}
    return found


def _overwrites(access: tuple[str, object, object, bool], needs: set[tuple[str, object]], same_loop: bool) -> bool:
    """Whether a store spoils a later load; in the loop that reads, one at the same index comes after the load."""
    buffer, index = access[0], access[1]
    return any(buffer == b and not (same_loop and index == i) for b, i in needs)
