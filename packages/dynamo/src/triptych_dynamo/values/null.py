"""The NULL that calling conventions put on the value stack."""

from __future__ import annotations

from triptych_dynamo.values.base import Value


class NullValue(Value):
    """Stands for NULL: never an operand of anything but a call."""

    def __repr__(self) -> str:
        return "NULL"


NULL = NullValue()
