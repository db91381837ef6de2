"""`id(obj)`, and weak references: what they are is known while tracing, the number is not."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.registry import wraps

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


class WeakReferenceValue(Value):
    """`weakref.ref(owner)` made in the trace."""

    def __init__(self, owner: Value, callback: Value | None = None) -> None:
        super().__init__()
        self.owner, self.callback = owner, callback

    def python_type(self) -> type:
        return weakref.ref

    def key(self, tx: Frame) -> Any:
        """References to one object are equal; one to a constant is equal to the program's own references, too."""
        return weakref.ref(self.owner.as_constant()) if self.owner.is_constant() else ("reference", self.owner)

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner

    def reconstruct(self, cg: Writer) -> None:
        parts = [self.owner] if self.callback is None else [self.owner, self.callback]
        cg.load_object(weakref.ref)
        for part in parts:
            cg.load(part)
        cg.call(len(parts))


class RealWeakReferenceValue(Value):
    """A weak reference of the program; it leads to an object that the program reads in another way, too."""

    def __init__(self, obj: weakref.ref[Any], source: Source | None) -> None:
        super().__init__(source)
        self.obj = obj

    def python_type(self) -> type:
        return weakref.ref

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        target = self.obj()
        if target is None:
            tx.guard("python", self.source, PythonFact(is_dead, f"{self.source} is dead"))
            return tx.constant(None)
        known = tx.source_of(target)
        if known is None:
            return tx.unsupported("attribute", "an object that only a weak reference leads to")
        if self.source is not None:
            fact = PythonFact(leads_to, f"{self.source}() is {known}", (self.source, known))
            tx.guard("python", self.source, fact)
        return tx.wrap(target, known)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


def leads_to(reference: Any, target: Any) -> bool:
    """Whether a weak reference leads to this object."""
    return reference() is target


def is_dead(reference: Any) -> bool:
    """Whether what a weak reference led to is gone."""
    return reference() is None


@wraps(weakref.ref)
def wrap_weak_reference(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A weak reference of the program."""
    tx.guard("type_is", source, type(obj))
    return RealWeakReferenceValue(obj, source)


@constructs(weakref.ref)
def _ref(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not 1 <= len(args) <= 2:
        return tx.raise_python(TypeError, f"ref expected 1 or 2 arguments, got {len(args)}")
    return WeakReferenceValue(*args)
