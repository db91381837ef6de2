"""Operators: which method of which operand answers `a + b`, `a < b`, `-a`, `a in b`, `a[b]` and their relatives.

In: values. Out: the value of the expression, or the traced exception. Constants are folded; expressions with a tensor
or a symbolic number among their operands become one graph node; all else goes through the operands' own methods by
the rules of Python's data model (in-place first, a subclass's reflected method first, `NotImplemented` passes on).
"""

from __future__ import annotations

import array
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import reductions
from triptych_dynamo.values.atoms import numbers
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import (
    constant_of,
    fold,
    index_of,
    is_not_implemented,
    is_scalar,
    supports,
    type_name,
)
from triptych_dynamo.values.tensors.tensor import OVERRIDES, TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


@dataclass(frozen=True)
class BinaryOperator:
    """A row: `symbol` as written, the functions of `operator`, and the three method names."""

    symbol: str
    function: Callable[[Any, Any], Any]
    inplace: Callable[[Any, Any], Any]
    stem: str

    @property
    def method(self) -> str:
        """`__add__`"""
        return f"__{self.stem}__"

    @property
    def reflected(self) -> str:
        """`__radd__`"""
        return f"__r{self.stem}__"

    @property
    def inplace_method(self) -> str:
        """`__iadd__`"""
        return f"__i{self.stem}__"


BINARY: dict[str, BinaryOperator] = {
    row.symbol: row
    for row in (
        BinaryOperator("+", operator.add, operator.iadd, "add"),
        BinaryOperator("-", operator.sub, operator.isub, "sub"),
        BinaryOperator("*", operator.mul, operator.imul, "mul"),
        BinaryOperator("/", operator.truediv, operator.itruediv, "truediv"),
        BinaryOperator("//", operator.floordiv, operator.ifloordiv, "floordiv"),
        BinaryOperator("%", operator.mod, operator.imod, "mod"),
        BinaryOperator("**", operator.pow, operator.ipow, "pow"),
        BinaryOperator("@", operator.matmul, operator.imatmul, "matmul"),
        BinaryOperator("<<", operator.lshift, operator.ilshift, "lshift"),
        BinaryOperator(">>", operator.rshift, operator.irshift, "rshift"),
        BinaryOperator("&", operator.and_, operator.iand, "and"),
        BinaryOperator("|", operator.or_, operator.ior, "or"),
        BinaryOperator("^", operator.xor, operator.ixor, "xor"),
    )
}


@dataclass(frozen=True)
class Comparison:
    """A row: `a < b`, its method and the method of `b` that answers when `a`'s does not."""

    symbol: str
    function: Callable[[Any, Any], Any]
    method: str
    reflected: str


COMPARISONS: dict[str, Comparison] = {
    row.symbol: row
    for row in (
        Comparison("<", operator.lt, "__lt__", "__gt__"),
        Comparison("<=", operator.le, "__le__", "__ge__"),
        Comparison("==", operator.eq, "__eq__", "__eq__"),
        Comparison("!=", operator.ne, "__ne__", "__ne__"),
        Comparison(">", operator.gt, "__gt__", "__lt__"),
        Comparison(">=", operator.ge, "__ge__", "__le__"),
    )
}

UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


def in_graph(value: Value) -> bool:
    """Whether `value` is computed by the graph: a tensor or a symbolic number."""
    return isinstance(value, (TensorValue, SymbolicValue))


def _graph_operands(left: Value, right: Value) -> bool:
    """Whether the expression is a graph node: one operand in the graph, the other there too or a constant."""
    if isinstance(left, TensorValue) and _is_number_of_a_class(right):
        return True
    if in_graph(left):
        return in_graph(right) or is_number(right) or getattr(right, "graph_number", False)
    return in_graph(right) and (is_number(left) or getattr(left, "graph_number", False))


def is_number(value: Value) -> bool:
    """Whether the value is a scalar constant, a float that changes, or a member of a numeric enumeration."""
    return (
        is_scalar(value)
        or isinstance(value, numbers.NumberValue)
        or (value.is_constant() and isinstance(value.as_constant(), (int, float)))
    )


def _is_number_of_a_class(value: Value) -> bool:
    """An instance of a subclass of int or float: a number to the tensor that it stands behind."""
    return isinstance(getattr(value, "storage", None), ConstantValue) and issubclass(value.python_type(), (int, float))


def _special(tx: Frame, value: Value, method: str, arg: Value) -> Value:
    """`type(value).method(value, arg)`, the constant NotImplemented where the type has no such method."""
    if in_graph(value) and not (in_graph(arg) or is_number(arg)):
        return tx.constant(NotImplemented)
    if not supports(value, method):
        return tx.constant(NotImplemented)
    return value.call_method(tx, method, [arg], {})


def _reflected_first(left: Value, right: Value, reflected: str) -> bool:
    """Whether the right operand's class is a proper subclass that redefines the reflected method."""
    a, b = left.python_type(), right.python_type()
    return a is not b and issubclass(b, a) and getattr(b, reflected, None) is not getattr(a, reflected, None)


