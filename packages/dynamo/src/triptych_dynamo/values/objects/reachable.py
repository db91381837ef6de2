"""Whether the traced program can still reach an object that the trace made: a weak reference asks."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from triptych_dynamo.interpreter.frame import Frame
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTAINERS = (dict, list, tuple, set)
_PARTS = ("triptych_dynamo.values.", "triptych_dynamo.interpreter.")


def is_reachable(tx: Frame, owner: Value) -> bool:
    """Whether a way leads to `owner` from the running frames or from objects that the program had before."""
    seen: set[int] = set()
    todo = list(_roots(tx))
    while todo:
        part = todo.pop()
        if part is owner:
            return True
        if id(part) not in seen:
            seen.add(id(part))
            todo += _parts(part)
    return False


def _roots(tx: Frame) -> Iterable[Any]:
    """What the program holds by itself."""
    trace = tx.trace
    yield from trace.frames
    yield from trace.effects.changed()
    for scope in trace.scopes.values():
        yield vars(scope)


def _parts(part: Any) -> list[Any]:
    """What an object of the tracer holds in the program's name."""
    if isinstance(part, Frame):
        held = [
            part.locals,
            part.stack,
            part.cells,
            part.handled,
            part.generator,
            part.pending_throw,
            part.class_namespace,
        ]
        return held if part.parent is None else [*held, part.parent]
    if isinstance(part, _CONTAINERS):
        return gc.get_referents(part)
    if getattr(part, "is_weak", False) or not type(part).__module__.startswith(_PARTS):
        return []
    return [item for item in gc.get_referents(part) if not isinstance(item, type)]
