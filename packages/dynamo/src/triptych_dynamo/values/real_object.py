"""`RealObjectValue`: a value that is one object of the process, the same in every run of the compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.sources import Source


class RealObjectValue(Value):
    """One real object. Families say what a call of it or an attribute is; it is a constant of the trace.

    obj: the object; whoever makes the value has guarded that it is this one.
    """

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj

    def python_type(self) -> type:
        return type(self.obj)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.obj
