"""What stands on the value stack without being an object."""

from __future__ import annotations

from triptych_dynamo.values.base import Value


class NullValue(Value):
    """Stands for NULL: never an operand of anything but a call."""

    def __repr__(self) -> str:
        return "NULL"


NULL = NullValue()


class HandlingValue(Value):
    """The slot that says that an exception is being handled; it holds what was handled before."""

    def __repr__(self) -> str:
        return "HANDLING"


HANDLING = HandlingValue()


class OffsetValue(Value):
    """Where an exception was raised, for the handler that raises it again: no object from 3.14 on."""

    def __repr__(self) -> str:
        return "OFFSET"


OFFSET = OffsetValue()
EMPTY = frozenset((NULL, OFFSET))  # no object is carried over a break for these
