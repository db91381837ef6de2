"""`SymbolicValue`: an int, float or bool that differs from run to run (a dynamic size, an argument that changed)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_TYPES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}

# Methods of numbers that become graph nodes; the reflected ones swap their operands.
_BINARY: dict[str, Callable[..., Any]] = {
    f"__{stem}__": getattr(operator, name)
    for stem, name in (
        *((op, op) for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")),
        *((op, op) for op in ("lt", "le", "eq", "ne", "gt", "ge")),
        *((op, f"{op}_") for op in ("and", "or")),
        ("xor", "xor"),
    )
}
_REFLECTED = {f"__r{name[2:]}": function for name, function in _BINARY.items()}
_UNARY: dict[str, Callable[..., Any]] = {
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__abs__": operator.abs,
}


class SymbolicValue(Value):
    """A number computed by `node`, standing for the symbolic number `sym`."""

    def __init__(self, node: fx.Node, sym: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.node = node
        self.sym = sym
        self._recipe: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, node: fx.Node, sym: Any) -> Value:
        """A symbolic value, or a constant when the expression is one."""
        expr = sym.node.expr if hasattr(sym.node, "expr") else None
        if expr is not None and expr.is_number:
            return ConstantValue(_TYPES[type(sym)](expr))
        return cls(node, sym)

    def python_type(self) -> type:
        return _TYPES[type(self.sym)]

    def as_graph_arg(self, tx: Frame) -> Any:
        return self.node

    def truth(self, tx: Frame) -> bool:
        """Decided by the values of this run; the decision is guarded."""
        return tx.trace.shapes.decide(tx, self.sym)

    def specialize(self, tx: Frame) -> ConstantValue:
        """The constant that it is in this run; guarded."""
        return ConstantValue(tx.trace.shapes.specialize(tx, self.sym))

    def key(self, tx: Frame) -> Any:
        return self.specialize(tx).value

    def get_attr(self, tx: Frame, name: str) -> Value:
        return self.specialize(tx).get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Arithmetic and comparison become nodes; any other method works on the specialised number."""
        if name in _UNARY and not args:
            return self._apply(tx, _UNARY[name], [self])
        if len(args) == 1 and _is_number(args[0]):
            if name in _BINARY:
                return self._apply(tx, _BINARY[name], [self, args[0]])
            if name in _REFLECTED:
                return self._apply(tx, _REFLECTED[name], [args[0], self])
        if len(args) == 1 and (name in _BINARY or name in _REFLECTED):
            return ConstantValue(NotImplemented)
        if name == "__bool__":
            return ConstantValue(self.truth(tx))
        if name in ("__index__", "__int__") and self.python_type() is int:
            return self
        return self.specialize(tx).call_method(tx, name, args, kwargs)

    def _apply(self, tx: Frame, function: Callable[..., Any], operands: list[Value]) -> Value:
        return tx.call_graph(function, operands)

    def reconstruct(self, cg: Writer) -> None:
        """The graph's number; floats are computed by Python from those, so that they are eager's to the last bit."""
        if self._recipe is None:  # made once: the graph drops nodes that nothing needs
            self._recipe = _recipe_of(self.node) if self.python_type() is float else (self.node,)
        _compute(cg, self._recipe)

    def __repr__(self) -> str:
        return f"Symbolic({self.sym})"


def _recipe_of(node: Any) -> tuple[Any, ...]:
    """How a number is computed: `(node,)` by the graph, else `(function, recipe of each argument)`."""
    if not isinstance(node, fx.Node):
        return (None, node)
    numbers = [operand.meta["val"] for operand in node.all_input_nodes]
    if node.op != "call_function" or node.kwargs or not numbers or not all(type(n) in _TYPES for n in numbers):
        return (node,)
    return (node.target, *map(_recipe_of, node.args))


def _compute(cg: Writer, recipe: tuple[Any, ...]) -> None:
    function, *parts = recipe
    if not parts:
        cg.load_graph_output(function)
    elif function is None:
        cg.load_const(parts[0])
    else:
        cg.load_object(function)
        for part in parts:
            _compute(cg, part)
        cg.call(len(parts))


def _is_number(value: Value) -> bool:
    return isinstance(value, SymbolicValue) or (
        isinstance(value, ConstantValue) and isinstance(value.value, (int, float, bool))
    )
