"""`functools.partial`, `lru_cache` wrappers, and `operator` functions as values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import reductions
from triptych_dynamo.sources import AttrSource, PinnedSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.functions import FunctionValue
from triptych_dynamo.values.common import index_of, is_constant_equal, none
from triptych_dynamo.values.containers.hashing import key_of
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import TupleValue
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps
from triptych_dynamo.values.steering.deferred import DeferredCall, defer

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class PartialValue(Value):
    """`functools.partial(function, *args, **keywords)`."""

    def __init__(self, function: Value, args: Value, keywords: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.args, self.keywords = function, args, keywords
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return functools.partial

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        parts = {"func": self.function, "args": self.args, "keywords": self.keywords, **self.attributes}
        return parts[name] if name in parts else super().get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if self.source is not None:
            super().set_attr(tx, name, value)
        self.attributes[name] = value

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        assert isinstance(self.args, TupleValue) and isinstance(self.keywords, DictValue)
        named = {entry.key.as_constant(): entry.value for entry in self.keywords.all_entries(tx)}
        return tx.call(self.function, [*self.args.items, *args], {**named, **kwargs})

    def reconstruct(self, cg: Writer) -> None:
        assert isinstance(self.args, TupleValue) and isinstance(self.keywords, DictValue)
        cg.load_object(functools.partial)
        named = {entry.key.as_constant(): entry.value for entry in self.keywords.entries.values()}
        for value in (self.function, *self.args.items, *named.values()):
            cg.load(value)
        cg.call(1 + len(self.args.items) + len(named), tuple(named))
        for name, value in self.attributes.items():
            cg.copy()
            cg.load(value)
            cg.swap()
            cg.store_attr(name)


@constructs(functools.partial)
def _partial(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not args:
        return tx.raise_python(TypeError, "type 'partial' takes at least one argument")
    function, rest = args[0], args[1:]
    if isinstance(function, PartialValue):
        assert isinstance(function.args, TupleValue) and isinstance(function.keywords, DictValue)
        named = {entry.key.as_constant(): entry.value for entry in function.keywords.all_entries(tx)}
        rest, kwargs = [*function.args.items, *rest], {**named, **kwargs}
        function = function.function
    pairs = [(tx.constant(name), value) for name, value in kwargs.items()]
    return PartialValue(function, TupleValue(rest), DictValue(pairs))


@wraps(functools.partial)
def wrap_partial(tx: Frame, obj: functools.partial[Any], source: Source | None) -> Value:
    """A partial object of the program."""
    tx.guard("type_is", source, functools.partial)

    def part(name: str) -> Value:
        return tx.wrap(getattr(obj, name), AttrSource(source, name) if source is not None else None)

    return PartialValue(part("func"), part("args"), part("keywords"), source)


def _mark_of(tx: Frame, value: Value) -> Any:
    """An argument in the key of a cached call: an atom by type and value, anything else as in a dictionary."""
    obj = value.as_constant() if value.is_constant() else None
    return (type(obj), obj) if type(obj) in ConstantValue.ATOMS and obj is not None else key_of(tx, value)


class CachedFunctionValue(RealObjectValue):
    """A function under `functools.lru_cache`.

    Called with constants it is run: eager, too, would take the result of the first call ever after. With other
    arguments the function is inlined, once for the same arguments in a trace; one that only logs is then called as it
    is after the graph, and its cache keeps it from logging twice.
    """

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(obj, source)
        self.results: dict[Any, Value] = {}

    def _wrapped(self, tx: Frame) -> Value:
        return tx.wrap(
            self.obj.__wrapped__, AttrSource(self.source, "__wrapped__") if self.source is not None else None
        )

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if all(arg.is_constant() for arg in (*args, *kwargs.values())):
            return self._run(tx, args, kwargs)
        named = tuple((name, _mark_of(tx, arg)) for name, arg in kwargs.items())
        mark = (tuple(_mark_of(tx, arg) for arg in args), named)
        if mark not in self.results:
            self.results[mark] = self._inline(tx, args, kwargs)
        return self.results[mark]

    def _inline(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        before = tx.effects.changed()
        result = tx.call(self._wrapped(tx), args, kwargs)
        spoken: list[Any] = [item for item in tx.effects.changed()[len(before) :] if isinstance(item, DeferredCall)]
        if not spoken:
            return result
        if not is_constant_equal(result, None) or len(spoken) < len(tx.effects.changed()) - len(before):
            return tx.unsupported("library", f"the cached function {self.obj.__qualname__} logs and does more")
        tx.effects.withdraw(spoken)
        return defer(tx, self, args, kwargs)

    def _run(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        named = {name: arg.as_constant() for name, arg in kwargs.items()}
        try:
            result = self.obj(*(arg.as_constant() for arg in args), **named)
        except Exception as error:
            return tx.raise_python(type(error), *error.args)
        if type(result) in ConstantValue.ATOMS:
            return tx.constant(result)
        return tx.wrap(result, PinnedSource(result, f"result of {self.obj.__qualname__}"))

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__get__":
            return tx.call(self._wrapped(tx).get_attr(tx, "__get__"), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "__wrapped__":
            return self._wrapped(tx)
        if name in ("cache_clear", "cache_info"):
            return tx.unsupported("attribute", f"{name} of a cached function")
        return self._wrapped(tx).get_attr(tx, name)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


@wraps(functools._lru_cache_wrapper)
def wrap_cached_function(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A cached function of the program."""
    tx.guard("is", source, obj)
    return CachedFunctionValue(obj, source)


