"""In which order a set iterates: hashes decide, and what was in it before.

Beside a set of constants the trace keeps a real one, and changes it as the program changes its own. Where a member is
no constant, members come in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.values.containers.sets import SetValue

Members = dict[Any, Value]


class HasOrder:
    """Whether a set iterates as it did while tracing."""

    def __init__(self, marks: Iterable[Any]) -> None:
        self.marks = tuple(marks)

    def __call__(self, found: Any) -> bool:
        """Members are known to be equal: it is their order that is asked for."""
        return tuple(found) == self.marks


def are_constant(members: Members) -> bool:
    """Whether the members have the hashes of their stand-ins."""
    return all(item.is_constant() for item in members.values())


def table_of(value: SetValue) -> Any:
    """The real set that stands beside `value`; None where there can be none."""
    if not are_constant(value.members):
        return None
    if value.table is None:
        value.table = set()
        for mark in value.members:
            value.table.add(mark)
    return value.table


def copied(obj: Any) -> Any:
    """A copy of a real set that iterates in the same order, or None."""
    table = set(obj)
    return table if list(table) == list(obj) else None


def changed(value: SetValue, members: Members) -> Any:
    """The table of `value` once its members are these: one by one, as methods of sets change them."""
    table = table_of(value)
    if table is None or not are_constant(members):
        return None
    if not members:
        return set()
    for mark in value.members:
        if mark not in members:
            table.discard(mark)
    for mark in members:
        table.add(mark)
    return table


def combined(name: str, value: SetValue | None, marks: Any, others: list[Any]) -> Any:
    """What the real method gives for the tables: of `value`, or of a set of `marks`, with `others`.

    Args:
        name: `union`, `difference` ...
        others: tables, or stand-ins in the order of iteration; None where a member is no constant.
    """
    table = table_of(value) if value is not None else set(marks)
    if table is None or any(other is None for other in others):
        return None
    return getattr(table, name)(*others)


def rebuilt(value: SetValue) -> list[Value]:
    """The members in an order of adding that makes a new set iterate as this one, where one is found."""
    table = table_of(value)
    if table is not None:
        wanted = list(table)
        for order in (list(value.members), wanted, wanted[::-1]):
            if list(set(order)) == wanted:
                return [value.members[mark] for mark in order]
    return list(value.members.values())
