"""Stage grouping: kernel stages to loop groups, each recorded once as one SSA body.

In: `Kernel` (define-by-run stages). Out: a list of `Group`; neighbouring stages share a group, and so a loop, where no
later one reads a reduction of the group and all accesses to a buffer that the group writes are at one index. Within a
group a local that was set is simply the value (nothing is stored for it unless a later group reads it). `print` a group
to read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from triptych_inductor.loops.handlers import (
    STORES,
    Block,
    Recorded,
    RecordingHandler,
    Value,
    install,
    loop_variables,
)
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg


@dataclass
class Group:
    """Stages that share one loop. `after`: values made of reduction results, evaluated once an outer point after the
    loop."""

    recorded: Recorded
    reduced: bool
    origin: tuple[str, ...]
    reads: set[str] = field(default_factory=set)  # locals of earlier groups
    sets: dict[str, Value] = field(default_factory=dict)  # locals that this group leaves
    after: set[int] = field(default_factory=set)  # numbers of the values that depend on a reduction

    @property
    def reductions(self) -> list[Value]:
        return [n for n in self.recorded.block.nodes if n.op == "reduce"]

    @property
    def scans(self) -> list[Value]:
        return [n for n in self.recorded.block.nodes if n.op == "scan"]

    def body(self) -> list[Value]:
        """Values of the loop, in order."""
        return [n for n in self.recorded.block.nodes if n.number not in self.after and n.op != "reduce"]

    def epilogue(self) -> list[Value]:
        """Values after the loop, in order."""
        return [n for n in self.recorded.block.nodes if n.number in self.after]

    def support(self) -> list[Value]:
        """Values of the body that the epilogue uses (they depend on no reduction variable), in order."""
        wanted: set[int] = set()
        for node in reversed(self.recorded.block.nodes):
            if node.op != "reduce" and (node.number in self.after or node.number in wanted):
                _mark_sources(node, wanted, self.recorded)
        return [n for n in self.body() if n.number in wanted]

    def __str__(self) -> str:
        return f"group of {', '.join(self.origin) or 'unnamed ops'}\n{self.recorded}"


class _GroupRecorder(RecordingHandler):
    """Records several stages into one body; locals set in it are read as values."""

    def __init__(self, dtypes: dict[str, torch.dtype]) -> None:
        super().__init__(dtypes)
        self.sets: dict[str, Value] = {}
        self.reads: set[str] = set()

    def local_set(self, name: str, value: Value) -> None:
        super().local_set(name, value)
        self.sets[name] = value

    def local_get(self, name: str) -> Value:
        if name in self.sets:
            return self.sets[name]
        self.reads.add(name)
        return super().local_get(name)


def buffers_and_locals(kernel: Kernel) -> list[TensorArg | LocalArg]:
    """Everything in a kernel that has a name and a dtype."""
    return [*kernel.inputs, *kernel.outputs, *kernel.local]


def group_stages(kernel: Kernel) -> list[Group]:
    """The groups of a kernel, in order; locals that nobody reads and values that nobody uses are gone."""
    dtypes = {a.name: a.dtype for a in buffers_and_locals(kernel)}
    members: list[list[Stage]] = []
    current: Group | None = None
    groups: list[Group] = []
    for stage in kernel.stages:
        alone = _record([stage], kernel, dtypes)
        if current is not None and _may_join(current, alone):
            members[-1].append(stage)
            current = _record(members[-1], kernel, dtypes)
            groups[-1] = current
        else:
            members.append([stage])
            current = alone
            groups.append(alone)
    _drop_unread(groups)
    return groups


def _record(stages: list[Stage], kernel: Kernel, dtypes: dict[str, torch.dtype]) -> Group:
    outer = loop_variables("i", len(kernel.outer))
    reduction = loop_variables("r", len(kernel.reduction)) if stages[0].reduced else ()
    handler = _GroupRecorder(dtypes)
    with install(handler):
        for stage in stages:
            stage.body(outer, reduction)
    recorded = Recorded(handler.block, outer, reduction, handler.indirect_values)
    origin = tuple(dict.fromkeys(o for s in stages for o in s.origin))
    group = Group(recorded, stages[0].reduced, origin, handler.reads, dict(handler.sets))
    for node in handler.block.nodes:
        sources = [*node.args, *(_region_sources(node.region) if node.region else ())]
        if any(a.op == "reduce" or a.number in group.after for a in sources):
            group.after.add(node.number)
    return group


def _region_sources(block: Block) -> list[Value]:
    return [a for n in block.walk() for a in n.args]


def _accesses(group: Group) -> dict[str, set[Any]]:
    """Indices at which each buffer is accessed."""
    found: dict[str, set[Any]] = {}
    for node in group.recorded.walk():
        if node.op == "load" or node.op in STORES:
            found.setdefault(node.attrs[0], set()).add(node.attrs[1])
    return found


def _may_join(group: Group, stage: Group) -> bool:
    """Whether a stage may run in the loop of the group before it."""
    if group.reduced != stage.reduced:
        return False
    late = {name for name, value in group.sets.items() if value.op == "reduce" or value.number in group.after}
    if stage.reads & late:
        return False
    written = {b for g in (group, stage) for b, _ in g.recorded.stores()}
    first, second = _accesses(group), _accesses(stage)
    for buffer in written & first.keys() & second.keys():
        indices = first[buffer] | second[buffer]
        if len(indices) > 1 or _depends_on_indirect(indices):
            return False
    return True


def _depends_on_indirect(indices: set[Any]) -> bool:
    return any(s.name.startswith("indirect") for i in indices if isinstance(i, sympy.Expr) for s in i.free_symbols)


def _drop_unread(groups: list[Group]) -> None:
    """Remove locals that no later group reads, then values without a use."""
    wanted: set[str] = set()
    for group in reversed(groups):
        group.sets = {name: value for name, value in group.sets.items() if name in wanted}
        live: set[int] = set()
        last_set = {name: None for name in group.sets}
        for node in reversed(group.recorded.block.nodes):
            _mark(node, live, last_set, group.recorded)
        group.recorded.block.nodes = [n for n in group.recorded.block.nodes if n.number in live]
        group.reads = {n.attrs[0] for n in group.recorded.walk() if n.op == "local_get"}
        wanted |= group.reads


def _mark(node: Value, live: set[int], sets: dict[str, None], recorded: Recorded) -> None:
    if node.op == "local_set":
        keep = node.attrs[0] in sets
        sets.pop(node.attrs[0], None)
    else:
        keep = node.op in STORES or node.op == "indirect" or node.number in live
    if not keep:
        return
    live.add(node.number)
    _mark_sources(node, live, recorded)


def _mark_sources(node: Value, live: set[int], recorded: Recorded) -> None:
    for symbol in _index_symbols(node):
        if symbol in recorded.indirect:
            live.add(recorded.indirect[symbol].number)
    live.update(a.number for a in node.args)
    if node.region is not None:
        for inner in node.region.nodes:
            _mark_sources(inner, live, recorded)
        live.add(node.region.result.number)  # type: ignore[union-attr]


def _index_symbols(node: Value) -> set[sympy.Symbol]:
    if node.op in ("load", "index_expr", "indirect", *STORES):
        expr = node.attrs[0] if node.op in ("index_expr", "indirect") else node.attrs[1]
        return expr.free_symbols if isinstance(expr, sympy.Expr) else set()
    return set()
