"""`memoryview` over bytes and over what is changed in place: a view of the trace's own object.

Writing through a view changes the object that it shows. A view that outlives the region is made again from that
object, by the steps that led to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import MethodTable
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.byte_arrays import BufferValue, is_atom_of_bytes
from triptych_dynamo.values.containers.shadows import SHADOW, ShadowValue, plain_of
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

VIEW = MethodTable(SHADOW)
Step = tuple[str, tuple[Any, ...]]  # a method and its constants


class ViewValue(ShadowValue):
    """A memoryview. `base` is what it shows; `steps` lead from `memoryview(base)` (or `base.first()`) to it."""

    methods = VIEW
    family = memoryview

    def __init__(
        self,
        own: memoryview,
        base: Value,
        steps: tuple[Step, ...] = (),
        source: Source | None = None,
        *,
        first: str | None = None,
    ) -> None:
        super().__init__(own, source)
        self.base, self.steps, self.first = base, steps, first
        self.is_released = False
        if isinstance(base, BufferValue):
            base.views.add(self)

    def as_constant(self) -> Any:
        return self.own

    def truth(self, tx: Frame) -> bool:
        try:
            return bool(self.own)
        except ValueError as error:
            return bool(tx.raise_python(ValueError, *error.args))

    def key(self, tx: Frame) -> Any:
        try:
            hash(self.own)
        except ValueError as error:
            tx.raise_python(ValueError, *error.args)
        return self.own.tobytes()

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "obj" and not self.is_released:
            return self.base
        return super().get_attr(tx, name)

    def result(self, tx: Frame, result: Any, name: str, args: list[Any]) -> Value:
        if isinstance(result, memoryview):
            return ViewValue(result, self.base, (*self.steps, (name, tuple(args))), first=self.first)
        return super().result(tx, result, name, args)

    def refused(self, tx: Frame, error: BufferError) -> Value:
        return tx.raise_python(BufferError, *error.args)

    def changed(self, tx: Frame) -> None:
        if isinstance(self.base, BufferValue):
            self.base.changed(tx)

    def reconstruct(self, cg: Writer) -> None:
        if isinstance(self.base, BufferValue) and self.base.is_resized:
            cg.cannot_rebuild("rebuild", "a view of what was given, and has another size now")
        if self.first is None:
            cg.load_object(memoryview)
        cg.load(self.base)
        if self.first is not None:
            cg.load_attr(self.first)
        cg.call(0 if self.first is not None else 1)
        for name, args in (*self.steps, *([("release", ())] if self.is_released else [])):
            if name == "release":
                cg.copy()
            cg.load_attr(name)
            for arg in args:
                cg.load_object(arg)
            cg.call(len(args))
            if name == "release":
                cg.pop()


@VIEW("__setitem__")
def _setitem(self: ViewValue, tx: Frame, key: Value, item: Value) -> Value:
    plain = [plain_of(tx, key), plain_of(tx, item)]
    self.changed(tx)
    return self.run(tx, "__setitem__", plain, {})


@VIEW("__iter__")
def _iter(self: ViewValue, tx: Frame) -> Value:
    if self.is_released or self.own.ndim != 1:
        return tx.unsupported("iterate", "a view that was released, or has several dimensions")
    return ViewIterator(self)


class ViewIterator(iterators.SequenceIterator):
    """Over a live view."""

    def __init__(self, view: ViewValue) -> None:
        super().__init__(view, type(iter(memoryview(b""))))

    def reconstruct(self, cg: Writer) -> None:
        cg.cannot_rebuild("rebuild", "an iterator over a view")


@VIEW("__enter__")
def _enter(self: ViewValue, tx: Frame) -> Value:
    if self.is_released:
        return self.run(tx, "__enter__", [], {})
    return self


@VIEW("release")
def _release(self: ViewValue, tx: Frame) -> Value:
    if self.source is not None:
        return tx.unsupported("call", "a view from outside is released")
    result = self.run(tx, "release", [], {})
    self.is_released = True
    return result


@VIEW("__exit__")
def _exit(self: ViewValue, tx: Frame, *args: Value) -> Value:
    return _release(self, tx)


@constructs(memoryview)
def _memory_view(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = [*args, *kwargs.values()]
    if len(given) != 1 or set(kwargs) - {"object"}:
        return tx.raise_python(TypeError, "memoryview() missing required argument 'object' (pos 1)")
    base = given[0]
    if isinstance(base, ViewValue):
        if base.is_released:
            return base.run(tx, "__enter__", [], {})
        return ViewValue(memoryview(base.own), base.base, base.steps, first=base.first)
    if isinstance(base, BufferValue) and hasattr(base.family, "__setitem__"):
        return ViewValue(memoryview(base.own), base)
    if is_atom_of_bytes(base):
        return ViewValue(memoryview(base.as_constant()), base)
    if base.is_constant() and not isinstance(base, ShadowValue):
        cls = base.python_type().__name__
        return tx.raise_python(TypeError, f"memoryview: a bytes-like object is required, not '{cls}'")
    return tx.unsupported("call", f"a memoryview of {base!r}")


def is_plain_view(obj: Any) -> bool:
    """Whether an object is a memoryview of the whole of some bytes or of a bytearray."""
    if type(obj) is not memoryview:
        return False
    try:
        return (
            type(obj.obj) in (bytes, bytearray)
            and obj.format == "B"
            and obj.contiguous
            and obj.shape == memoryview(obj.obj).shape
        )
    except ValueError:  # it was released
        return False


@wraps_if(is_plain_view)
def wrap_view(tx: Frame, obj: memoryview, source: Source | None) -> Value:
    """A view of the program."""
    read_only = obj.readonly
    if source is not None:
        tx.guard("type_is", source, memoryview)
        fact = PythonFact(lambda view: is_plain_view(view) and view.readonly == read_only, "a view")
        tx.guard("python", source, fact)
    base = tx.wrap(obj.obj, AttrSource(source, "obj") if source is not None else None)
    shown = base.own if isinstance(base, BufferValue) else base.as_constant()
    own = memoryview(shown)
    return ViewValue(own.toreadonly() if read_only else own, base, (), source)
