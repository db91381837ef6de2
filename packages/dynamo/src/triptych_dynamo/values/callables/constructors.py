"""Calls of builtin classes: `int(x)`, `list(it)`, `zip(a, b)`, `type(x)` and the rest."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.polyfills import iteration
from triptych_dynamo.values.atoms.numbers import NumberValue, is_number
from triptych_dynamo.values.atoms.run_texts import text_of_number
from triptych_dynamo.values.atoms.scalars import integer_of
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.atoms.text import text_of
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import call_pure
from triptych_dynamo.values.callables.functions import MethodValue
from triptych_dynamo.values.common import index_of, is_scalar, lookup, supports, type_name
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.ranges import make_range, make_slice
from triptych_dynamo.values.containers.sequences import ListValue, SequenceValue, TupleValue
from triptych_dynamo.values.containers.sets import make_set
from triptych_dynamo.values.objects import instances
from triptych_dynamo.values.objects.classes import ClassValue, class_method, constructs
from triptych_dynamo.values.objects.objects import ObjectValue
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

Kwargs = dict[str, Value]


def _number(cls: type, method: str, symbolic: Any) -> None:
    def construct(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
        if len(args) == 1 and not kwargs and not is_scalar(args[0]):
            return convert(tx, args[0])
        return call_pure(tx, cls, args, kwargs)

    def convert(tx: Frame, value: Value) -> Value:
        if isinstance(value, SymbolicValue):
            if cls is int and value.python_type() is float and tx.trace.unbacked.is_unbacked(value.sym):
                return integer_of(tx, value, "int")
            return value if value.python_type() is cls else tx.call_graph(symbolic, [value])
        if isinstance(value, NumberValue):
            return value if value.python_type() is cls else call_pure(tx, cls, [value], {})
        if isinstance(value, TensorValue):
            return value.call_method(tx, method, [], {})
        for candidate in (method, "__index__", "__trunc__"):
            if supports(value, candidate):
                return value.call_method(tx, candidate, [], {})
        return tx.raise_python(
            TypeError, f"{cls.__name__}() argument must be a string or a real number, not '{type_name(value)}'"
        )

    constructs(cls)(construct)


_number(int, "__int__", torch.sym_int)
_number(float, "__float__", torch.sym_float)


@constructs(bool)
def _bool(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    if args and isinstance(args[0], TensorValue):
        return args[0].call_method(tx, "__bool__", [], {})
    return tx.constant(args[0].truth(tx) if args else False)


@constructs(complex)
def _complex(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return call_pure(tx, complex, args, kwargs)


@constructs(str)
def _str(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    if len(args) == 1 and not kwargs:
        made = text_of_number(tx, args[0], "", "") if is_number(args[0]) else None
        return made or tx.constant(text_of(tx, args[0], "__str__"))
    return call_pure(tx, str, args, kwargs)


@constructs(list)
def _list(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return ListValue(list(_items(tx, args[0])) if args else [])


@constructs(tuple)
def _tuple(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    if args and isinstance(args[0], TupleValue) and args[0].cls is tuple:
        return args[0]
    return TupleValue(list(_items(tx, args[0])) if args else [])


def _items(tx: Frame, value: Value) -> list[Value]:
    return value.items if isinstance(value, SequenceValue) else iterators.items_of(tx, value)


@constructs(torch.Size)
def _size(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return TupleValue(list(_items(tx, args[0])) if args else [], cls=torch.Size)


@constructs(dict)
def _dict(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return _mapping(tx, dict, args, kwargs)


@constructs(OrderedDict)
def _ordered_dict(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return _mapping(tx, OrderedDict, args, kwargs)


@constructs(defaultdict)
def _defaultdict(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return _mapping(tx, defaultdict, args, kwargs)


def _mapping(tx: Frame, cls: type, args: list[Value], kwargs: Kwargs) -> Value:
    result = DictValue(cls=cls)
    instances.fill_storage(tx, result, args, kwargs)
    return result


@class_method(dict, "fromkeys")
def _fromkeys(tx: Frame, cls: ClassValue, iterable: Value, value: Value | None = None) -> Value:
    result = tx.call(cls, [], {})
    for key in iterators.items_of(tx, iterable):
        operators.set_item(tx, result, key, tx.constant(None) if value is None else value)
    return result


@class_method(itertools.chain, "from_iterable")
def _chain_from_iterable(tx: Frame, cls: ClassValue, iterables: Value) -> Value:
    return tx.call(tx.wrap(iteration.chain_from_iterable, None), [iterables], {})


@constructs(set)
def _set(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return make_set(tx, set, args[0] if args else None)


@constructs(frozenset)
def _frozenset(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return make_set(tx, frozenset, args[0] if args else None)


@constructs(range)
def _range(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return make_range(tx, args)


@constructs(slice)
def _slice(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return make_slice(tx, args)


@constructs(zip)
def _zip(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    strict = "strict" in kwargs and kwargs["strict"].truth(tx)
    return iterators.ZipIterator([iterators.get_iter(tx, arg) for arg in args], strict, TupleValue)


@constructs(map)
def _map(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return iterators.MapIterator(args[0], [iterators.get_iter(tx, arg) for arg in args[1:]])


@constructs(filter)
def _filter(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return iterators.FilterIterator(args[0], iterators.get_iter(tx, args[1]))


@constructs(enumerate)
def _enumerate(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    start = kwargs.get("start") or (args[1] if len(args) > 1 else None)
    iterable = args[0] if args else kwargs["iterable"]
    first = 0 if start is None else index_of(tx, start, "the start of enumerate")
    return iterators.EnumerateIterator(iterators.get_iter(tx, iterable), first, TupleValue)


@constructs(reversed)
def _reversed(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    value = args[0]
    if isinstance(value, SequenceValue):
        return iterators.ReverseIterator(value)
    if is_scalar(value):
        return iterators.SnapshotIterator(list(value.iterate(tx))[::-1], reversed)
    cls = value.python_type()
    if supports(value, "__reversed__"):
        return value.call_method(tx, "__reversed__", [], {})
    if lookup(cls, "__reversed__")[1] is None or not (supports(value, "__len__") and supports(value, "__getitem__")):
        return tx.raise_python(TypeError, f"'{cls.__name__}' object is not reversible")
    return iterators.ReverseByIndex(value, index_of(tx, value.call_method(tx, "__len__", [], {})) - 1)


@constructs(object)
def _object(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return ObjectValue(object)


def _fact(cls: Any) -> None:
    def construct(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
        if not args and not kwargs:
            tx.trace.modes_read.add("default_dtype")  # `torch.finfo()` is about it
        return call_pure(tx, cls, args, kwargs)

    constructs(cls)(construct)


for _cls in (torch.device, torch.finfo, torch.iinfo):
    _fact(_cls)


@constructs(SimpleNamespace)
def _namespace(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    if args:
        return tx.raise_python(TypeError, "no positional arguments expected")
    result = ObjectValue(SimpleNamespace)
    for name, value in kwargs.items():
        result.store_field(tx, name, value)
    return result


@constructs(MethodType)
def _method(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return MethodValue(args[0], args[1])


@constructs(torch.nn.Buffer)
def _parameters(tx: Frame, args: list[Value], kwargs: Kwargs) -> Value:
    return tx.unsupported("module-construction", "a buffer is made inside the compiled region")
