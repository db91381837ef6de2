"""Final axes of a group: splitting that removes quotients, order by memory, merging of axes that are contiguous
together.

Each step replaces the group's axes and substitutes them in all members.
"""

from __future__ import annotations

from collections.abc import Iterator

from triptych_inductor.ir.extents import quotient, same, times
from triptych_inductor.ir.index import ZERO, Index, Quotient, Var
from triptych_inductor.schedule.groups import Group
from triptych_inductor.schedule.matching import Hint


def finalize(group: Group, hint: Hint) -> None:
    """Split, sort and merge the group's axes."""
    split_quotients(group)
    sort_axes(group, hint)
    merge_axes(group)


def _indices(group: Group) -> Iterator[Index]:
    for member in group.members:
        for _, index in (*member.reads, *member.writes):
            yield index
        yield from member.expressions


def _substitute(group: Group, change: dict[Var, Index]) -> None:
    for member in group.members:
        member.substitute(change)


def split_quotients(group: Group) -> None:
    """`v // d` and `v % d` of an axis of extent d * n become two axes: addressing turns affine."""
    for _ in range(8):
        wanted = _wanted_split(group)
        if wanted is None:
            return
        var, divisor, count = wanted
        slow, fast = Var(var.name, count), Var(var.name, divisor)
        _substitute(group, {var: Index({slow: divisor, fast: 1})})
        for axes in (group.axes, group.reduction):
            if var in axes:
                place = axes.index(var)
                axes[place : place + 1] = [slow, fast]


def _wanted_split(group: Group) -> tuple[Var, object, object] | None:
    for index in _indices(group):
        for atom in index.atoms():
            if not isinstance(atom, Quotient) or len(atom.inner.terms) != 1:
                continue
            ((var, step),) = atom.inner.terms.items()
            if not isinstance(var, Var) or step != 1 or atom.inner.const != 0:
                continue
            count = quotient(var.extent, atom.divisor)
            if count is not None and count != 1:
                return var, atom.divisor, count
    return None


def sort_axes(group: Group, hint: Hint) -> None:
    """Axes by falling strides: those of the writes decide, reads break ties. The last axis is the best one to
    vectorise."""
    addresses = [
        (weight, index)
        for member in group.members
        for weight, accesses in ((4, member.writes), (1, member.reads))
        for _, index in accesses
        if index.terms
    ]

    def slowness(var: Var) -> tuple[float, ...]:
        total = 0.0
        votes = 0.0
        for weight, index in addresses:
            coefficient = index.terms.get(var)
            if coefficient is not None:
                total += weight * abs(hint(coefficient)) ** 0.5
                votes += weight
        return (-(total / votes) if votes else float("-inf"),)

    group.axes.sort(key=slowness)
    if not _keeps_reduction_order(group):
        group.reduction.sort(key=slowness)


def _keeps_reduction_order(group: Group) -> bool:
    """Positions (argmax) and scans go in the order of the reduction axes."""
    return any(member.node.is_ordered for member in group.members)


def merge_axes(group: Group) -> None:
    """Neighbouring axes that every address walks as one become one."""
    group.axes = _merged(group, group.axes)
    group.reduction = _merged(group, group.reduction)


def _merged(group: Group, axes: list[Var]) -> list[Var]:
    result = list(axes)
    k = 0
    while k + 1 < len(result):
        slow, fast = result[k], result[k + 1]
        if all(_walks_as_one(index, slow, fast) for index in (*_indices(group), *_compounds(group, slow, fast))):
            var = Var(fast.name, times(slow.extent, fast.extent))
            _substitute(group, {slow: ZERO, fast: Index({var: 1})})
            result[k : k + 2] = [var]
            k = max(k - 1, 0)
        else:
            k += 1
    return result


def _compounds(group: Group, *variables: Var) -> Iterator[Index]:
    """Variables of members that are made of several axes, some of `variables` among them: a body computes addresses of
    them, with quotients that the addresses here have lost.
    """
    for member in group.members:
        for index in member.mapping.values():
            if len(index.terms) > 1 and any(v in index.terms for v in variables):
                yield index


def _walks_as_one(index: Index, slow: Var, fast: Var) -> bool:
    """Whether the index depends on the two axes only through slow * extent(fast) + fast."""
    if not same(index.terms.get(slow, 0), times(index.terms.get(fast, 0), fast.extent)):
        return False
    return all(_walks_as_one(atom.inner, slow, fast) for atom in index.terms if isinstance(atom, Quotient))
