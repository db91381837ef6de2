"""The table of opcode handlers. Files `ops_*.py` fill it; a handler is `handler(frame, instruction)`.

A handler changes the frame (stack, locals, `next_position`) and returns None, or a `Signal` that leaves the run loop.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame

Handler = Callable[["Frame", "Instruction"], Any]
HANDLERS: dict[str, Handler] = {}


class Signal(Enum):
    """Why the run loop stops."""

    RETURN = "return"
    YIELD = "yield"


def op(*opnames: str) -> Callable[[Handler], Handler]:
    """Register a handler for these instruction names."""

    def register(handler: Handler) -> Handler:
        for opname in opnames:
            HANDLERS[opname] = handler
        return handler

    return register


def missing_handler(frame: Frame, instruction: Instruction) -> None:
    """The handler of instructions without one: a graph break."""
    frame.unsupported("opcode", f"instruction {instruction.opname}")
