"""`id(obj)`: which object it is is known while tracing, the number is not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class AddressValue(Value):
    """The number `id(owner)`: equal to that of the same object alone; asked for itself only when the code runs."""

    def __init__(self, owner: Value) -> None:
        super().__init__()
        self.owner = owner

    def python_type(self) -> type:
        return int

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return ("address", self.mark())

    def mark(self) -> Any:
        """What tells objects apart: constants by their object, others by their value."""
        if not self.owner.is_constant():
            return self.owner
        found = self.owner.as_constant()  # of a container: a new one each time
        return id(found) if self.owner.as_constant() is found else self.owner

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in ("__eq__", "__ne__") and isinstance(args[0], AddressValue):
            return tx.constant((args[0].mark() == self.mark()) == (name == "__eq__"))
        return tx.unsupported("call", "arithmetic with the address of an object")

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(id)
        cg.load(self.owner)
        cg.call(1)


class ThreadNumberValue(AddressValue):
    """`threading.get_ident()`: the same all through one call."""

    def mark(self) -> Any:
        return threading.get_ident

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(threading.get_ident)
        cg.call(0)


@builtin(threading.get_ident)
def _get_ident(tx: Frame) -> Value:
    return ThreadNumberValue(tx.constant(None))


@builtin(id)
def _id(tx: Frame, value: Value, /) -> Value:
    return AddressValue(value)
