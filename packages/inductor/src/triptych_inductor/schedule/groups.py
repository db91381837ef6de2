"""Groups of loop nodes that will become one kernel, and the rules by which a node may join one.

A group has outer axes and reduction axes. Each member node stands in one of four places:
- "reduction": it reduces over the group's reduction axes,
- "scan": it has a running result along them, one for each (outer, reduction) point,
- "point": it runs once for each (outer, reduction) point,
- "outer": it runs once for each outer point.
In a group without reduction axes all members are "outer".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triptych_inductor.ir.extents import product
from triptych_inductor.ir.index import Index, Var
from triptych_inductor.ir.nodes import LoopNode
from triptych_inductor.schedule.matching import Hint, Match, Piece, in_order, match

# A reduction with few results and many elements is spread over threads by its elements; only one pass can be.
FEW_OUTER = 4
MANY_REDUCED = 8192
REDUCING = ("reduction", "scan")  # kinds of nodes, and places, that are tied to the reduction axes


@dataclass(eq=False)
class Member:
    """A node in a group, with its variables and addresses in terms of the group's axes."""

    node: LoopNode
    place: str
    mapping: dict[Var, Index]
    reads: list[tuple[str, Index]]
    writes: list[tuple[str, Index]]
    expressions: list[Index]

    @staticmethod
    def of(node: LoopNode, place: str) -> Member:
        identity = {v: Index({v: 1}) for v in (*node.axes, *node.reduction)}
        return Member(node, place, identity, node.reads, node.writes, node.expressions)

    @property
    def per_point(self) -> bool:
        """Whether it writes at every (outer, reduction) point."""
        return self.place in ("point", "scan")

    def substitute(self, change: dict[Var, Index]) -> None:
        """Replace the group's axes by indices over new ones."""
        self.mapping = {v: i.substitute(change) for v, i in self.mapping.items()}
        self.reads = [(b, i.substitute(change)) for b, i in self.reads]
        self.writes = [(b, i.substitute(change)) for b, i in self.writes]
        self.expressions = [i.substitute(change) for i in self.expressions]


class Group:
    """A kernel in the making."""

    def __init__(self, node: LoopNode, position: int, hint: Hint) -> None:
        self.hint = hint
        self.axes: list[Var] = list(node.axes)
        self.reduction: list[Var] = list(node.reduction)
        self.members = [Member.of(node, node.kind if node.kind in REDUCING else "outer")]
        self.positions = [position]
        self.sealed = node.kind == "scatter"
        self.written: dict[str, Member] = {name: self.members[0] for name in node.write_names}
        self.single_pass = self._is_single_pass() if node.reduction else False

    @property
    def first(self) -> int:
        return self.positions[0]

    @property
    def read_names(self) -> set[str]:
        return {name for m in self.members for name, _ in m.reads}

    def _is_single_pass(self) -> bool:
        """Whether later passes over the reduced points would be slow: reductions over slow axes, or over nearly
        everything."""
        outer, reduced = (
            self.hint(product([v.extent for v in self.axes])),
            self.hint(product([v.extent for v in self.reduction])),
        )
        if outer <= FEW_OUTER and reduced >= MANY_REDUCED:
            return True
        return not _reduces_fastest_axis(self.members, self.axes, self.reduction, self.hint)

    # -- joining ------------------------------------------------------------------------------------------------------

    def try_join(self, node: LoopNode, position: int) -> bool:
        """Add the node if the spaces match and every exchange of values inside the group is point to point."""
        if self.sealed or node.kind == "scatter" or node.device != self.members[0].node.device:
            return False
        for mine, theirs in self._anchors(node):
            found = match(theirs, mine, (*node.axes, *node.reduction), (*self.axes, *self.reduction), self.hint)
            if found is None:
                continue
            plan = self._plan(node, found)
            if plan is not None:
                self._join(node, position, found, plan)
                return True
        return False

    def join_beside(self, node: LoopNode, position: int) -> bool:
        """Add a pointwise node of the same sizes that exchanges nothing with the members."""
        if self.sealed or self.reduction or not self.read_names.isdisjoint(node.write_names):
            return False
        found = in_order(node.axes, self.axes)
        touched = node.read_names | node.write_names
        if found is None or not touched.isdisjoint(self.written):
            return False
        plan = _place(node, found, set(self.axes), set())
        if plan is None:
            return False
        self._join(node, position, found, plan)
        return True

    def _anchors(self, node: LoopNode) -> list[tuple[Index, Index]]:
        """Pairs of addresses of one buffer (the group's, the node's), those with the most variables first."""
        mine: dict[str, list[Index]] = {}
        for member in self.members:
            for name, index in (*member.writes, *member.reads):
                known = mine.setdefault(name, [])
                if index not in known:
                    known.append(index)
        pairs = []
        for name, index in (*node.reads, *node.writes):
            pairs.extend([(other, index) for other in mine.get(name, ())])
        pairs.sort(key=lambda pair: -len(pair[1].terms) - len(pair[0].terms))
        return pairs[:6]

    def _plan(self, node: LoopNode, found: Match) -> Plan | None:
        """Where the node would stand and what the group's axes would become; None when that is not legal."""
        plan = _place(node, found, set(self.axes), set(self.reduction))
        if plan is None or not self._exchange_is_pointwise(node, found, plan):
            return None
        if not self._keeps_order(node, found, plan):
            return None
        if self.single_pass and plan.place != "outer" and self._needs_reduced(node):
            return None
        return plan

    def _keeps_order(self, node: LoopNode, found: Match, plan: Plan) -> bool:
        """Whether nodes that depend on the order of their reduction axes find it in the group's new ones."""
        ordered = [(found.left, node.reduction)] if node.is_ordered else []
        for member in self.members:
            if member.node.is_ordered:
                mapping = {v: member.mapping[v].substitute(found.right) for v in member.node.reduction}
                ordered.append((mapping, member.node.reduction))
        if not ordered:
            return True
        axes = [v for v in plan.reduction(found, self.reduction) if v.extent != 1]
        return all(_in_row_major_order(mapping, wanted, self.hint) == axes for mapping, wanted in ordered)

    def _needs_reduced(self, node: LoopNode) -> bool:
        """Whether the node reads something computed after a reduction of this group."""
        late: set[str] = set()
        for member in self.members:
            if member.place == "reduction" or not late.isdisjoint(member.node.read_names):
                late |= member.node.write_names
        return not late.isdisjoint(node.read_names)

    def _exchange_is_pointwise(self, node: LoopNode, found: Match, plan: Plan) -> bool:
        """Every buffer written on one side and touched on the other must be addressed alike."""
        names = node.write_names
        for name, index in (*node.reads, *node.writes):
            member = self.written.get(name)
            if member is None:
                continue
            if member.node.part:  # pieces of a concatenation do not meet; nobody reads the whole in here
                if name in names and node.part:
                    continue
                return False
            moved = index.substitute(found.left)
            for written, other in member.writes:
                if written == name and other.substitute(found.right) != moved:
                    return False
            if member.per_point and plan.place == "outer":
                return False
        if not names:
            return True
        mine = {name: index.substitute(found.left) for name, index in node.writes}
        for member in self.members:
            for name, index in member.reads:
                if name in mine and (index.substitute(found.right) != mine[name] or member.place != plan.place):
                    return False
        return True

    def _join(self, node: LoopNode, position: int, found: Match, plan: Plan) -> None:
        for member in self.members:
            member.substitute(found.right)
            if plan.others is not None:
                member.place = plan.others
        joined = Member.of(node, plan.place)
        joined.substitute(found.left)
        self.axes, self.reduction = plan.axes(found, self.axes), plan.reduction(found, self.reduction)
        self.members.append(joined)
        self.positions.append(position)
        for name in node.write_names:
            self.written[name] = joined
        if node.kind in REDUCING:
            self.single_pass = self.single_pass or self._is_single_pass()