def _dispatch(tx: Frame, left: Value, right: Value, method: str, reflected: str) -> Value:
    """Ask left, then right (or right first); the constant NotImplemented when neither answers."""
    if _reflected_first(left, right, reflected):
        result = _special(tx, right, reflected, left)
        if not is_not_implemented(result):
            return result
        return _special(tx, left, method, right)
    result = _special(tx, left, method, right)
    if is_not_implemented(result) and (left.python_type() is not right.python_type() or method == reflected):
        result = _special(tx, right, reflected, left)
    return result


def _redefined(value: Value, *methods: str) -> bool:
    """Whether the value is a tensor of a class of the program that has one of the methods itself."""
    return isinstance(value, TensorValue) and any(map(value.redefines, methods))


def computed(tx: Frame, function: Callable[..., Any], *operands: Value) -> Value | None:
    """The result where the operands are numbers that Python computes before the graph runs, a float among them."""
    if numbers.has_number(operands) and all(map(numbers.is_number, operands)):
        return numbers.apply(tx, function, list(operands))
    return None


def graph_operator(tx: Frame, function: Callable[..., Any], operands: list[Value]) -> Value:
    """An operator on tensors: what overrides it, or a node of the graph."""
    overridden = OVERRIDES["operator"](tx, function, operands)
    return tx.call_graph(function, operands) if overridden is None else overridden


