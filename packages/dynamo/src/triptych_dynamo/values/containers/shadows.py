"""`ShadowValue`: an object of C whose whole state is bytes, numbers or text. The trace has a copy of its own, and runs
the methods of the type itself on it.

So results, error texts and the rules of the type (a bytearray with views does not change its size) are Python's. The
state of an object of the program is guarded when the program first asks for it; what was changed is written back
after the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.callables.pure import constant_or_special
from triptych_dynamo.values.common import MethodTable, fits, index_of, literal, none, supports
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.indices import slice_of
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

SHADOW = MethodTable()

# They answer `NotImplemented`, where the slot of C itself would raise: the other operand is asked first.
_ARITHMETIC = frozenset("__add__ __iadd__ __mul__ __rmul__ __imul__".split())
# What they give depends on addresses, on how memory was got, or is a matter of the interpreter.
_OF_THE_MACHINE = frozenset("__sizeof__ __alloc__ __buffer__ __release_buffer__ buffer_info __init__".split())


class ShadowValue(Value):
    """Base. `family` is the exact type, `mutators` names the methods that change the object."""

    methods = SHADOW
    family: type = object
    is_buffer = True
    mutators: frozenset[str] = frozenset()

    def __init__(self, own: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self._own = own

    @property
    def own(self) -> Any:
        """The trace's object."""
        return self._own

    def python_type(self) -> type:
        return self.family

    def is_constant(self) -> bool:
        return True

    def as_graph_arg(self, tx: Frame) -> Any:
        return tx.unsupported("graph-argument", f"a {self.family.__name__}")

    def truth(self, tx: Frame) -> bool:
        return bool(self.own)

    def key(self, tx: Frame) -> Any:
        return tx.raise_python(TypeError, f"unhashable type: '{self.family.__name__}'")

    # -- sequences -----------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.own)

    def item(self, index: int) -> Value:
        """One item, for iterators."""
        return ConstantValue(self.own[index])

    def iterate(self, tx: Frame) -> Iterator[Value]:
        return iterators.iterate(tx, self)

    # -- attributes and methods ----------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__class__" or not hasattr(self.family, name):
            return super().get_attr(tx, name)
        if callable(getattr(self.family, name)):
            return BuiltinMethodValue(self, name)
        return self.run(tx, "__getattribute__", [name], {})

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        try:
            setattr(self.own, name, None)
        except (AttributeError, TypeError) as error:
            tx.raise_python(type(error), *error.args)
        tx.unsupported("attribute-store", f"setting {name!r} of a {self.family.__name__}")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        row = self.methods.rows.get(name)
        if row is not None and fits(row, self, tx, args, kwargs):
            return row(self, tx, *args, **kwargs)
        if name in _OF_THE_MACHINE:
            return tx.unsupported("call", f"{self.family.__name__}.{name}")
        if not hasattr(self.family, name):
            return tx.raise_python(AttributeError, f"'{self.family.__name__}' object has no attribute '{name}'")
        if name in _ARITHMETIC and not self.takes(name, args[0]):
            return tx.constant(NotImplemented)
        plain = [plain_of(tx, arg) for arg in args]
        named = {key: plain_of(tx, arg) for key, arg in kwargs.items()}
        if name in self.mutators:
            self.changed(tx)
        return self.run(tx, name, plain, named)

    def takes(self, name: str, other: Value) -> bool:
        """Whether the arithmetic method is for such an operand."""
        if "mul" in name:
            return supports(other, "__index__")
        return other.python_type() is self.family

    def run(self, tx: Frame, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """Call the method of the trace's object."""
        try:
            result = getattr(self.own, name)(*args, **kwargs)
        except BufferError as error:
            return self.refused(tx, error)
        except Exception as error:
            return tx.raise_caught(error)
        if result is None:
            return none(tx)
        return self if result is self.own else self.result(tx, result, name, args)

    def result(self, tx: Frame, result: Any, name: str, args: list[Any]) -> Value:
        """What a method gave as a value."""
        return literal(tx, result)

    def refused(self, tx: Frame, error: BufferError) -> Value:
        """A change that views of the object do not allow."""
        return tx.unsupported("call", f"{error} (a {self.family.__name__})")

    def written(self, tx: Frame) -> Any:
        """The trace's object, for a function that writes to it."""
        own = self.own
        self.changed(tx)
        return own

    def changed(self, tx: Frame) -> None:
        """Say that the object was changed in place."""
        if self.source is not None:
            tx.effects.mutated(self)


def plain_of(tx: Frame, value: Value) -> Any:
    """An argument as the Python object that it is in this run; iterables that are no constants as lists."""
    if isinstance(value, ShadowValue):
        return value.own
    if isinstance(value, TensorValue):
        return tx.unsupported("data-dependent", "numbers of a tensor in an object of bytes")
    if value.python_type() is slice:
        return slice_of(tx, value)
    try:
        return constant_or_special(tx, value)
    except NotConstant:
        pass
    if supports(value, "__index__"):
        return index_of(tx, value)
    if supports(value, "__iter__"):
        return [plain_of(tx, item) for item in iterators.items_of(tx, value)]
    return tx.unsupported("data-dependent", f"{value!r} in an object of bytes")


@SHADOW("__iter__")
def _iter(self: ShadowValue, tx: Frame) -> Value:
    return iterators.SequenceIterator(self, type(iter(self.own)))


@SHADOW("__hash__")
def _hash(self: ShadowValue, tx: Frame) -> Value:
    return tx.constant(hash(self.key(tx)))


def _comparison(name: str) -> None:
    def compare(self: ShadowValue, tx: Frame, other: Value) -> Value:
        if not isinstance(other, ShadowValue) and not (other.is_constant() and hasattr(other.python_type(), name)):
            return tx.constant(NotImplemented)
        return self.run(tx, name, [plain_of(tx, other)], {})

    SHADOW(name)(compare)


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    _comparison(_name)
