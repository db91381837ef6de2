"""Effects: changes that the traced program made to objects that existed before, replayed after the graph ran.

Only the final state is replayed: each changed value emits, through `replay(cg)`, code that brings the real object to
the state that its value has at the end of the trace. Changes of tensors are not effects: they are nodes of the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer


class Replayable(Protocol):
    """What can be changed: values, and scopes of globals."""

    def replay(self, cg: Writer) -> None:
        """Emit code that brings the real object to this value's state. Leaves the stack as it was."""


class Effects:
    """The changed objects, in order of their first change."""

    def __init__(self) -> None:
        self._changed: dict[Replayable, None] = {}
        self.count = 0  # changes reported so far

    def mutated(self, value: Replayable) -> None:
        """Record that `value` was changed in place (call it each time; it is kept once)."""
        self._changed[value] = None
        self.count += 1

    def withdraw(self, values: list[Any]) -> None:
        """Forget effects that were recorded last (something else stands for them)."""
        for value in values:
            del self._changed[value]

    def changed(self) -> list[Replayable]:
        """What was changed."""
        return list(self._changed)

    def __contains__(self, value: object) -> bool:
        return value in self._changed

    def __bool__(self) -> bool:
        return bool(self._changed)
