"""How many arguments the builtin classes take, and which names: what the constructors of the trace rely on.

A call that does not fit is made for real, with empty tuples for arguments: its TypeError, with the text of this Python,
is the program's.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from triptych_dynamo.values.common import fold

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value

_MANY = 1 << 30


class Arity(NamedTuple):
    """From `least` to `most` arguments; `names` are those that may go by name."""

    least: int
    most: int
    names: tuple[str, ...] | None = ()  # None for any


ARITY: dict[Any, Arity] = {
    bool: Arity(0, 1),
    list: Arity(0, 1),
    tuple: Arity(0, 1),
    set: Arity(0, 1),
    frozenset: Arity(0, 1),
    dict: Arity(0, 1, None),
    OrderedDict: Arity(0, 1, None),
    defaultdict: Arity(0, 2, None),
    deque: Arity(0, 2, ("iterable", "maxlen")),
    range: Arity(1, 3),
    slice: Arity(1, 3),
    zip: Arity(0, _MANY, ("strict",)),
    map: Arity(2, _MANY),
    filter: Arity(2, 2),
    enumerate: Arity(1, 2, ("iterable", "start")),
    reversed: Arity(1, 1),
    object: Arity(0, 0),
    staticmethod: Arity(1, 1),
    classmethod: Arity(1, 1),
    property: Arity(0, 4, ("fget", "fset", "fdel", "doc")),
    MethodType: Arity(2, 2),
    MappingProxyType: Arity(1, 1, ("mapping",)),
}


def check_arity(tx: Frame, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Raise the traced TypeError of a call that the class does not take."""
    row = ARITY.get(cls)
    if row is None:
        return
    given = len(args) + (len(kwargs) if row.names else 0)
    named = row.names is None or all(name in _open(row, len(args)) for name in kwargs)
    if not (named and row.least <= given and len(args) <= row.most):
        fold(tx, cls, [()] * len(args), dict.fromkeys(kwargs, ()))


def _open(row: Arity, taken: int) -> tuple[str, ...]:
    """The names that positional arguments leave."""
    assert row.names is not None
    return row.names[taken:] if len(row.names) == row.most else row.names
