"""What the builtin functions do to values: one handler a function."""

from __future__ import annotations

import builtins
import io
import math
import operator
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.polyfills import iteration, reductions
from triptych_dynamo.values import attributes
from triptych_dynamo.values.atoms import numbers
from triptych_dynamo.values.atoms.run_texts import RunText, text_of_number
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.atoms.text import text_of
from triptych_dynamo.values.attributes import attribute_name
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import builtin, call_pure
from triptych_dynamo.values.common import (
    constant_of,
    fold,
    is_constant_equal,
    is_scalar,
    lookup,
    none,
    supports,
    type_name,
)
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.list_methods import sort_values
from triptych_dynamo.values.containers.sequences import ListValue, TupleValue
from triptych_dynamo.values.objects.objects import ObjectValue
from triptych_dynamo.values.objects.weak_references import ProxyValue
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


@builtin(len)
def _len(tx: Frame, value: Value, /) -> Value:
    if is_scalar(value):
        return fold(tx, len, [value.as_constant()])
    if not supports(value, "__len__"):
        return tx.raise_python(TypeError, f"object of type '{type_name(value)}' has no len()")
    return value.call_method(tx, "__len__", [], {})


@builtin(getattr)
def _getattr(tx: Frame, value: Value, name: Value, default: Value | None = None, /) -> Value:
    if default is None:
        return value.get_attr(tx, attribute_name(tx, name))
    found = tx.catches(AttributeError, lambda: value.get_attr(tx, attribute_name(tx, name)))
    return default if found is None else found


@builtin(hasattr)
def _hasattr(tx: Frame, value: Value, name: Value, /) -> Value:
    return tx.constant(value.has_attr(tx, attribute_name(tx, name)))


@builtin(setattr)
def _setattr(tx: Frame, value: Value, name: Value, item: Value, /) -> Value:
    value.set_attr(tx, attribute_name(tx, name), item)
    return none(tx)


@builtin(delattr)
def _delattr(tx: Frame, value: Value, name: Value, /) -> Value:
    value.del_attr(tx, attribute_name(tx, name))
    return none(tx)


