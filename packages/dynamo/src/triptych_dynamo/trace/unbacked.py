"""Unbacked symbols: numbers that only the run knows (`item()`, the length of `nonzero`), and the checks they need.

torch's shape functions take some facts about such numbers for granted and note them as deferred assertions ("the
length fits the tensor"). Each becomes a node of the graph in front of the call that needs it. Where the program has to
know more, the error says which number it is about and where it comes from.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo._torch_compat import (
    assert_scalar,
    check_number,
    deferred_checks,
    expect_true,
    fresh_symbols,
    nodes_of_expression,
    written_expression,
)
from triptych_dynamo.sources import TensorSizeSource

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.atoms.symbolic import SymbolicValue


@dataclass(frozen=True)
class Origin:
    """Where a symbol comes from: `node` computes it, or (with `dim`) it is that size of the node's tensor."""

    node: fx.Node
    dim: int | None
    how: str
    user_line: str

    def __str__(self) -> str:
        number = int(self.user_line.rpartition(":")[2] or 0)
        line = linecache.getline(self.user_line.rpartition(":")[0], number).strip()
        return f"{self.how} at {self.user_line}" + (f" ({line})" if line else "")


class Unbacked:
    """The unbacked symbols of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.env = trace.shapes.env
        self.origins: dict[Any, Origin] = {}
        self._checks = 0  # deferred assertions that were looked at
        self.other_ways = False  # some check fails where the program raises: the frame is then run again

    def is_unbacked(self, number: Any) -> bool:
        """Whether a symbolic number depends on one that only the run knows."""
        return any(symbol not in self.trace.shapes.sources for symbol in number.node.expr.free_symbols)

    # -- what calls bring --------------------------------------------------------------------------------------------
    def before_node(self, target: Any = None, finished: bool = False) -> None:
        """A call was run on fake tensors: the facts that it takes for granted become checks in front of its node.

        Args:
            target: what was called; a check by itself needs no other one.
            finished: the graph is compiled; what the backend's stages took for granted about inputs is still a guard.
        """
        found = deferred_checks(self.env)
        new, self._checks = found[self._checks :], len(found)
        for check in new:
            symbols = check.expr.free_symbols
            if all(symbol in self.trace.shapes.sources for symbol in symbols):  # a fact about inputs: a guard
                self.trace.shapes.grant(check.expr, self.trace.user_line())
            elif (
                target is not assert_scalar
                and not finished
                and all(symbol in self.origins or symbol in self.trace.shapes.sources for symbol in symbols)
            ):
                self._emit(self.node_of(check.expr), RuntimeError, self._text(check.expr, self.trace.user_line()))

    def after_node(self, node: fx.Node, result: Any, how: str) -> None:
        """The result of `node` may have new symbols: remember where they are found."""
        if fresh_symbols(self.env):
            self._find(node, result, how)
            fresh_symbols(self.env).clear()

    def _find(self, node: fx.Node, result: Any, how: str) -> None:
        if isinstance(result, torch.Tensor):
            for dim, size in enumerate(result.shape):
                self._note(size, Origin(node, dim, how, self.trace.user_line()))
        elif isinstance(result, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self._note(result, Origin(node, None, how, self.trace.user_line()))
        elif isinstance(result, (tuple, list)):
            for index, item in enumerate(result):
                if not isinstance(item, (int, float, bool, str, type(None))):
                    self._find(self.trace.graph.item_of(node, index, item), item, how)

    def _note(self, number: Any, origin: Origin) -> None:
        if isinstance(number, int):
            return
        expr = written_expression(number)
        symbols = expr.free_symbols
        if len(symbols) == 1 and (expr.is_Symbol or isinstance(number, torch.SymBool)):
            self.origins.setdefault(next(iter(symbols)), origin)

    # -- checks ------------------------------------------------------------------------------------------------------
    def require(self, tx: Frame, condition: SymbolicValue, error: type[Exception], message: str | None) -> None:
        """The program says that `condition` holds: a check in the graph, taken for granted behind it.

        Args:
            message: the exception's text; None: one that shows the condition and the user's line.
        """
        text = message if message is not None else self._text(written_expression(condition.sym), tx.user_line)
        if not expect_true(condition.sym):
            tx.raise_python(error, text)
        self._checks = len(deferred_checks(self.env))
        self._emit(condition.node, error, text)

    def _emit(self, condition: Any, error: type[Exception], message: str) -> None:
        graph = self.trace.graph
        if not isinstance(condition, fx.Node):
            return
        if error is RuntimeError:
            node = graph.graph.call_function(assert_scalar, (condition, message))
        else:
            node = graph.graph.call_function(check_number, (condition, error.__name__, message))
        node.meta.update(val=None, effect=True, stack_trace=graph.stack_trace())

    def _text(self, expr: Any, line: str) -> str:
        return f"{self.describe(expr)} does not hold ({line})"

    def describe(self, expr: Any) -> str:
        """The condition, and what its symbols are."""
        names = [f"{s} is {self.origins[s]}" for s in sorted(expr.free_symbols, key=str) if s in self.origins]
        return str(expr) + (f", where {'; '.join(names)}" if names else "")

    # -- nodes of expressions ----------------------------------------------------------------------------------------
    def node_of(self, expr: Any) -> Any:
        """A node (or Python number) that computes `expr` in the graph, at its end."""
        graph = self.trace.graph.graph
        return nodes_of_expression(graph, expr, {symbol: self._symbol_node(symbol) for symbol in expr.free_symbols})

    def _symbol_node(self, symbol: Any) -> fx.Node:
        origin = self.origins.get(symbol)
        if origin is not None:
            return origin.node if origin.dim is None else self._size(origin.node, origin.dim)
        source = self.trace.shapes.sources[symbol][0]
        inputs = {known: node for node, known in self.trace.graph.inputs.items()}
        if isinstance(source, TensorSizeSource):
            return self._size(inputs[source.base], source.dim)
        return inputs[source]

    def _size(self, tensor: fx.Node, dim: int) -> fx.Node:
        node = self.trace.graph.graph.call_method("size", (tensor, dim))
        node.meta.update(val=tensor.meta["val"].size(dim), stack_trace=self.trace.graph.stack_trace())
        return node