@constructs(functools._lru_cache_wrapper)
def _cached_in_region(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.call(tx.wrap(reductions.lru_cache_wrapper, None), args, kwargs)


@builtin(functools.update_wrapper)
def _update_wrapper(
    tx: Frame, wrapper: Value, wrapped: Value, assigned: Value | None = None, updated: Value | None = None
) -> Value:
    """The standard attributes, then those that the program put on the function, then `__wrapped__`."""
    names = functools.WRAPPER_ASSIGNMENTS if assigned is None else assigned.as_constant()
    for name in names:
        found = tx.catches(AttributeError, lambda name=name: wrapped.get_attr(tx, name))  # type: ignore[misc]
        if found is not None:
            wrapper.set_attr(tx, name, found)
    if isinstance(wrapped, FunctionValue):
        if wrapped.obj is not None:
            for name in vars(wrapped.obj):
                wrapper.set_attr(tx, name, wrapped.get_attr(tx, name))
        for name, value in wrapped.attributes.items():
            wrapper.set_attr(tx, name, value)
    wrapper.set_attr(tx, "__wrapped__", wrapped)
    return wrapper


# -- the functions of `operator` ---------------------------------------------------------------------------------------
def _binary(row: operators.BinaryOperator) -> None:
    def plain(tx: Frame, left: Value, right: Value, /) -> Value:
        return operators.binary(tx, row.symbol, left, right)

    def inplace(tx: Frame, left: Value, right: Value, /) -> Value:
        return operators.inplace(tx, row.symbol, left, right)

    builtin(row.function)(plain)
    builtin(row.inplace)(inplace)


def _comparison(row: operators.Comparison) -> None:
    def compare(tx: Frame, left: Value, right: Value, /) -> Value:
        return operators.compare(tx, row.symbol, left, right)

    builtin(row.function)(compare)


def _unary(symbol: str, function: Callable[..., Any]) -> None:
    def apply(tx: Frame, value: Value, /) -> Value:
        return operators.unary(tx, symbol, value)

    builtin(function)(apply)


for _row in operators.BINARY.values():
    _binary(_row)
for _comparison_row in operators.COMPARISONS.values():
    _comparison(_comparison_row)
for _symbol, (_function, _) in operators.UNARY.items():
    _unary(_symbol, _function)


@builtin(operator.getitem)
def _getitem(tx: Frame, container: Value, key: Value, /) -> Value:
    return operators.get_item(tx, container, key)


@builtin(operator.setitem)
def _setitem(tx: Frame, container: Value, key: Value, item: Value, /) -> Value:
    operators.set_item(tx, container, key, item)
    return none(tx)


@builtin(operator.delitem)
def _delitem(tx: Frame, container: Value, key: Value, /) -> Value:
    operators.del_item(tx, container, key)
    return none(tx)


@builtin(operator.contains)
def _contains(tx: Frame, container: Value, item: Value, /) -> Value:
    return operators.contains(tx, item, container)


@builtin(operator.is_)
def _is(tx: Frame, left: Value, right: Value, /) -> Value:
    return tx.constant(operators.is_same(left, right))


@builtin(operator.is_not)
def _is_not(tx: Frame, left: Value, right: Value, /) -> Value:
    return tx.constant(not operators.is_same(left, right))


@builtin(operator.not_)
def _not(tx: Frame, value: Value, /) -> Value:
    return tx.constant(not value.truth(tx))


@builtin(operator.truth)
def _truth(tx: Frame, value: Value, /) -> Value:
    return tx.constant(value.truth(tx))


@builtin(operator.index)
def _index(tx: Frame, value: Value, /) -> Value:
    if operators.in_graph(value):
        return value.call_method(tx, "__index__", [], {})
    return tx.constant(index_of(tx, value))


@builtin(operator.concat)
def _concat(tx: Frame, left: Value, right: Value, /) -> Value:
    return operators.binary(tx, "+", left, right)