def binary(tx: Frame, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right`, for a key of `BINARY`; raises the traced TypeError when neither operand implements it."""
    row = BINARY[symbol]
    if is_scalar(left) and is_scalar(right):
        return fold(tx, row.function, [left.as_constant(), right.as_constant()])
    number = computed(tx, row.function, left, right)
    if number is not None:
        return number
    if _redefined(left, row.method) or _redefined(right, row.reflected):
        return _binary_by_methods(tx, row, left, right, symbol)
    if _graph_operands(left, right):
        result = graph_operator(tx, row.function, [left, right])
        if is_not_implemented(result):
            tx.raise_python(TypeError, _operand_error(symbol, left, right))
        return result
    return _binary_by_methods(tx, row, *_known_beside_text(tx, left, right), symbol)


def _known_beside_text(tx: Frame, left: Value, right: Value) -> tuple[Value, Value]:
    """The operands, a number of this run in place of a symbolic one beside a string (`"%d" % n`, `"-" * n`)."""
    pair = (left, right)
    if not any(is_scalar(value) and isinstance(value.as_constant(), (str, bytes)) for value in pair):
        return pair
    first, second = (_known(tx, value) for value in pair)
    return first, second


def _known(tx: Frame, value: Value) -> Value:
    """A value with the numbers of this run in place of symbolic ones, also inside of a tuple."""
    items = getattr(value, "items", None)
    if value.python_type() is tuple and items is not None:
        known = [_known(tx, item) for item in items]
        return value if all(a is b for a, b in zip(known, items, strict=True)) else tx.trace.make_tuple(known)
    specialize = getattr(value, "specialize", None)
    return value if specialize is None else specialize(tx)  # type: ignore[no-any-return]


def inplace(tx: Frame, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol= right`: the in-place method first, then as `binary`."""
    row = BINARY[symbol]
    if is_scalar(left) and is_scalar(right):
        return fold(tx, row.function, [left.as_constant(), right.as_constant()])
    number = computed(tx, row.function, left, right)
    if number is not None:
        return number
    if _graph_operands(left, right):
        return graph_operator(tx, row.inplace if isinstance(left, TensorValue) else row.function, [left, right])
    result = _special(tx, left, row.inplace_method, right)
    if not is_not_implemented(result):
        return result
    return _binary_by_methods(tx, row, left, right, symbol + "=")


def _binary_by_methods(tx: Frame, row: BinaryOperator, left: Value, right: Value, symbol: str) -> Value:
    result = _dispatch(tx, left, right, row.method, row.reflected)
    if not is_not_implemented(result):
        return result
    if symbol in ("*", "*="):
        for sequence, times in ((left, right), (right, left)):
            if issubclass(sequence.python_type(), _SEQUENCES) and supports(times, "__index__"):
                in_place = symbol == "*=" and sequence is left and hasattr(sequence.python_type(), "__imul__")
                number = tx.constant(index_of(tx, times))
                return sequence.call_method(tx, "__imul__" if in_place else "__mul__", [number], {})
    return tx.raise_python(TypeError, _operand_error(symbol, left, right))


_SEQUENCES = (str, list, tuple, bytes, bytearray, array.array)
# The texts that sequences have of their own: class, operators, text.
_SEQUENCE_TEXTS: tuple[tuple[type, tuple[str, ...], str], ...] = (
    (str, ("+", "+="), 'can only concatenate str (not "{}") to str'),
    (list, ("+",), 'can only concatenate list (not "{}") to list'),
    (tuple, ("+", "+="), 'can only concatenate tuple (not "{}") to tuple'),
    (bytes, ("+", "+="), "can't concat {} to bytes"),
    (bytearray, ("+", "+="), "can't concat {} to bytearray"),
    (array.array, ("+",), 'can only append array (not "{}") to array'),
    (array.array, ("+=",), 'can only extend array with array (not "{}")'),
    *((cls, ("*", "*="), "can't multiply sequence by non-int of type '{}'") for cls in _SEQUENCES),
)


def _operand_error(symbol: str, left: Value, right: Value) -> str:
    """The text of the TypeError."""
    for cls, symbols, text in _SEQUENCE_TEXTS:
        if symbol in symbols and issubclass(left.python_type(), cls):
            return text.format(type_name(right))
    return f"unsupported operand type(s) for {symbol}: '{type_name(left)}' and '{type_name(right)}'"


def compare(tx: Frame, symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right` for `< <= == != > >=`; `==` and `!=` fall back to identity."""
    row = COMPARISONS[symbol]
    if is_scalar(left) and is_scalar(right):
        return fold(tx, row.function, [left.as_constant(), right.as_constant()])
    number = computed(tx, row.function, left, right)
    if number is not None:
        return number
    if _graph_operands(left, right):
        return _graph_comparison(tx, row, left, right)
    result = _dispatch(tx, left, right, row.method, row.reflected)
    if not is_not_implemented(result):
        return result
    if symbol in ("==", "!="):
        return tx.constant(is_same(left, right) == (symbol == "=="))
    return tx.raise_python(
        TypeError,
        f"'{symbol}' not supported between instances of '{type_name(left)}' and '{type_name(right)}'",
    )


def _graph_comparison(tx: Frame, row: Comparison, left: Value, right: Value) -> Value:
    """A comparison with a tensor or symbol; `tensor == None` and `symbol == "text"` are decided now, as eager decides
    them.
    """
    constant = right if is_scalar(right) else left
    if is_scalar(constant) and not isinstance(constant.as_constant(), (int, float, complex)):
        if row.symbol in ("==", "!="):
            return tx.constant(row.symbol == "!=")
        return tx.raise_python(
            TypeError,
            f"'{row.symbol}' not supported between instances of '{type_name(left)}' and '{type_name(right)}'",
        )
    return graph_operator(tx, row.function, [left, right])


def equal(tx: Frame, left: Value, right: Value) -> bool:
    """`left is right or bool(left == right)`, the test that containers make."""
    return is_same(left, right) or compare(tx, "==", left, right).truth(tx)


def is_same(left: Value, right: Value) -> bool:
    """`left is right`: one value, or two constants that are one object."""
    if left is right:
        return True
    if is_scalar(left) and is_scalar(right):
        a, b = left.as_constant(), right.as_constant()
        return a is b or (type(a) is type(b) and isinstance(a, (int, str, bytes, bool)) and a == b)
    return False


def unary(tx: Frame, symbol: str, value: Value) -> Value:
    """`-value`, `+value`, `~value`."""
    function, method = UNARY[symbol]
    if is_scalar(value):
        return fold(tx, function, [value.as_constant()])
    number = computed(tx, function, value)
    if number is not None:
        return number
    if in_graph(value):
        return graph_operator(tx, function, [value])
    if supports(value, method):
        return value.call_method(tx, method, [], {})
    return tx.raise_python(TypeError, f"bad operand type for unary {symbol}: '{type_name(value)}'")


def contains(tx: Frame, item: Value, container: Value) -> Value:
    """`item in container`, a bool."""
    if is_scalar(container) and is_scalar(item):
        return fold(tx, operator.contains, [container.as_constant(), item.as_constant()])
    if isinstance(container, TensorValue):
        return tx.unsupported("data-dependent", "`in` of a tensor")
    if supports(container, "__contains__"):
        result = container.call_method(tx, "__contains__", [item], {})
        return result if in_graph(result) else tx.constant(result.truth(tx))
    return tx.call(tx.wrap(reductions.contains, None), [container, item], {})


def get_item(tx: Frame, container: Value, key: Value) -> Value:
    """`container[key]`."""
    if isinstance(container, TensorValue):
        return container.call_method(tx, "__getitem__", [key], {})
    if is_scalar(container) and not isinstance(container.as_constant(), type):
        return fold(tx, operator.getitem, [container.as_constant(), constant_of(tx, key, "an index")])
    if not supports(container, "__getitem__"):
        if not issubclass(container.python_type(), type):
            return tx.raise_python(TypeError, f"'{type_name(container)}' object is not subscriptable")
        return container.call_method(tx, "__class_getitem__", [key], {})
    return container.call_method(tx, "__getitem__", [key], {})


def set_item(tx: Frame, container: Value, key: Value, item: Value) -> None:
    """`container[key] = item`."""
    if isinstance(container, TensorValue):
        container.call_method(tx, "__setitem__", [key, item], {})
        return
    if not supports(container, "__setitem__"):
        tx.raise_python(TypeError, f"'{type_name(container)}' object does not support item assignment")
    container.call_method(tx, "__setitem__", [key, item], {})


def del_item(tx: Frame, container: Value, key: Value) -> None:
    """`del container[key]`."""
    if not supports(container, "__delitem__"):
        tx.raise_python(TypeError, f"'{type_name(container)}' object doesn't support item deletion")
    container.call_method(tx, "__delitem__", [key], {})
