"""`NumberValue`: a float that differs from run to run, and what Python computes from it.

Floats are not followed through the graph: an expression over floats (and over integers known before the graph runs)
is computed by Python from where its parts are read, just as eager computes it, and enters the graph as one number
where a tensor function takes it. So `x * math.sqrt(self.scale * 0.9)` has one float input. A decision on such a number
becomes a guard that computes it again. Results that are integers become symbolic integers, which sizes may depend on.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import number_of_expression
from triptych_dynamo.guards import number_facts
from triptych_dynamo.guards.shape_program import INT64_MAX, INT64_MIN
from triptych_dynamo.sources import ComputedSource, LiteralSource
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_NUMBERS = (int, float, bool)
# Functions that give a float (or bool) for any finite or infinite floats, and raise for none.
_TOTAL = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, abs),
        *(operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge),
        *(math.isnan, math.isinf, math.isfinite, math.copysign, math.fabs, math.degrees, math.radians),
        *(math.atan, math.atan2, math.tanh, math.erf, math.erfc),
    }
)


class NumberValue(Value):
    """A float or bool that is `value` in this run and is read or computed at `source` in every run."""

    source: Source

    def __init__(self, value: Any, source: Source) -> None:
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def as_graph_arg(self, tx: Frame) -> Any:
        """A number input of the graph. NaN and infinities are constants: torch's functions look at their numbers."""
        if type(self.value) is not float or not math.isfinite(self.value):
            return self.specialize(tx).value
        return tx.trace.shapes.float_node(tx, self.value, self.source)

    def truth(self, tx: Frame) -> bool:
        """Decided by the number of this run; guarded."""
        tx.guard("python", None, number_facts.truth_fact(self.source, bool(self.value)))
        return bool(self.value)

    def specialize(self, tx: Frame) -> ConstantValue:
        """The constant that it is in this run; guarded."""
        if isinstance(self.source, ComputedSource):
            tx.guard("python", None, number_facts.equality_fact(self.source, self.value))
        else:
            tx.guard("equals", self.source, self.value)
        return ConstantValue(self.value)

    def key(self, tx: Frame) -> Any:
        return self.specialize(tx).value

    def get_attr(self, tx: Frame, name: str) -> Value:
        return self.specialize(tx).get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Arithmetic by its dunder name; any other method works on the number of this run."""
        function = _METHODS.get(name)
        if function is not None and not kwargs:
            if not all(is_number(arg) for arg in args):
                return ConstantValue(NotImplemented)
            operands = [*args, self] if name.startswith("__r") and name not in ("__round__",) else [self, *args]
            result = apply(tx, function, operands)
            if result is not None:
                return result
        if name == "__bool__":
            return ConstantValue(self.truth(tx))
        return self.specialize(tx).call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_source(self.source)

    def __repr__(self) -> str:
        return f"Number({self.source} = {self.value})"


_STEMS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{stem}__": getattr(operator, stem) for stem in _STEMS},
    **{f"__r{stem}__": getattr(operator, stem) for stem in _STEMS},
    **{f"__{stem}__": getattr(operator, stem) for stem in ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs")},
    **{"__int__": int, "__float__": float, "__round__": round, "__trunc__": math.trunc},
    **{"__floor__": math.floor, "__ceil__": math.ceil},
}


def is_number(value: Value) -> bool:
    """Whether the value is an int, float, bool or (known) complex number."""
    if isinstance(value, (NumberValue, SymbolicValue)):
        return True
    return isinstance(value, ConstantValue) and isinstance(value.value, (int, float, complex))


def apply(tx: Frame, function: Callable[..., Any], operands: list[Value]) -> Value | None:
    """`function(*operands)` computed by Python at run time; None where an operand is known only inside the graph.

    Args:
        function: pure; gives a number (any other result, or an exception, makes the operands constants).
        operands: numbers.
    """
    sources = [source_of(tx, operand) for operand in operands]
    if any(source is None for source in sources):
        return None
    try:
        result = function(*[number_of(tx, operand) for operand in operands])
    except Exception as error:  # the program's own
        _fix(tx, operands)
        return tx.raise_python(type(error), *error.args)
    kind = type(result)
    if kind not in _NUMBERS or (kind is int and not INT64_MIN <= result <= INT64_MAX):
        _fix(tx, operands)
        return tx.constant(result)
    source = ComputedSource(function, tuple(sources))  # type: ignore[arg-type]
    if function not in _TOTAL or kind is int or any(operand.python_type() is int for operand in operands):
        tx.guard("python", None, number_facts.type_fact(source, kind))
    if kind is int:
        return tx.trace.shapes.integer_of(tx, result, source)
    return NumberValue(result, source)


def _fix(tx: Frame, operands: list[Value]) -> None:
    for operand in operands:
        if isinstance(operand, (NumberValue, SymbolicValue)):
            operand.specialize(tx)


def number_of(tx: Frame, value: Value) -> Any:
    """The number of this run."""
    if isinstance(value, NumberValue):
        return value.value
    if isinstance(value, SymbolicValue):
        return tx.trace.shapes.number_of(value.sym)
    return value.as_constant()


def source_of(tx: Frame, value: Value) -> Source | None:
    """Where Python finds the number before the graph runs, or None."""
    if isinstance(value, ConstantValue):
        return LiteralSource(value.value)
    if value.source is not None:
        return value.source
    if isinstance(value, SymbolicValue) and type(value.sym) is not torch.SymBool:
        return _source_of_expression(tx, value.sym.node.expr)
    return None


def _source_of_expression(tx: Frame, expression: Any) -> Source | None:
    """The computation of an expression over sizes and integers that are read before the graph runs."""
    symbols = sorted(expression.free_symbols, key=str)
    known = tx.trace.shapes.sources
    if not all(symbol in known for symbol in symbols):
        return None
    return ComputedSource(number_of_expression(expression, symbols), tuple(known[symbol][0] for symbol in symbols))


def has_number(values: Iterable[Value]) -> bool:
    """Whether one of the values is a `NumberValue`."""
    return any(isinstance(value, NumberValue) for value in values)


def only_in_graph(tx: Frame, values: Iterable[Value]) -> bool:
    """Whether one of the numbers is known only inside the graph (it comes out of a tensor)."""
    return any(source_of(tx, value) is None for value in values)
