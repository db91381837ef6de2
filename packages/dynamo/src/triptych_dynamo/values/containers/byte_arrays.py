"""`bytearray` and `array.array`: bytes that the program changes in place."""

from __future__ import annotations

import array
import weakref
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import AttrSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import MethodTable, builds_literal, fold, none, origin_of, supports
from triptych_dynamo.values.containers.shadows import SHADOW, ShadowValue, plain_of
from triptych_dynamo.values.objects.classes import ClassValue, class_method, constructs
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

BYTE_ARRAY = MethodTable(SHADOW)
_BYTES_LIKE = (bytes, bytearray, memoryview, array.array)


class BufferValue(ShadowValue):
    """What views may be taken of."""

    def __init__(self, own: Any, source: Source | None = None) -> None:
        super().__init__(own, source)
        self.views: weakref.WeakSet[Any] = weakref.WeakSet()  # those that the trace made

    @property
    def is_resized(self) -> bool:
        """Whether it has another length than when the program found it."""
        return False

    def refused(self, tx: Frame, error: BufferError) -> Value:
        """Raised where a view is surely alive; the tracer itself may hold one that the program let go of."""
        held = {id(value) for frame in tx.trace.frames for value in dict.values(frame.locals)}
        if any(id(view) in held or view.source is not None for view in self.views if not view.is_released):
            return tx.raise_python(BufferError, *error.args)
        return super().refused(tx, error)


class GivenBufferValue(BufferValue):
    """One that may come from the program: `real` is its object, `own` a copy that is made when it is looked at."""

    def __init__(self, own: Any, source: Source | None = None, tx: Frame | None = None, real: Any = None) -> None:
        super().__init__(own, source)
        self._from, self.real = tx, real
        self.found: Any = None  # the copy of what the program found

    @property
    def is_looked_at(self) -> bool:
        """Whether the contents count."""
        return self.source is None or self.found is not None

    def changed(self, tx: Frame) -> None:
        if self.source is not None:
            tx.trace.inputs.bytes.add(tx, self.source, self.real)
        super().changed(tx)

    @property
    def own(self) -> Any:
        if not self.is_looked_at:
            assert self._from is not None and self.source is not None
            self._from.trace.inputs.bytes.add(self._from, self.source, self.real)
            self.found = self.real[:]
            self.guard_contents(self._from)
            self._own = self.found + self._own  # what was added before
        return self._own

    def guard_contents(self, tx: Frame) -> None:
        """Guard what was found."""
        raise NotImplementedError

    @property
    def is_resized(self) -> bool:
        return self.source is not None and len(self.own) != len(self.found)

    def as_constant(self) -> Any:
        return self.own[:]

    def replay(self, cg: Writer) -> None:
        """Emit `obj[:] = contents`, which a view of the object allows, or add what was added unseen."""
        cg.load_object(getattr(self.family, "__setitem__" if self.is_looked_at else "extend"))
        cg.load(self)
        if self.is_looked_at:
            cg.load_object(slice(None))
        self.load_contents(cg)
        cg.call(3 if self.is_looked_at else 2)
        cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        self.load_contents(cg)

    def load_contents(self, cg: Writer) -> None:
        """Emit a new object with what is there now (or what was added, when nothing else is known)."""
        raise NotImplementedError

    def add(self, tx: Frame, name: str, part: Value) -> Value:
        """`append`, `extend` and `+=`, which need not know what is there."""
        plain = plain_of(tx, part)
        self.changed(tx)
        if self.is_looked_at:
            return self.run(tx, name, [plain], {})
        fold(tx, getattr(self._own, name), [plain])
        return self if name == "__iadd__" else none(tx)


class ByteArrayValue(GivenBufferValue):
    """A bytearray."""

    methods = BYTE_ARRAY
    family = bytearray
    mutators = frozenset(
        "append extend insert pop remove reverse clear resize __setitem__ __delitem__ __iadd__ __imul__".split()
    )

    def takes(self, name: str, other: Value) -> bool:
        return super().takes(name, other) if "mul" in name else other.python_type() in _BYTES_LIKE

    def guard_contents(self, tx: Frame) -> None:
        tx.guard("equals", self.source, bytearray(self.found))

    def load_contents(self, cg: Writer) -> None:
        cg.load_object(bytearray)
        cg.load_const(bytes(self._own))
        cg.call(1)


