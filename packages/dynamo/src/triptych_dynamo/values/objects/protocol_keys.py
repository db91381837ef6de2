"""Objects with a `__hash__` of their own as keys of dictionaries and members of sets, while they are traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.containers.hashing import ObjectKey

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.objects.objects import ObjectValue


class ProtocolKey:
    """Stands for an object as a key of a dictionary or set: hashed and compared by the object's own methods."""

    asks_program = True

    def __init__(self, tx: Frame, value: ObjectValue) -> None:
        self.tx, self.value = tx, value
        self.needs_fields = value.is_new or value.changed  # built anew, it gets its fields before it becomes a key
        self.answers: dict[Value, bool] = {}  # of one use of the key, which looks at a held key once
        number = value.call_method(tx, "__hash__", [], {})
        number = number.specialize(tx) if hasattr(number, "specialize") else number
        self.number = number.as_constant() if number.is_constant() else tx.unsupported("dict-key", f"{value!r}")
        if not isinstance(self.number, int):
            tx.raise_python(TypeError, "__hash__ method should return an integer")

    def __hash__(self) -> int:
        return self.number  # as it is: what a dictionary makes of it is no matter of `hash`

    def __eq__(self, other: object) -> bool:
        """As the key that a container holds: `other` is looked for."""
        if isinstance(other, ProtocolKey):
            return other.equals(self.value)
        return self.equals(self.tx.wrap(other.obj if isinstance(other, ObjectKey) else other, None))

    def equals(self, held: Value | None, obj: Any = None) -> bool:
        """Whether the key that a container holds, a value or a real object, is equal to this one: it is asked first."""
        held = self.tx.wrap(obj, None) if held is None else held
        if held not in self.answers:
            self.answers[held] = self._ask(held)
        return self.answers[held]

    def _ask(self, held: Value) -> bool:
        if held is self.value:
            self.value.guard_identity(self.tx)
            return True
        return operators.compare(self.tx, "==", held, self.value).truth(self.tx)
