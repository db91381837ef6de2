"""Online softmax: the maximum of a row and the sum of exponentials of what lies below it, in one loop over the row.

A loop that sums exp(v - m) behind one that found m = max(v) reads the row a second time. Here both run together: each
block's maximum moves m, and the sum so far is scaled to the new one (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018). One exponential an element, as in two loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from triptych_inductor.codegen.triton.facts import LocalDef, StageFacts, local_definitions
from triptych_inductor.codegen.triton.groups import closure, group_stages, tile_roots
from triptych_inductor.loops.handlers import Value

Node = tuple[StageFacts, Value]
Definitions = Mapping[tuple[int, int], LocalDef]


@dataclass(frozen=True)
class OnlineSum:
    """A sum of exp(v - m) that runs along with the loop that finds m = max(v)."""

    top: Node  # the reduction that gives m
    total: Node  # the reduction that gives the sum


def _source(node: Node, definitions: Definitions) -> Node:
    """The value itself behind locals."""
    stage, value = node
    while value.op == "local_get":
        made = definitions[(stage.number, value.number)]
        stage, value = made.stage, made.value
    return stage, value


def _same(a: Node, b: Node, definitions: Definitions) -> bool:
    """Whether two values are the same function of memory (whose loads no store between spoils)."""
    (stage, one), (other_stage, other) = _source(a, definitions), _source(b, definitions)
    if one is other:
        return True
    if (one.op, one.attrs, one.dtype) != (other.op, other.attrs, other.dtype) or one.region or other.region:
        return False
    if one.op in ("reduce", "scan", "random") or stage.recorded.indirect or other_stage.recorded.indirect:
        return False
    pairs = zip(one.args, other.args, strict=True)
    return all(_same((stage, x), (other_stage, y), definitions) for x, y in pairs)


def _maximum_below(total: Node, definitions: Definitions) -> tuple[Node, Node] | None:
    """(m, v) of a reduction that sums exp(v - m) in float32 or float64; None for others."""
    stage, node = total
    if node.op != "reduce" or node.attrs[0] != "sum" or node.attrs[1] not in (torch.float32, torch.float64):
        return None
    stage, power = _source((stage, node.args[0]), definitions)
    if power.op != "exp":
        return None
    stage, difference = _source((stage, power.args[0]), definitions)
    if difference.op != "sub":
        return None
    return _source((stage, difference.args[1]), definitions), (stage, difference.args[0])


def online_sums(
    first: Sequence[StageFacts], second: Sequence[StageFacts], definitions: Definitions
) -> list[OnlineSum] | None:
    """The sums of the second group, where all that it does along the rows can run in the first one's loop."""
    tops = {id(node): (stage, node) for stage in first for node in stage.reductions if node.attrs[0] == "max"}
    written = {b for stage in first for b in stage.writes}
    found = []
    for root in (r for stage in second for r in tile_roots(stage)):
        parts = _maximum_below(root, definitions)
        if parts is None:
            return None
        (_, top), value = parts
        if id(top) not in tops or top.attrs[1] is not root[1].attrs[1]:
            return None
        owner, top = tops[id(top)]
        if not _same(value, (owner, top.args[0]), definitions) or written & _read_by(value, definitions):
            return None
        found.append(OnlineSum((owner, top), root))
    return found or None


def is_one_loop(stages: Sequence[StageFacts]) -> bool:
    """Whether several passes over a row run as one loop, as a maximum and the sum of exponentials below it do."""
    definitions = local_definitions(stages)
    groups = [g for g in group_stages(stages, definitions) if any(tile_roots(s) for s in g)]
    return len(groups) == 2 and online_sums(groups[0], groups[1], definitions) is not None


def _read_by(value: Node, definitions: Definitions) -> set[str]:
    """Buffers that a value is loaded from."""
    keys = closure([value], definitions)
    stages = {value[0].number: value[0]} | {d.stage.number: d.stage for d in definitions.values()}
    return {
        node.attrs[0]
        for number, count in keys
        for node in stages[number].recorded.walk()
        if node.number == count and node.op == "load"
    }