@BYTE_ARRAY("append")
def _append(self: GivenBufferValue, tx: Frame, item: Value) -> Value:
    return self.add(tx, "append", item)


@BYTE_ARRAY("extend")
def _extend(self: GivenBufferValue, tx: Frame, items: Value) -> Value:
    return self.add(tx, "extend", items)


@BYTE_ARRAY("__iadd__")
def _iadd(self: GivenBufferValue, tx: Frame, items: Value) -> Value:
    return self.add(tx, "__iadd__", items) if self.takes("__iadd__", items) else tx.constant(NotImplemented)


@constructs(bytearray)
def _byte_array(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return make_bytes(tx, bytearray, args, kwargs)


@constructs(bytes)
def _bytes(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1 and not kwargs and not args[0].is_constant() and supports(args[0], "__bytes__"):
        return args[0].call_method(tx, "__bytes__", [], {})
    return make_bytes(tx, bytes, args, kwargs)


def make_bytes(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call one of the types of bytes."""
    return fold(tx, cls, [plain_of(tx, arg) for arg in args], {key: plain_of(tx, arg) for key, arg in kwargs.items()})


@class_method(bytearray, "fromhex")
def _fromhex(tx: Frame, cls: ClassValue, text: Value) -> Value:
    return fold(tx, bytearray.fromhex, [plain_of(tx, text)])


@class_method(bytearray, "maketrans")
def _maketrans(tx: Frame, cls: ClassValue, *args: Value) -> Value:
    return fold(tx, bytearray.maketrans, [plain_of(tx, arg) for arg in args])


@wraps(bytearray)
def wrap_byte_array(tx: Frame, obj: bytearray, source: Source | None) -> Value:
    """A bytearray of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, bytearray)
    return ByteArrayValue(bytearray(), source, tx, obj)


@builds_literal(bytearray)
def _byte_array_literal(tx: Frame, obj: bytearray) -> Value:
    return ByteArrayValue(bytearray(obj))


# -- arrays of numbers -------------------------------------------------------------------------------------------------
TYPED_ARRAY = MethodTable(BYTE_ARRAY)


class TypedArrayValue(GivenBufferValue):
    """An `array.array`."""

    methods = TYPED_ARRAY
    family = array.array
    mutators = frozenset(
        "append extend insert pop remove reverse byteswap frombytes fromlist fromunicode clear "
        "__setitem__ __delitem__ __iadd__ __imul__".split()
    )

    def guard_contents(self, tx: Frame) -> None:
        contents = self.found.tobytes()
        fact = PythonFact(lambda obj: obj.tobytes() == contents, f"{self.source} has the {len(self.found)} items seen")
        tx.guard("python", self.source, fact)

    def load_contents(self, cg: Writer) -> None:
        cg.load_object(array.array)
        cg.load_const(self._own.typecode)
        if self._own.typecode in "uw":
            cg.load_const(self._own.tounicode())
        else:
            cg.load_const(self._own.tobytes())
        cg.call(2)


def _of_files(name: str) -> None:
    def call(self: TypedArrayValue, tx: Frame, *args: Value) -> Value:
        return tx.unsupported("input-output", f"array.{name}")

    TYPED_ARRAY(name)(call)


for _name in ("tofile", "fromfile"):
    _of_files(_name)


@constructs(array.array)
def _array(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return make_bytes(tx, array.array, args, kwargs)


@wraps(array.array)
def wrap_array(tx: Frame, obj: array.array[Any], source: Source | None) -> Value:
    """An array of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, array.array)
    tx.guard("equals", AttrSource(source, "typecode"), obj.typecode)
    return TypedArrayValue(obj[:0], source, tx, obj)


@builds_literal(array.array)
def _array_literal(tx: Frame, obj: array.array[Any]) -> Value:
    return TypedArrayValue(obj[:])


def is_atom_of_bytes(value: Value) -> bool:
    """Whether the value is a constant of type `bytes`."""
    return isinstance(value, ConstantValue) and type(value.value) is bytes
