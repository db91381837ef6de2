"""What every family of values needs: tests on values, unread items, method tables, literals.

Nothing here knows a particular family; families import this module, never the other way round (`literal` finds the
container families through the registry of builders that they fill).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from collections.abc import Iterator as IteratorABC
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import PinnedSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import NotConstant, Value

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

Method = Callable[..., Value]


def origin_of(obj: Any, source: Source | None) -> Source:
    """Where a real object that can change is read again; the compiled code holds on to it when nothing leads there."""
    return PinnedSource(obj, f"<{type(obj).__qualname__}>") if source is None else source


class Unread:
    """An item of a sourced container that the program has not looked at: no guard on it yet."""

    __slots__ = ("obj", "source", "tx")

    def __init__(self, tx: Frame, obj: Any, source: Source) -> None:
        self.tx, self.obj, self.source = tx, obj, source

    def read(self) -> Value:
        """Wrap the item; its guards are installed from now on."""
        return self.tx.wrap(self.obj, self.source)


ABSENT = object()
_TRUSTED = frozenset({"torch", "builtins", *sys.stdlib_module_names})


def is_trusted_name(module: str) -> bool:
    """Whether functions of the module of this name are taken as given (torch, the standard library)."""
    return module.partition(".")[0] in _TRUSTED


def lookup(cls: type, name: str) -> tuple[type, Any]:
    """The class of `cls.__mro__` that defines `name` and what its dictionary holds; (cls, ABSENT) when none does."""
    for base in type.__getattribute__(cls, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get(name, ABSENT)
        if found is not ABSENT:
            return base, found
    return cls, ABSENT


def guard_lacks(tx: Frame, cls: type, *names: str) -> None:
    """Guard that a class of the program has no attribute of these names: it, or a base of it, may gain one."""
    if is_trusted_name(getattr(cls, "__module__", None) or ""):
        return
    for name in names:  # what the metaclass has, or makes up, says nothing about the instances
        if lookup(type(cls), name)[1] is ABSENT and lookup(type(cls), "__getattr__")[1] is ABSENT:
            tx.guard("lacks_attr", PinnedSource(cls, cls.__qualname__), name)


def supports(value: Value, method: str) -> bool:
    """Whether the value's class (not its metaclass) has the special method; None in a class takes it away."""
    found = lookup(value.python_type(), method)[1]
    return found is not ABSENT and found is not None


def is_scalar(value: Value) -> bool:
    """Whether `value` is an immutable constant (number, string, None, dtype ...), so that C functions may be run on
    it.
    """
    return isinstance(value, ConstantValue)


def is_constant_equal(value: Value, obj: Any) -> bool:
    """Whether `value` is a scalar constant that is `obj` itself (None, NotImplemented, True ...)."""
    return isinstance(value, ConstantValue) and value.as_constant() is obj


def is_not_implemented(value: Value) -> bool:
    """Whether a binary method answered `NotImplemented`."""
    return is_constant_equal(value, NotImplemented)


def none(tx: Frame) -> Value:
    """The value of a method that returns nothing."""
    return tx.constant(None)


def type_name(value: Value) -> str:
    """The name of the value's type as error texts give it."""
    return value.python_type().__name__


def constant_of(tx: Frame, value: Value, purpose: str) -> Any:
    """The Python object of `value`, which the program needs as such (an index, a keyword ...); symbols are
    specialised.
    """
    specialize = getattr(value, "specialize", None)
    if specialize is not None:
        value = specialize(tx)
    try:
        return value.as_constant()
    except NotConstant:
        return tx.unsupported("data-dependent", f"{purpose} is not known while tracing: {value!r}")


def index_of(tx: Frame, value: Value, purpose: str = "an index") -> int:
    """`operator.index(value)` as a Python int; raises the traced TypeError where it has none."""
    if not is_scalar(value) and not hasattr(value, "specialize") and supports(value, "__index__"):
        value = value.call_method(tx, "__index__", [], {})
    obj = constant_of(tx, value, purpose)
    if not hasattr(type(obj), "__index__"):
        tx.raise_python(TypeError, f"'{type(obj).__name__}' object cannot be interpreted as an integer")
    return int(obj.__index__())


def fold(tx: Frame, function: Callable[..., Any], args: Iterable[Any], kwargs: dict[str, Any] | None = None) -> Value:
    """Run a pure function on Python objects now; its exception becomes the traced one."""
    try:
        result = function(*args, **(kwargs or {}))
    except Exception as error:
        return tx.raise_caught(error)
    return literal(tx, result)


_LITERALS: dict[type, Callable[[Frame, Any], Value]] = {}


def builds_literal(*types: type) -> Callable[[Callable[[Any, Any], Value]], Callable[[Any, Any], Value]]:
    """Register how a container that a folded function returned becomes a value."""

    def register(builder: Callable[[Any, Any], Value]) -> Callable[[Any, Any], Value]:
        for cls in types:
            _LITERALS[cls] = builder
        return builder

    return register


def literal(tx: Frame, obj: Any) -> Value:
    """A new value that equals `obj`: containers become fresh containers of the trace, the rest constants."""
    builder = _LITERALS.get(type(obj))
    if builder is None and isinstance(obj, IteratorABC):  # a constant of the code would be used up by its first call
        builder = _LITERALS.get(IteratorABC)
    if builder is not None:
        return builder(tx, obj)
    return tx.constant(obj)


def needs_fields(marks: Iterable[Any]) -> bool:
    """Whether objects among the stand-ins of keys are hashed by their own methods, which read their fields."""
    return any(getattr(mark, "needs_fields", False) for mark in marks)


class MethodTable:
    """The methods of one family, by name. `@table("append")` over `def f(self, tx, item)` adds a row."""

    def __init__(self, *parents: MethodTable) -> None:
        self.rows: dict[str, Method] = {}
        for parent in parents:
            self.rows.update(parent.rows)

    def __call__(self, *names: str) -> Callable[[Method], Method]:
        def register(method: Method) -> Method:
            for name in names:
                self.rows[name] = method
            return method

        return register

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def run(self, value: Value, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call row `name`; a call that does not fit the row's parameters is the traced TypeError."""
        method = self.rows.get(name)
        if method is None:
            return missing_method(value, tx, name)
        try:
            return method(value, tx, *args, **kwargs)
        except TypeError:
            if fits(method, value, tx, args, kwargs):
                raise
        return tx.raise_python(TypeError, f"{type_name(value)}.{name}() was called with wrong arguments")


def fits(method: Method, value: Any, tx: Any, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether the arguments bind to the row's parameters."""
    try:
        inspect.signature(method).bind(value, tx, *args, **kwargs)
    except TypeError:
        return False
    return True


def missing_method(value: Value, tx: Frame, name: str) -> Value:
    """A method without a row: AttributeError where the type has none, else a graph break."""
    cls = value.python_type()
    if not hasattr(cls, name):
        return tx.raise_python(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
    return tx.unsupported("call", f"method {name!r} of {cls.__name__} is not traced")
