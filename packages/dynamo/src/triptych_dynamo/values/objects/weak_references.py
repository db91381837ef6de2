"""`weakref.ref` and `weakref.proxy`: they lead to objects that something else keeps.

An object of the program is read through the reference, whose death is a guard. Whether one that the region made is
still there is found out when the program asks: the trace lets go of it where the program does.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import DerivedSource, PinnedSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.common import is_constant_equal, supports
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.objects.reachable import is_reachable
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class Nothing:
    """What dead references led to."""


def dead_reference() -> Any:
    """A weak reference to what is gone."""
    return weakref.ref(Nothing())


def is_dead(reference: Any) -> bool:
    """Whether what a weak reference led to is gone."""
    return reference() is None


class Dereferenced:
    """`reference()`."""

    def __call__(self, reference: Any) -> Any:
        """What it leads to; there is nothing to read where that is gone."""
        found = reference()
        if found is None:
            raise ReferenceError("weakly-referenced object no longer exists")
        return found

    def __str__(self) -> str:
        return "what it leads to"


DEREFERENCED = Dereferenced()


class ReferenceValue(Value):
    """Base of references."""

    is_weak = True

    def target(self, tx: Frame) -> Value | None:
        """The object; None when it is gone."""
        raise NotImplementedError

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.target(tx) or tx.constant(None)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name in ("__eq__", "__ne__"):
            return self._compare(tx, args[0], name == "__eq__")
        return super().call_method(tx, name, args, kwargs)

    def _compare(self, tx: Frame, other: Value, equal: bool) -> Value:
        """References to what is there are equal where that is equal; others are where they are one."""
        if not isinstance(other, ReferenceValue):
            return tx.constant(NotImplemented)
        pair = self.target(tx), other.target(tx)
        if pair[0] is None or pair[1] is None:
            return tx.constant((self is other) == equal)
        return operators.compare(tx, "==" if equal else "!=", pair[0], pair[1])


class WeakReferenceValue(ReferenceValue):
    """`weakref.ref(owner)` made in the trace; an object that the trace made is held weakly here, too."""

    def __init__(self, tx: Frame, owner: Value, callback: Value | None = None, key: Value | None = None) -> None:
        super().__init__()
        self._owner = weakref.ref(owner)
        self._kept = owner if owner.source is not None or owner.is_constant() else None
        self.callback, self.keyed = callback, key
        self.made_at = tx.trace.step_of_root()
        tx.trace.inputs.references.append(self)

    @property
    def missed_a_death(self) -> bool:
        """Whether a callback would have run."""
        return self.callback is not None and self._owner() is None

    def python_type(self) -> type:
        return weakref.ref if self.keyed is None else weakref.KeyedRef

    def get_attr(self, tx: Frame, name: str) -> Value:
        return self.keyed if name == "key" and self.keyed is not None else super().get_attr(tx, name)

    def key(self, tx: Frame) -> Any:
        """References to one object are equal; one to an object of the program is equal to the program's own."""
        owner = self._owner()
        if owner is None:
            return self
        if owner.is_constant():
            return weakref.ref(owner.as_constant())
        real = tx.trace.object_at(owner.source) if owner.source is not None else None
        if real is not None:
            return weakref.ref(real)
        return ("reference", vars(owner).setdefault("mark_of_references", object()))

    def target(self, tx: Frame) -> Value | None:
        """The object; None when it is gone."""
        owner = self._owner()
        if owner is None or self._kept is not None or is_reachable(tx, owner):
            return owner
        del owner
        gc.collect()
        if self._owner() is None and self.callback is None:
            return None
        return tx.unsupported("attribute", "a weak reference to an object that the program may have let go of")

    def reconstruct(self, cg: Writer) -> None:
        owner = self._owner()
        if owner is None:
            cg.load_object(dead_reference)
            cg.call(0)
            return
        parts = [part for part in (owner, self.callback, self.keyed) if part is not None]
        cg.load_object(self.python_type())
        for part in parts:
            cg.load(part)
        cg.call(len(parts))


class RealWeakReferenceValue(ReferenceValue):
    """A weak reference of the program."""

    def __init__(self, obj: weakref.ref[Any], source: Source | None) -> None:
        super().__init__(source)
        self.obj = obj

    def python_type(self) -> type:
        return type(self.obj)

    def key(self, tx: Frame) -> Any:
        return self.obj

    def target(self, tx: Frame) -> Value | None:
        """The object; None when it is gone."""
        return read_through(tx, self.obj(), self.source)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "key" and isinstance(self.obj, weakref.KeyedRef):
            return tx.constant(self.obj.key)
        return super().get_attr(tx, name)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


