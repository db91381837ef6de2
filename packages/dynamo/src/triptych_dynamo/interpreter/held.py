"""Locals that hold suspended generators: where the program lets go of one, code of the generator may run."""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.interpreter.root_locals import RootLocals
from triptych_dynamo.values.callables.generators import GeneratorValue
from triptych_dynamo.values.objects.objects import ObjectValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


_WEAK = frozenset(("weakref", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary", "WeakMethod", "finalize"))
_READERS = frozenset(("dir", "eval", "exec", "locals", "vars"))


def named_locals(frame: Frame) -> frozenset[str]:
    """All locals of code that may ask for them by name."""
    return frozenset(frame.code.co_varnames if _READERS.intersection(frame.code.co_names) else ())


def generator_locals(frame: Frame) -> list[str]:
    """Names of locals whose generator has an end to run: they stay set for as long as in plain Python.

    All of them where weak references may lead to what they hold.
    """
    if frame.trace.inputs.references or _WEAK.intersection(frame.code.co_names):
        return frame.bound_locals()
    return [name for name in frame.bound_locals() if _ends_later(_traced(frame, name)) or holds_real(frame, name)]


def holds_real(frame: Frame, name: str) -> bool:
    """Whether a local holds a suspended generator that was made before the graph."""
    value = _traced(frame, name)
    real = value.real if type(value) is ObjectValue else _unread(frame, name)
    return isinstance(real, GeneratorType) and real.gi_frame is not None


def _ends_later(value: Any) -> bool:
    return isinstance(value, GeneratorValue) and value.has_an_end_to_run


def _traced(frame: Frame, name: str) -> Any:
    """The value of a local that was read or set; None for others."""
    return dict.get(frame.locals, name)


def _unread(frame: Frame, name: str) -> Any:
    return frame.locals.unread.get(name) if isinstance(frame.locals, RootLocals) else None
