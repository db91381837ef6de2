"""`Value`: what the tracer knows of one Python object, and the protocol that every family of values implements.

The symbolic interpreter runs bytecode over values in place of objects. A value answers the operations of Python's data
model (attributes, calls, items, truth, iteration); the answer is another value, a recorded graph node, or
`tx.unsupported(...)`, which ends the graph there.

Rules:
* The identity of a `Value` *is* the identity of the object that it stands for (`a is b` in the traced program is
  `value_a is value_b` here). One real object reached by two sources is one value (the wrapper sees to that, and
  guards it).
* A value may be changed in place by the traced program (a list grows). Nothing real changes while tracing: a value
that has
  a `source` and is changed must report so with `tx.effects.mutated(self)`; the change is replayed after the graph ran.
  There are no snapshots: a graph break restarts the trace.
* `source` is None for objects that the trace made itself.
* Guards: reading a fact of a sourced value for the first time installs the guard on that fact, in the value's family
  (`tx.guard(kind, source, value)`), not in the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


class NotConstant(Exception):
    """Asked for the Python object of a value that is not a constant of the trace."""


class Value:
    """Base of all families. Subclasses override what their objects can do; the default is a graph break."""

    source: Source | None = None
    is_buffer = False  # bytes that can change: functions that keep or write to their argument are told

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    # -- facts ---------------------------------------------------------------------------------------------------------
    def python_type(self) -> type:
        """`type(obj)` of the object stood for."""
        raise NotImplementedError(type(self).__name__)

    def is_constant(self) -> bool:
        """Whether `as_constant` gives an object."""
        return False

    def as_constant(self) -> Any:
        """The Python object itself (also tuples, lists, dicts, slices of constants). Raises `NotConstant`."""
        raise NotConstant(repr(self))

    def written(self, tx: Frame) -> Any:
        """Of a buffer: the trace's own object, for a function that writes to it."""
        raise NotImplementedError(type(self).__name__)

    def as_graph_arg(self, tx: Frame) -> Any:
        """This value as an argument of an fx node: a `torch.fx.Node`, a constant, or a nest of those.

        Calls `tx.unsupported` where no such form exists.
        """
        try:
            return self.as_constant()
        except NotConstant:
            return tx.unsupported("graph-argument", f"{self!r} cannot be an argument of a graph node")

    # -- data model ----------------------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        """`obj.name`; raises the traced AttributeError with `tx.raise_python(AttributeError, text)`."""
        cls = self.python_type()
        if name == "__class__":
            return tx.wrap(cls, None)
        if not any(name in vars(base) for base in cls.__mro__):  # what the metaclass has is no attribute of instances
            return tx.raise_python(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
        return tx.unsupported("attribute", f"reading {name!r} of {self!r}")

    def has_attr(self, tx: Frame, name: str) -> bool:
        """`hasattr(obj, name)`."""
        return tx.catches(AttributeError, lambda: self.get_attr(tx, name)) is not None

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        """`obj.name = value`."""
        tx.unsupported("attribute-store", f"setting {name!r} of {self!r}")

    def del_attr(self, tx: Frame, name: str) -> None:
        """`del obj.name`."""
        tx.unsupported("attribute-delete", f"deleting {name!r} of {self!r}")

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`obj(*args, **kwargs)`."""
        return tx.unsupported("call", f"calling {self!r}")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`obj.name(*args, **kwargs)`; operators arrive here as dunder names (`__add__`, `__getitem__`, `__len__` ...).

        A binary dunder that does not apply returns the constant `NotImplemented`; operator dispatch (reflected
        operands, subclasses first) lives in `values.operators`.
        """
        return self.get_attr(tx, name).call(tx, args, kwargs)

    def truth(self, tx: Frame) -> bool:
        """`bool(obj)`, decided now (guards installed); a tensor's truth is a graph break."""
        if self.is_constant():
            return bool(self.as_constant())
        return tx.unsupported("truth", f"truth of {self!r}")

    def iterate(self, tx: Frame) -> Iterator[Value]:
        """A Python-level iterator over the values (for unpacking, `list(obj)`, star arguments)."""
        return tx.unsupported("iterate", f"iterating {self!r}")

    def next_item(self, tx: Frame) -> Value | None:
        """`next(obj)`, or None at the end."""
        try:
            return self.call_method(tx, "__next__", [], {})
        except TracedException as error:
            if issubclass(error.value.python_type(), StopIteration):
                return None
            raise

    def key(self, tx: Frame) -> Any:
        """A hashable stand-in that is equal exactly for values that are equal as dictionary keys."""
        try:
            return self.as_constant()
        except NotConstant:
            return tx.unsupported("dict-key", f"{self!r} as a dictionary key")

    def pin(self, tx: Frame) -> None:
        """Say that a container of the program is asked for this key: what `key` stands for is guarded then."""

    # -- code after the graph ------------------------------------------------------------------------------------------
    def reconstruct(self, cg: Writer) -> None:
        """Emit code that leaves the object on the stack. Only asked of values without a usable source.

        `cg` offers `cg.load(value)` (recursion, with sharing and sources), `cg.load_const(obj)`, `cg.load_object(obj)`
        (any object, kept by the compiled code), `cg.call(n)`, `cg.build("LIST", n)` ...
        """
        cg.cannot_rebuild("rebuild", f"{self!r}")

    def replay(self, cg: Writer) -> None:
        """Emit code that brings the real object to this value's state. Asked of values that were reported as
        changed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not change")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source or 'new'})"
