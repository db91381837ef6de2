"""`FunctionValue`: Python functions, read from the program or made in the trace, and bound methods of them.

A call binds the arguments as Python does and runs the body symbolically in a frame of its own (inlining).
"""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import AttrSource, GlobalSource, ItemSource, PinnedSource
from triptych_dynamo.steering import skip_reason
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.binding import bind_arguments, read_default
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.callables.generators import GeneratorValue
from triptych_dynamo.values.common import Unread, is_trusted_name, origin_of
from triptych_dynamo.values.registry import wraps, wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


# Attributes that are fields of a function object, not in its dictionary.
_FIELDS = frozenset(
    (
        *("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "__annotations__"),
        *("__annotate__", "__type_params__"),
    )
)
# What newer versions have in a function that says nothing of it.
_ABSENT_FIELDS = {
    name: value for name, value in (("__annotate__", None), ("__type_params__", ())) if hasattr(FunctionType, name)
}
_HAS_DOCSTRING = 0x4000000  # since CPython 3.14; before, the first constant is the docstring or None


def docstring(code: CodeType) -> str | None:
    """The docstring of a function's code."""
    if sys.version_info >= (3, 14) and not code.co_flags & _HAS_DOCSTRING:
        return None
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


class FunctionValue(Value):
    """A Python function.

    Args:
        code, namespace, name, qualname: as of a function object.
        defaults, kwdefaults: values of the parameters' defaults.
        closure: cells of `code.co_freevars`, in order.
        obj: the real function when there is one.
    """

    def __init__(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        *,
        defaults: list[Any] | None = None,
        kwdefaults: dict[str, Any] | None = None,
        closure: list[CellValue] | None = None,
        obj: FunctionType | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.code = code
        self.namespace = namespace
        self.defaults = defaults or []
        self.kwdefaults = kwdefaults or {}
        self.closure = closure or []
        self.obj = obj
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return FunctionType

    def is_constant(self) -> bool:
        return self.obj is not None

    def as_constant(self) -> Any:
        return self.obj if self.obj is not None else super().as_constant()

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return self.obj if self.obj is not None else self

    @property
    def qualified_name(self) -> str:
        """`__qualname__`, which the program may have set."""
        stored = self.attributes.get("__qualname__")
        if stored is not None and stored.is_constant():
            return str(stored.as_constant())
        return self.obj.__qualname__ if self.obj is not None else self.code.co_qualname

    # -- attributes ----------------------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        special = {
            "__name__": lambda: ConstantValue(self.obj.__name__ if self.obj else self.code.co_name),
            "__qualname__": lambda: ConstantValue(self.qualified_name),
            "__code__": lambda: ConstantValue(self.code),
            "__defaults__": lambda: tx.trace.make_tuple(self.defaults) if self.defaults else ConstantValue(None),
            "__closure__": lambda: tx.trace.make_tuple(list(self.closure)) if self.closure else ConstantValue(None),
            "__module__": lambda: ConstantValue(self.obj.__module__ if self.obj else self.namespace.get("__name__")),
            "__doc__": lambda: ConstantValue(self.obj.__doc__ if self.obj else docstring(self.code)),
            "__dict__": lambda: self._dictionary(tx),
            "__globals__": lambda: tx.trace.scope_of(self.namespace).as_dictionary(),
            "__class__": lambda: tx.constant(FunctionType),
            "__annotations__": lambda: self._annotations(tx),
            "__kwdefaults__": lambda: self._keyword_defaults(tx),
        }.get(name)
        if special is not None:
            return special()
        if name == "__get__":
            return FunctionGet(self)
        if name == "__call__":
            return self
        if self.obj is not None and name in vars(self.obj):
            origin = self._origin()
            return tx.wrap(vars(self.obj)[name], AttrSource(origin, name) if origin is not None else None)
        if self.obj is not None and hasattr(self.obj, name):
            return tx.constant(getattr(self.obj, name))
        if name in _ABSENT_FIELDS:
            return tx.constant(_ABSENT_FIELDS[name])
        origin = self._origin()
        if origin is not None:
            tx.guard("lacks_attr", origin, name)
        tx.raise_python(AttributeError, f"'function' object has no attribute {name!r}")

    def _origin(self) -> Source | None:
        """Where attributes of a function of the program are read again."""
        if self.obj is None or (self.source is None and is_trusted_name(self.obj.__module__ or "")):
            return None
        return origin_of(self.obj, self.source)

    def _dictionary(self, tx: Frame) -> Value:
        """A snapshot of the attributes that the program put on the function."""
        names = [*(vars(self.obj) if self.obj is not None else ()), *self.attributes]
        own = [name for name in dict.fromkeys(names) if name not in _FIELDS]
        return tx.trace.make_dict([(ConstantValue(name), self.get_attr(tx, name)) for name in own])

    def _annotations(self, tx: Frame) -> Value:
        if self.obj is None:
            annotate = self.attributes.get("__annotate__")  # 3.14 evaluates them when they are asked for
            result = tx.trace.make_dict([]) if annotate is None else tx.call(annotate, [ConstantValue(1)])
            self.attributes["__annotations__"] = result
            return result
        source = AttrSource(self.source, "__annotations__") if self.source is not None else None
        return tx.wrap(self.obj.__annotations__, source)

    def _keyword_defaults(self, tx: Frame) -> Value:
        if not self.kwdefaults:
            return ConstantValue(None)
        pairs: list[tuple[Value, Value]] = [
            (ConstantValue(name), read_default(self.kwdefaults, name)) for name in self.kwdefaults
        ]
        return tx.trace.make_dict(pairs)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        self.attributes[name] = value
        if self.obj is not None:
            tx.effects.mutated(self)

    def replay(self, cg: Writer) -> None:
        """Store the attributes that the program set on a real function."""
        for name, value in self.attributes.items():
            cg.load(value)
            cg.load(self)
            cg.store_attr(name)

    # -- calls ---------------------------------------------------------------------------------------------------------
    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        flags = self.code.co_flags
        if flags & _COROUTINE:
            return tx.unsupported("async", f"calling {self.code.co_qualname}")
        if self.obj is not None and (reason := skip_reason(self.obj)):
            return tx.unsupported("disabled", reason)
        local_values = bind_arguments(tx, self, args, kwargs)
        cells = dict(zip(self.code.co_freevars, self.closure, strict=True))
        frame = tx.trace.new_frame(self.code, self.namespace, local_values, cells, tx)
        if flags & inspect.CO_GENERATOR:
            generator = GeneratorValue(frame)
            for name, own in (("__name__", self.code.co_name), ("__qualname__", self.code.co_qualname)):
                text = self.get_attr(tx, name).as_constant()
                if text != own:
                    generator.names[name] = text
            return generator
        if tx.awaited is self:
            tx.trace.follow(tx, frame)
        return frame.run()

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name == "__get__":
            return FunctionGet(self).call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    # -- code after the graph ------------------------------------------------------------------------------------------
    def reconstruct(self, cg: Writer) -> None:
        if self.obj is not None:
            cg.load_object(self.obj)
            return
        cg.load_object(FunctionType)
        cg.load_const(self.code)
        cg.load_object(self.namespace)
        cg.load_const(self.code.co_name)
        _load_tuple(cg, self.defaults)
        _load_tuple(cg, list(self.closure))
        cg.call(5)
        stores: dict[str, Value] = dict(self.attributes)
        if self.kwdefaults:
            cg.copy()
            for key, value in self.kwdefaults.items():  # of a function made in the trace: all read
                cg.load_const(key)
                cg.load(value)
            cg.build("MAP", len(self.kwdefaults))
            cg.swap()
            cg.store_attr("__kwdefaults__")
        for name, value in stores.items():
            cg.copy()
            cg.load(value)
            cg.swap()
            cg.store_attr(name)

    def __repr__(self) -> str:
        return f"Function({self.code.co_qualname})"


def _load_tuple(cg: Writer, items: list[Value]) -> None:
    if not items:
        cg.load_const(None)
        return
    for item in items:
        cg.load(item)
    cg.build("TUPLE", len(items))


class FunctionGet(Value):
    """`function.__get__`, the descriptor protocol of functions."""

    def __init__(self, function: Value) -> None:
        super().__init__()
        self.function = function

    def python_type(self) -> type:
        return type(FunctionType.__get__)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        owner = args[0]
        if owner.is_constant() and owner.as_constant() is None:
            return self.function
        return MethodValue(self.function, owner)


class MethodValue(Value):
    """A bound method: a function and the object that becomes its first argument."""

    def __init__(self, function: Value, owner: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function = function
        self.owner = owner

    def python_type(self) -> type:
        return MethodType

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return ("method", self.function.key(tx), id(self.owner))

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        if name == "__class__":
            return tx.constant(MethodType)
        return self.function.get_attr(tx, name)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        tx.pass_on(self, self.function)
        return self.function.call(tx, [self.owner, *args], kwargs)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name == "__eq__" and isinstance(args[0], MethodValue):
            same = args[0].owner is self.owner and args[0].function is self.function
            return ConstantValue(same)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(MethodType)
        cg.load(self.function)
        cg.load(self.owner)
        cg.call(2)

    def __repr__(self) -> str:
        return f"Method({self.function!r} of {self.owner!r})"


def _is_stable(source: Source) -> bool:
    """Whether the same function object is found there at every call (so that its identity is a cheap guard)."""
    return isinstance(source.root, PinnedSource) or isinstance(source, GlobalSource)


@wraps_if(lambda obj: type(obj) is FunctionType, order=90)
def wrap_function(tx: Frame, obj: FunctionType, source: Source | None) -> Value:
    """A Python function of the program.

    One found in a module or class is guarded by identity; one passed in (a closure made anew for each call) by its
    code, its defaults and its cells.
    """
    if source is None or _is_stable(source):
        tx.guard("is", source, obj)
        source = PinnedSource(obj, obj.__qualname__) if source is None else source
    else:
        tx.guard("type_is", source, FunctionType)
        tx.guard("is", AttrSource(source, "__code__"), obj.__code__)
    value = FunctionValue(obj.__code__, obj.__globals__, obj=obj, source=source)
    tx.trace.remember(obj, value)
    value.defaults = [
        default_of(tx, obj, item, ItemSource(AttrSource(source, "__defaults__"), index))
        for index, item in enumerate(obj.__defaults__ or ())
    ]
    value.kwdefaults = {
        key: default_of(tx, obj, item, ItemSource(AttrSource(source, "__kwdefaults__"), key))
        for key, item in (obj.__kwdefaults__ or {}).items()
    }
    value.closure = [
        tx.wrap(cell, ItemSource(AttrSource(source, "__closure__"), index))  # type: ignore[misc]
        for index, cell in enumerate(obj.__closure__ or ())
    ]
    return value


def default_of(tx: Frame, function: FunctionType, item: Any, source: Source) -> Any:
    """A parameter's default, unread; constants of torch and of the standard library are taken as given."""
    if type(item) in ConstantValue.ATOMS and is_trusted_name(function.__module__ or ""):
        return ConstantValue(item)
    return Unread(tx, item, source)


@wraps(MethodType)
def wrap_method(tx: Frame, obj: MethodType, source: Source | None) -> Value:
    """A bound method of the program."""
    tx.guard("type_is", source, MethodType)
    function_source = AttrSource(source, "__func__") if source is not None else None
    owner_source = AttrSource(source, "__self__") if source is not None else None
    return MethodValue(tx.wrap(obj.__func__, function_source), tx.wrap(obj.__self__, owner_source), source)