def read_through(tx: Frame, target: Any, source: Source | None) -> Value | None:
    """The object that a weak reference or a proxy at `source` leads to."""
    if target is None:
        tx.guard("python", source, PythonFact(is_dead, f"{source} is dead"))
        return None
    if source is None:
        known = tx.source_of(target)
        return (
            tx.wrap(target, known)
            if known is not None
            else tx.unsupported("attribute", "an object that only a weak reference leads to")
        )
    return tx.wrap(target, DerivedSource(source, DEREFERENCED))


@wraps(weakref.ref, weakref.KeyedRef)
def wrap_weak_reference(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A weak reference of the program."""
    tx.guard("type_is", source, type(obj))
    return RealWeakReferenceValue(obj, source)


@constructs(weakref.ref)
def _ref(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not 1 <= len(args) <= 2:
        return tx.raise_python(TypeError, f"ref expected 1 or 2 arguments, got {len(args)}")
    if len(args) == 2 and not is_constant_equal(args[1], None):
        return WeakReferenceValue(tx, *args)
    return plain_reference(tx, args[0])


def plain_reference(tx: Frame, owner: Value) -> WeakReferenceValue:
    """The one reference without a callback, while there is one."""
    known: Any = vars(owner).get("plain_reference")
    found = known() if known is not None else None
    if found is None:
        found = WeakReferenceValue(tx, owner)
        vars(owner)["plain_reference"] = weakref.ref(found)
    return found  # type: ignore[no-any-return]


@constructs(weakref.KeyedRef)
def _keyed_ref(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 3 or kwargs:
        return tx.unsupported("call", "weakref.KeyedRef with other arguments than an object, a function and a key")
    return WeakReferenceValue(tx, *args)


# -- proxies -----------------------------------------------------------------------------------------------------------
class Proxied:
    """What a proxy leads to: every attribute of the proxy is the object's, the owner of its methods among them."""

    def __call__(self, proxy: Any) -> Any:
        """The object."""
        return proxy.__sizeof__.__self__

    def __str__(self) -> str:
        return "what it stands for"


PROXIED = Proxied()


def proxied_object(proxy: Any) -> Any:
    """What a proxy leads to; None when that is gone."""
    try:
        return PROXIED(proxy)
    except ReferenceError:
        return None


def is_dead_proxy(proxy: Any) -> bool:
    """Whether what a proxy led to is gone."""
    return proxied_object(proxy) is None


class ProxyValue(Value):
    """A proxy: what is done to it is done to the object."""

    is_weak = True

    def __init__(self, obj: Any, source: Source | None, reference: WeakReferenceValue | None = None) -> None:
        super().__init__(source)
        self.obj, self.reference = obj, reference

    def python_type(self) -> type:
        return weakref.ProxyType if self.reference is not None else type(self.obj)

    def target(self, tx: Frame) -> Value:
        """The object, or the ReferenceError."""
        found = self.reference.target(tx) if self.reference is not None else self._read(tx)
        if found is None:
            return tx.raise_python(ReferenceError, "weakly-referenced object no longer exists")
        return found

    def _read(self, tx: Frame) -> Value | None:
        found = proxied_object(self.obj)
        if found is None:
            tx.guard("python", self.source, PythonFact(is_dead_proxy, f"{self.source} is dead"))
            return None
        assert self.source is not None
        return tx.wrap(found, DerivedSource(self.source, PROXIED))

    def truth(self, tx: Frame) -> bool:
        return self.target(tx).truth(tx)

    def key(self, tx: Frame) -> Any:
        return tx.raise_python(TypeError, f"unhashable type: 'weakref.{self.python_type().__name__}'")

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return iterators.iterate(tx, self.target(tx))

    def get_attr(self, tx: Frame, name: str) -> Value:
        return self.target(tx).get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        self.target(tx).set_attr(tx, name, value)

    def del_attr(self, tx: Frame, name: str) -> None:
        self.target(tx).del_attr(tx, name)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.target(tx).call(tx, args, kwargs)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        target = self.target(tx)
        if not supports(target, name):
            return tx.unsupported("call", f"{name} of a proxy")
        given = [arg.target(tx) if isinstance(arg, ProxyValue) else arg for arg in args]
        return target.call_method(tx, name, given, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        assert self.reference is not None
        cg.load_object(proxy_of)
        cg.load(self.reference)
        cg.call(1)


def proxy_of(reference: Any) -> Any:
    """A proxy of what a reference leads to."""
    found = reference()
    return weakref.proxy(Nothing() if found is None else found)


@wraps(weakref.ProxyType, weakref.CallableProxyType)
def wrap_proxy(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A proxy of the program."""
    source = PinnedSource(obj, "proxy") if source is None else source
    tx.guard("type_is", source, type(obj))
    return ProxyValue(obj, source)


@builtin(weakref.proxy)
def _proxy(tx: Frame, owner: Value, callback: Value | None = None) -> Value:
    if callback is not None or supports(owner, "__call__"):
        return tx.unsupported("call", "a proxy with a callback, or of something that can be called")
    return ProxyValue(None, None, plain_reference(tx, owner))
