"""Symbolic integers in a graph: which node computes a given size expression.

A symbolic integer that reaches an op is not followed through Python arithmetic; its sympy expression is looked up, and
where no node has it, built from nodes that have its parts: `sym_size.int` of an input, a SymInt placeholder, the result
of a data-dependent op, and `operator` calls above those.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.tracing.size_functions import FOLDED, FUNCTIONS, choose

SYMBOLIC = compat.SYMBOLIC


class SymbolTable:
    """Nodes by expression, for one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._nodes: dict[sympy.Basic, Node] = {}
        self._pending: list[tuple[sympy.Basic, Node, int, Any]] = []  # (expression, tensor node, dim, SymInt)

    def bind(self, expr: sympy.Basic, node: Node) -> None:
        """`node` computes `expr`."""
        self._nodes.setdefault(expr, node)

    def bind_number(self, number: Any, node: Node) -> None:
        """`node` computes `number`: a new symbol, or an expression. A bool out of a tensor is `symbol == 1`."""
        expr = compat.written_expression(number)
        self.bind(expr, node)
        if isinstance(expr, sympy.Eq) and not number.node.has_hint():
            symbols = [symbol for symbol in expr.free_symbols if symbol not in self._nodes]
            if symbols:
                as_number = self.graph.call_function(torch.sym_ite, (node, 1, 0))
                as_number.meta.update(val=torch.sym_ite(number, 1, 0), phase="forward")
                self.bind(symbols[0], as_number)

    def bind_size(self, value: Any, tensor: Node, dim: int) -> None:
        """Size `dim` of `tensor` is `value`; a node is made when somebody needs it."""
        if isinstance(value, torch.SymInt):
            self._pending.append((value.node.expr, tensor, dim, value))

    def bind_new_sizes(self, sizes: Sequence[Any], tensor: Node) -> None:
        """Sizes of a result that depend on data (the length of `nonzero`): nothing else tells them."""
        for dim, size in enumerate(sizes):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and not size.node.has_hint():
                if size.node.expr not in self._nodes:
                    self._size_node(size.node.expr, tensor, dim, size)

    def bind_stride(self, value: Any, tensor: Node, dim: int) -> None:
        """Stride `dim` of `tensor` is `value` (asked only where no size tells it)."""
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            self._pending.append((value.node.expr, tensor, -1 - dim, value))

    def node_of(self, value: Any) -> Any:
        """The node (or Python number) for a symbolic value."""
        expr = compat.written_expression(value)
        if not expr.free_symbols <= self._nodes.keys():
            expr = value.node.expr
        if expr.is_number and not isinstance(value, torch.SymBool):
            return int(expr) if isinstance(value, torch.SymInt) else float(expr)
        return self._build(expr, value)

    def _build(self, expr: sympy.Basic, example: Any) -> Any:
        node = self._nodes.get(expr)
        if node is None:
            node = self._from_size(expr)
        if node is not None:
            return node
        if isinstance(expr, sympy.logic.boolalg.BooleanAtom):
            return bool(expr)
        if isinstance(expr, sympy.Integer):
            return int(expr)
        if expr.is_number and not expr.args:
            return float(expr)
        if isinstance(expr, sympy.Symbol):
            node = self._solve(expr, example)
        elif isinstance(expr, sympy.Piecewise):
            node = self._piecewise(expr, expr.args, example)
        elif type(expr).__name__ in FUNCTIONS:
            node = self._function(expr, example)
        if node is None:
            raise UnsupportedOperationError(f"no input of the graph tells the size {expr}")
        return node

    def _function(self, expr: sympy.Basic, example: Any) -> Any:
        name = type(expr).__name__
        target = FUNCTIONS[name]
        args = [self._build(a, example) for a in expr.args]
        if name not in FOLDED:
            return self._emit(expr, target, args, example)
        partial, result = expr.args[0], args[0]
        for part, arg in zip(expr.args[1:], args[1:], strict=True):
            partial = expr.func(partial, part)
            result = self._emit(partial, target, [result, arg], example)
        return result

    def _piecewise(self, expr: Any, cases: Sequence[Any], example: Any) -> Any:
        """The value of the first of the cases that holds."""
        value = self._build(cases[0].expr, example)
        if cases[0].cond == True or len(cases) == 1:  # noqa: E712 (sympy's)
            return value
        rest = self._piecewise(None, cases[1:], example)
        return self._emit(expr, choose, [self._build(cases[0].cond, example), value, rest], example)

    def _from_size(self, expr: sympy.Basic) -> Node | None:
        for known, tensor, dim, value in self._pending:
            if known == expr:
                return self._size_node(known, tensor, dim, value)
        return None

    def _size_node(self, expr: sympy.Basic, tensor: Node, dim: int, value: Any) -> Node:
        op = torch.ops.aten.sym_size.int if dim >= 0 else torch.ops.aten.sym_stride.int
        node = self.graph.call_function(op, (tensor, dim if dim >= 0 else -1 - dim))
        node.meta.update(val=value, phase=tensor.meta.get("phase", "forward"))
        self.bind(expr, node)
        return node

    def _solve(self, symbol: sympy.Symbol, example: Any) -> Any:
        """A symbol that no size equals: undo a linear expression of it that a size has."""
        for known, tensor, dim, value in self._pending:
            if known.free_symbols != {symbol} or not known.is_polynomial(symbol) or sympy.degree(known, symbol) != 1:
                continue
            slope = known.coeff(symbol)
            rest = known - slope * symbol
            node: Any = self._size_node(known, tensor, dim, value)
            if rest != 0:
                node = self._emit(None, operator.sub, [node, int(rest)], value)
            return self._emit(symbol, operator.floordiv, [node, int(slope)], value)
        return None

    def _emit(self, expr: Any, target: Callable[..., Any], args: list[Any], example: Any) -> Any:
        if not any(isinstance(a, Node) for a in args):
            return target(*args)
        if expr is not None and expr in self._nodes:
            return self._nodes[expr]
        node = self.graph.call_function(target, tuple(args))
        node.meta["val"] = target(*[a.meta["val"] if isinstance(a, Node) else a for a in args])
        if expr is not None:
            self.bind(expr, node)
        return node