def classes_of(tx: Frame, value: Value) -> list[type]:
    """The classes that the second argument of `isinstance` names."""
    if isinstance(value, TupleValue):
        return [cls for item in value.items for cls in classes_of(tx, item)]
    cls = value.as_constant() if value.is_constant() else None
    if cls is None:
        return tx.raise_python(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    return [cls]


@builtin(isinstance)
def _isinstance(tx: Frame, value: Value, classes: Value, /) -> Value:
    return tx.constant(any(is_instance(tx, value, cls) for cls in classes_of(tx, classes)))


def is_instance(tx: Frame, value: Value, cls: Any) -> bool:
    """`isinstance(value, cls)` by the value's type; `cls` may be a union or have an instance check of its own."""
    owner, own_check = lookup(type(cls), "__instancecheck__")
    if isinstance(own_check, FunctionType) and not attributes.is_trusted(owner):
        if value.python_type() is cls:
            return True
        checked = tx.call(tx.wrap(own_check, None), [tx.wrap(cls, None), value], {})
        return checked.truth(tx)
    if isinstance(value, TensorValue):
        return is_tensor_instance(value, cls)
    if isinstance(value, ProxyValue):
        return issubclass(value.python_type(), cls) or is_instance(tx, value.target(tx), cls)
    kind = value.python_type()
    check = attributes.defines(type(cls), "__instancecheck__") if isinstance(cls, type) else None
    if is_scalar(value):
        try:
            return isinstance(value.as_constant(), cls)
        except TypeError as error:
            return bool(tx.raise_python(TypeError, *error.args))
    if check is not None and getattr(cls, "_is_protocol", False):
        return protocol_holds(tx, value, cls)
    try:
        return issubclass(kind, cls)
    except TypeError as error:
        return bool(tx.raise_python(TypeError, *error.args))


def is_tensor_instance(value: TensorValue, cls: Any) -> bool:
    """`isinstance` of a tensor: classes such as `torch.FloatTensor` look at its facts."""
    if isinstance(cls, type) and type(cls) is not type and issubclass(type(cls), type(torch.FloatTensor)):
        return isinstance(value.fake, cls)
    return issubclass(value.cls, cls)


def protocol_holds(tx: Frame, value: Value, cls: Any) -> bool:
    """`isinstance` with a runtime-checkable protocol: by its members."""
    members = getattr(cls, "__protocol_attrs__", None) or [
        name for base in cls.__mro__ for name in vars(base) if getattr(base, "_is_protocol", False) and name[:1] != "_"
    ]
    return all(value.has_attr(tx, name) for name in members)


@builtin(issubclass)
def _issubclass(tx: Frame, cls: Value, classes: Value, /) -> Value:
    return call_pure(tx, issubclass, [cls, classes], {})


@builtin(callable)
def _callable(tx: Frame, value: Value, /) -> Value:
    return tx.constant(supports(value, "__call__"))


@builtin(iter)
def _iter(tx: Frame, value: Value, sentinel: Value | None = None, /) -> Value:
    if sentinel is not None:
        return tx.call(tx.wrap(iteration.iter_until, None), [value, sentinel], {})
    return iterators.get_iter(tx, value)


@builtin(next)
def _next(tx: Frame, iterator: Value, default: Value | None = None, /) -> Value:
    if default is None and not isinstance(iterator, iterators.IteratorValue):
        return iterator.call_method(tx, "__next__", [], {})
    item = iterators.next_item(tx, iterator)
    if item is not None:
        return item
    return tx.raise_python(StopIteration) if default is None else default


@builtin(sorted)
def _sorted(tx: Frame, iterable: Value, /, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    return ListValue(sort_values(tx, iterators.items_of(tx, iterable), key, reverse))


@builtin(sum)
def _sum(tx: Frame, iterable: Value, /, start: Value | None = None) -> Value:
    items = iterators.items_of(tx, iterable)
    start = tx.constant(0) if start is None else start
    if is_scalar(start) and all(is_scalar(item) for item in items):
        return fold(tx, sum, [[item.as_constant() for item in items], start.as_constant()])
    return tx.call(tx.wrap(reductions.sum_, None), [ListValue(items), start], {})


def _extreme(function: Any, model: Any, symbolic: Any) -> None:
    def extreme(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        items = iterators.items_of(tx, args[0]) if len(args) == 1 else list(args)
        if not kwargs and items and all(is_scalar(item) for item in items):
            return fold(tx, function, [[item.as_constant() for item in items]])
        if not kwargs and len(items) == 2 and all(numbers.is_number(item) for item in items):
            return operators.computed(tx, function, *items) or tx.call_graph(symbolic, items)
        return tx.call(tx.wrap(model, None), [ListValue(items)], kwargs)

    builtin(function)(extreme)


_extreme(min, reductions.min_, torch.sym_min)
_extreme(max, reductions.max_, torch.sym_max)


@builtin(abs)
def _abs(tx: Frame, value: Value, /) -> Value:
    if is_scalar(value):
        return fold(tx, abs, [value.as_constant()])
    if operators.in_graph(value):
        return tx.call_graph(operator.abs, [value])
    return value.call_method(tx, "__abs__", [], {})


@builtin(round)
def _round(tx: Frame, value: Value, digits: Value | None = None) -> Value:
    extra = [] if digits is None or is_constant_equal(digits, None) else [digits]
    if numbers.is_number(value):
        return call_pure(tx, round, [value, *extra], {})
    if not supports(value, "__round__"):
        return tx.raise_python(TypeError, f"type {type_name(value)} doesn't define __round__ method")
    return value.call_method(tx, "__round__", extra, {})


@builtin(divmod)
def _divmod(tx: Frame, left: Value, right: Value, /) -> Value:
    if is_scalar(left) and is_scalar(right):
        return fold(tx, divmod, [left.as_constant(), right.as_constant()])
    unknown = operators.in_graph(left) or numbers.has_number([left, right])
    if supports(left, "__divmod__") and not unknown:
        return left.call_method(tx, "__divmod__", [right], {})
    return tx.call(tx.wrap(reductions.divmod_, None), [left, right], {})


@builtin(pow)
def _pow(tx: Frame, base: Value, exp: Value, mod: Value | None = None) -> Value:
    if mod is not None and not is_constant_equal(mod, None):
        return call_pure(tx, pow, [base, exp, mod], {})
    return operators.binary(tx, "**", base, exp)


@builtin(hash)
def _hash(tx: Frame, value: Value, /) -> Value:
    if value.is_constant():
        return fold(tx, hash, [value.as_constant()])
    if isinstance(value, SymbolicValue):
        return _hash(tx, value.specialize(tx))
    if isinstance(value, TupleValue) and value.cls is tuple:
        return tx.constant(hash(tuple(_Hashed(_hash(tx, item).as_constant()) for item in value.items)))
    return value.call_method(tx, "__hash__", [], {})


class _Hashed:
    """Something of that hash."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


@builtin(repr)
def _repr(tx: Frame, value: Value, /) -> Value:
    return tx.constant(text_of(tx, value, "__repr__"))


@builtin(format)
def _format(tx: Frame, value: Value, spec: Value | None = None, /) -> Value:
    return format_value(tx, value, None, "" if spec is None else spec.as_constant())


def format_value(tx: Frame, value: Value, conversion: str | None, spec: Any) -> Value:
    """One field of an f-string.

    Args:
        conversion: `str`, `repr` or `ascii` (or the letter), None for none.
        spec: the format specification, a string or a string value.
    """
    text = spec.as_constant() if isinstance(spec, Value) else (spec or "")
    how = {"s": "str", "r": "repr", "a": "ascii"}.get(conversion or "", conversion or "")
    if isinstance(value, RunText) and value.is_computed and how in ("", "str") and not text:
        return value
    made = text_of_number(tx, value, how, text)
    if made is not None:
        return made
    if how:
        shown = text_of(tx, value, "__str__" if how == "str" else "__repr__")
        return fold(tx, format, [ascii(shown)[1:-1] if how == "ascii" else shown, text])
    if is_scalar(value) or numbers.is_number(value):
        return call_pure(tx, format, [value, tx.constant(text)], {})
    own = attributes.defines(value.python_type(), "__format__")
    if own is not attributes.defines(object, "__format__") and not value.is_constant():
        return value.call_method(tx, "__format__", [tx.constant(text)], {})
    return fold(tx, format, [text_of(tx, value, "__str__"), text])


@builtin(vars)
def _vars(tx: Frame, value: Value | None = None, /) -> Value:
    if value is None:
        return tx.call(tx.wrap(locals, None), [])
    return value.get_attr(tx, "__dict__")


@builtin(dir)
def _dir(tx: Frame, value: Value, /) -> Value:
    if isinstance(attributes.defines(value.python_type(), "__dir__"), FunctionType):
        names = value.call_method(tx, "__dir__", [], {})
        return tx.call(tx.wrap(sorted, None), [names])
    return call_pure(tx, dir, [value], {})


@builtin(input, open, io.open, breakpoint)
def _input_output(tx: Frame, *args: Value, **kwargs: Value) -> Value:
    return tx.unsupported("input-output", "reading or opening")


@builtin(eval, exec, compile)
def _evaluate(tx: Frame, *args: Value, **kwargs: Value) -> Value:
    return tx.unsupported("call", "eval, exec or compile")


@builtin(sys.exc_info)
def _exc_info(tx: Frame) -> Value:
    """Type, exception and traceback of what is being handled; the traceback is None while tracing."""
    handled = tx.trace.handled_exception(tx)
    if handled is None:
        return TupleValue([none(tx), none(tx), none(tx)])
    return TupleValue([tx.wrap(handled.python_type(), None), handled, none(tx)])


@builtin(sys.exception)
def _exception(tx: Frame) -> Value:
    handled = tx.trace.handled_exception(tx)
    return none(tx) if handled is None else handled


@builtin(builtins.__import__)
def _import(tx: Frame, name: Value, *args: Value, **kwargs: Value) -> Value:
    if args or kwargs:
        return tx.unsupported("call", "__import__ of more than a name")
    try:
        module = __import__(constant_of(tx, name, "the name of a module"))
    except ImportError as error:
        return tx.raise_caught(error)
    return tx.wrap(module, None)


def _rounding(function: Any, method: str) -> None:
    def handler(tx: Frame, value: Value, /) -> Value:
        if isinstance(value, ObjectValue) and supports(value, method):
            return value.call_method(tx, method, [], {})
        return call_pure(tx, function, [value], {})

    builtin(function)(handler)


for _function, _method in ((math.trunc, "__trunc__"), (math.floor, "__floor__"), (math.ceil, "__ceil__")):
    _rounding(_function, _method)
