"""Facts about recorded stages: what each value depends on, where locals come from, what touches memory.

In: a `Kernel`. Out: one `StageFacts` a stage. Every later pass asks these and never looks into bodies again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from triptych_inductor.loops.handlers import Block, Recorded, Value, record
from triptych_inductor.loops.kernel import Kernel, Stage

ROOTS = frozenset({"store", "store_atomic_add", "store_reduction"})


@dataclass
class StageFacts:
    """One recorded stage. `memory`: (buffer, index, dtype, is_store) of every access, in order."""

    number: int
    stage: Stage
    recorded: Recorded
    memory: list[tuple[str, Any, torch.dtype, bool]] = field(default_factory=list)
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    after_reduce: set[int] = field(default_factory=set)  # numbers of values that depend on a reduction of this stage
    on_reduction_axes: set[int] = field(default_factory=set)  # numbers of values that differ along the reduction axes

    @property
    def nodes(self) -> list[Value]:
        return self.recorded.block.nodes

    @property
    def has_scans(self) -> bool:
        return any(n.op == "scan" for n in self.nodes)

    @property
    def reductions(self) -> list[Value]:
        return [n for n in self.nodes if n.op == "reduce"]


@dataclass(frozen=True)
class LocalDef:
    """Where a local gets its value: the stage, and the value set."""

    stage: StageFacts
    value: Value


def inner_nodes(block: Block) -> Iterable[Value]:
    """The nodes of a block, those of its regions first."""
    for node in block.nodes:
        if node.region is not None:
            yield from inner_nodes(node.region)
        yield node


def analyse(kernel: Kernel) -> list[StageFacts]:
    """Record every stage and find its facts; `TypeError` where a body breaks a dtype rule."""
    dtypes: dict[str, torch.dtype] = {a.name: a.dtype for a in (*kernel.inputs, *kernel.outputs)}
    dtypes.update({a.name: a.dtype for a in kernel.local})
    per_point = {a.name for a in kernel.local if a.per_point}
    stages: list[StageFacts] = []
    invariant: set[str] = set()  # locals that do not differ along the reduction axes
    for number, stage in enumerate(kernel.stages):
        axes = len(kernel.reduction) if stage.reduced else 0
        facts = StageFacts(number, stage, record(stage.body, len(kernel.outer), axes, dtypes))
        _memory(facts, dtypes)
        _dependence(facts, per_point | invariant)
        for node in facts.nodes:
            if node.op == "local_set" and node.args[0].number not in facts.on_reduction_axes:
                invariant.add(node.attrs[0])
        stages.append(facts)
    return stages


def _memory(facts: StageFacts, dtypes: dict[str, torch.dtype]) -> None:
    reads, writes = set(), set()
    for node in facts.recorded.walk():
        if node.op == "load":
            facts.memory.append((node.attrs[0], node.attrs[1], dtypes[node.attrs[0]], False))
            reads.add(node.attrs[0])
        elif node.op in ROOTS:
            facts.memory.append((node.attrs[0], node.attrs[1], dtypes[node.attrs[0]], True))
            writes.add(node.attrs[0])
    facts.reads, facts.writes = frozenset(reads), frozenset(writes)


def _dependence(facts: StageFacts, invariant_locals: set[str]) -> None:
    """Fill `after_reduce` and `on_reduction_axes`; a masked region counts as one value with its mask."""
    moving: set[Any] = set(facts.recorded.reduction)
    indirect = {node.number: symbol for symbol, node in facts.recorded.indirect.items()}

    def visit(node: Value) -> tuple[bool, bool]:
        along = any(a.number in facts.on_reduction_axes for a in node.args)
        after = node.op == "reduce" or any(a.number in facts.after_reduce for a in node.args)
        if node.op in ("load", "index_expr", *ROOTS):
            along = along or bool(symbols_of(index_of(node)) & moving)
            after = after or any(n.number in facts.after_reduce for n in indirect_nodes(node, facts))
        elif node.op == "local_get":
            along = along or (node.attrs[0] not in invariant_locals and facts.stage.reduced)
        elif node.op == "scan":
            along = True
        elif node.op == "reduce":
            along = False
        if node.region is not None:
            for inner in node.region.nodes:
                inner_along, inner_after = visit(inner)
                along, after = along or inner_along, after or inner_after
        if along:
            facts.on_reduction_axes.add(node.number)
            if node.number in indirect:
                moving.add(indirect[node.number])
        if after:
            facts.after_reduce.add(node.number)
        return along, after

    for node in facts.nodes:
        visit(node)


def symbols_of(index: Any) -> set[Any]:
    """The symbols of an index or extent."""
    return set() if isinstance(index, int) else index.free_symbols


def index_of(node: Value) -> Any:
    """The index expression among a node's attributes, 0 where it has none."""
    if node.op in ("load", *ROOTS):
        return node.attrs[1]
    return node.attrs[0] if node.op in ("index_expr", "indirect") else 0


def indirect_nodes(node: Value, facts: StageFacts) -> list[Value]:
    """The `indirect` values that a node's index uses, which are no arguments of it."""
    table = facts.recorded.indirect
    return [table[s] for s in sorted(symbols_of(index_of(node)), key=str) if s in table]


def operands(node: Value, facts: StageFacts) -> list[Value]:
    """Everything a value needs: its arguments, loaded indices, and what its region takes from outside."""
    found = [*node.args, *indirect_nodes(node, facts)]
    if node.region is not None:
        inside = list(inner_nodes(node.region))
        own = {n.number for n in inside}
        for inner in inside:
            found += [n for n in (*inner.args, *indirect_nodes(inner, facts)) if n.number not in own]
    return found


def local_definitions(stages: Sequence[StageFacts]) -> dict[tuple[int, int], LocalDef]:
    """For every `local_get`, by (stage number, value number): the latest definition before it."""
    latest: dict[str, LocalDef] = {}
    found: dict[tuple[int, int], LocalDef] = {}
    for stage in stages:
        for node in inner_nodes(stage.recorded.block):
            if node.op == "local_set":
                latest[node.attrs[0]] = LocalDef(stage, node.args[0])
            elif node.op == "local_get":
                if node.attrs[0] not in latest:
                    raise ValueError(f"local {node.attrs[0]!r} is read before any stage sets it")
                found[(stage.number, node.number)] = latest[node.attrs[0]]
    return found