@dataclass
class Plan:
    """The outcome of `_place`: the node's place, a new place for all others (None: unchanged), and which pieces
    reduce."""

    place: str
    others: str | None
    outer: list[Piece]
    reduced: list[Piece]

    def axes(self, found: Match, old: Sequence[Var]) -> list[Var]:
        return _ordered(self.outer, old)

    def reduction(self, found: Match, old: Sequence[Var]) -> list[Var]:
        return _ordered(self.reduced, old)


def _ordered(pieces: list[Piece], old: Sequence[Var]) -> list[Var]:
    """Pieces in the order of the variables that they come from, slower factors first."""
    rank = {v: k for k, v in enumerate(old)}
    indexed = list(enumerate(pieces))
    indexed.sort(
        key=lambda item: (rank.get(item[1].right, len(rank)) if item[1].right is not None else len(rank), -item[0])
    )
    return [piece.var for _, piece in indexed]


def _in_row_major_order(mapping: dict[Var, Index], variables: Sequence[Var], hint: Hint) -> list[Var]:
    """The group's axes that a node's variables are made of, from the slowest to the fastest of the node's order."""
    axes: list[Var] = []
    for variable in variables:
        steps = [(hint(c), a) for a, c in mapping[variable].terms.items() if isinstance(a, Var) and a.extent != 1]
        axes += [a for _, a in sorted(steps, key=lambda step: -step[0])]
    return axes


def _place(node: LoopNode, found: Match, axes: set[Var], reduction: set[Var]) -> Plan | None:
    """Decide the node's place from which pieces pair with which axes."""
    reducing = set(node.reduction)
    both = [p for p in found.pieces if p.left is not None and p.right is not None]
    only_node = [p for p in found.pieces if p.right is None]
    only_group = [p for p in found.pieces if p.left is None]
    if reduction:
        outer = [p for p in found.pieces if p.right in axes]
        reduced = [p for p in found.pieces if p.right in reduction]
        if only_node:
            return None
        if reducing:
            fits = all((p.left in reducing) == (p.right in reduction) for p in both) and not only_group
            return Plan(node.kind, None, outer, reduced) if fits else None
        if not only_group:
            return Plan("point", None, outer, reduced)
        covers = all(p.right in axes for p in both) and all(p.right in reduction for p in only_group)
        return Plan("outer", None, outer, reduced) if covers else None
    if not reducing:
        return Plan("outer", None, both, []) if not only_node and not only_group else None
    if only_group:
        return None
    outer = [p for p in found.pieces if p.left not in reducing]
    reduced = [p for p in found.pieces if p.left in reducing]
    if not only_node:  # the group's points are the reduction's points
        return Plan(node.kind, "point", outer, reduced)
    if all(p.left in reducing for p in only_node) and all(p.left not in reducing for p in both):
        return Plan(node.kind, "outer", outer, reduced)
    return None


def _reduces_fastest_axis(members: list[Member], axes: list[Var], reduction: list[Var], hint: Hint) -> bool:
    """Whether the fastest axis of the largest read of a reducing member is one that is reduced."""
    best: Index | None = None
    for member in members:
        if member.place not in REDUCING:
            continue
        for _, index in member.reads:
            if index.terms and (best is None or len(index.variables()) > len(best.variables())):
                best = index
    if best is None:
        return True
    steps = [(hint(c), a) for a, c in best.terms.items() if isinstance(a, Var)]
    if not steps:
        return True
    return min(steps, key=lambda s: s[0])[1] in set(reduction)
