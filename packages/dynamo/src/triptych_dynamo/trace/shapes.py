"""Symbolic sizes and numbers of one trace: which are symbolic, their symbols, and the guards on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import sympy
import torch

from triptych_dynamo._torch_compat import (
    CANNOT_FAKE,
    ShapeEnv,
    make_fake_mode,
    new_symbol,
    number_of_expression,
    symbolic_float,
    symbolic_int,
)
from triptych_dynamo.guards.facts import ShapeFact
from triptych_dynamo.guards.number_facts import truth_fact
from triptych_dynamo.guards.shape_program import INT64_MAX, INT64_MIN
from triptych_dynamo.marks import user_marks
from triptych_dynamo.sources import ComputedSource, TensorSizeSource, TensorStrideSource, is_owned
from triptych_dynamo.trace.history import History
from triptych_dynamo.values.numbers import NumberValue
from triptych_dynamo.values.symbolic import SymbolicValue

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value
    from triptych_dynamo.values.tensor import TensorValue


class Shapes:
    """The fake mode, its shape environment, and where symbols come from.

    Args:
        dynamic: None: what changed between compiles is symbolic; True: every size but 0 and 1; False: none.
        history: what earlier compiles of the frame saw.
    """

    def __init__(self, dynamic: bool | None = None, history: History | None = None) -> None:
        self.env = ShapeEnv()
        self.fake_mode = make_fake_mode(self.env)
        self.dynamic = dynamic
        self.history = history or History()
        self.sources: dict[sympy.Symbol, list[Source]] = {}
        self.facts: list[tuple[Any, dict[Any, Source]]] = []  # (expression, extra symbols)
        self._sizes: dict[tuple[int, int], SymbolicValue] = {}

    # -- tensors -----------------------------------------------------------------------------------------------------
    def fake_input(self, obj: torch.Tensor, source: Source | None) -> torch.Tensor:
        """The fake tensor of a real one; dimensions that are symbolic have symbols of their own."""
        dims = self._dynamic_dims(obj, source) if source is not None else frozenset()
        if not dims or source is None or not _is_plain(obj):
            return self.fake_mode.from_tensor(obj, static_shapes=True)
        sizes = [
            self._size_symbol(size, TensorSizeSource(source, dim), obj, dim) if dim in dims else sympy.Integer(size)
            for dim, size in enumerate(obj.shape)
        ]
        strides = self._strides(obj, sizes, source)
        return self._make(obj, [self._number(size) for size in sizes], [self._number(stride) for stride in strides])

    def _dynamic_dims(self, obj: torch.Tensor, source: Source) -> frozenset[int]:
        varying = self.history.varying_dims(source, tuple(obj.shape))
        dynamic, static = user_marks(obj)
        if isinstance(obj, torch.nn.Parameter):
            return dynamic
        if self.dynamic is False:
            chosen = dynamic
        elif self.dynamic and not is_owned(source):
            chosen = frozenset(range(obj.ndim)) - static
        else:
            chosen = (varying | dynamic) - static
        return frozenset(dim for dim in chosen if obj.shape[dim] not in (0, 1))

    def _size_symbol(self, size: int, source: Source, obj: torch.Tensor, dim: int) -> Any:
        alone = source.base is not None and self.history.is_general(source.base)
        symbol = new_symbol(self.env, size, str(source), duck=not alone)
        if symbol not in self.sources:
            self.facts.append((sympy.Ge(symbol, 2, evaluate=False), {}))
        self.sources.setdefault(symbol, []).append(source)
        return symbol

    def _strides(self, obj: torch.Tensor, sizes: list[Any], source: Source) -> list[Any]:
        """Strides as expressions over the sizes inside of them; a stride that is none is taken as it is, and
        guarded.
        """
        order = sorted(range(obj.ndim), key=lambda dim: (obj.stride(dim), obj.shape[dim]))
        strides: list[Any] = [sympy.Integer(stride) for stride in obj.stride()]
        candidates: dict[int, Any] = {1: sympy.Integer(1)}
        for dim in order:
            stride = obj.stride(dim)
            if stride in candidates:
                strides[dim] = candidates[stride]
            candidates[stride * obj.shape[dim]] = strides[dim] * sizes[dim]
        for dim, expression in enumerate(strides):
            if expression.free_symbols:
                symbol = sympy.Symbol(f"stride{len(self.facts)}", integer=True)
                self.facts.append((sympy.Eq(symbol, expression), {symbol: TensorStrideSource(source, dim)}))
        return strides

    def _number(self, expression: Any) -> Any:
        return int(expression) if expression.is_number else symbolic_int(self.env, expression)

    def _make(self, obj: torch.Tensor, sizes: list[Any], strides: list[Any]) -> torch.Tensor:
        with self.fake_mode, torch.enable_grad():
            fake = torch.empty_strided(sizes, strides, dtype=obj.dtype, device=obj.device)
            if obj.requires_grad:
                fake.requires_grad_()
                if not obj.is_leaf:
                    fake = fake.view_as(fake)
        return fake

    # -- numbers -----------------------------------------------------------------------------------------------------
    def number_input(self, tx: Frame, obj: Any, source: Source) -> Value | None:
        """The symbolic value of a number from outside, or None when it is taken as a constant."""
        if self.dynamic is False or not self._is_symbolic_number(obj, source):
            return None
        if type(obj) is float:
            tx.guard("type_is", source, float)
            return NumberValue(obj, source)
        if not INT64_MIN <= obj <= INT64_MAX:
            return None
        tx.guard("int_in", source, (INT64_MIN, INT64_MAX))
        return self.integer_of(tx, obj, source)

    def _is_symbolic_number(self, obj: Any, source: Source) -> bool:
        varies = self.history.varies(source, obj)
        return varies or (bool(self.dynamic) and not is_owned(source))

    def integer_of(self, tx: Frame, number: int, source: Source) -> Value:
        """The symbolic value of an integer that is read or computed at `source` before the graph runs."""
        known = tx.trace.number_inputs.get(source)
        if known is None:
            symbol = new_symbol(self.env, number, str(source), duck=False)
            self.sources.setdefault(symbol, []).append(source)
            sym = symbolic_int(self.env, symbol)
            node = tx.trace.graph.add_input(source, sym)
            known = tx.trace.number_inputs[source] = SymbolicValue(node, sym, source)
        return known

    def float_node(self, tx: Frame, number: float, source: Source) -> fx.Node:
        """The graph's input for a float that is read or computed at `source` before the graph runs."""
        known = tx.trace.number_inputs.get(source)
        if known is None:
            symbol, sym = symbolic_float(self.env, number, str(source))
            self.sources[symbol] = [source]
            node = tx.trace.graph.add_input(source, sym)
            known = tx.trace.number_inputs[source] = SymbolicValue(node, sym, source)
        return known.node

    def size_value(self, tx: Frame, tensor: TensorValue, dim: int, size: Any) -> Value:
        """`tensor.size(dim)` of a symbolic size."""
        key = (id(tensor), dim)
        if key not in self._sizes:
            node = tx.trace.graph.graph.call_method("size", (tensor.node, dim))
            node.meta.update(val=size, stack_trace=tx.trace.graph.stack_trace())
            value = SymbolicValue.of(node, size)
            if not isinstance(value, SymbolicValue):
                return value
            self._sizes[key] = value
        return self._sizes[key]

    def remembered_sizes(self) -> dict[tuple[int, int], SymbolicValue]:
        """The symbolic sizes that have nodes so far."""
        return dict(self._sizes)

    def restore_sizes(self, sizes: dict[tuple[int, int], SymbolicValue]) -> None:
        """Forget sizes whose nodes are gone."""
        self._sizes = sizes

    def product_of_sizes(self, tx: Frame, tensor: TensorValue) -> Value:
        """`tensor.numel()` of symbolic sizes."""
        return tx.call_graph("numel", [tensor])

    def decide(self, tx: Frame, sym: Any) -> bool:
        """The truth of a symbolic number in this run; a guard keeps it."""
        try:
            return bool(sym)
        except CANNOT_FAKE:
            return self.undecided(tx, sym.node.expr)

    def specialize(self, tx: Frame, sym: Any) -> Any:
        """The number that `sym` is in this run; a guard keeps it."""
        convert = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(sym)]
        try:
            return convert(sym)
        except CANNOT_FAKE:
            return self.undecided(tx, sym.node.expr)

    @staticmethod
    def undecided(tx: Frame, expression: Any, who: str = "it needs to know") -> NoReturn:
        """The trace ends at a question about a number that only the run knows."""
        hint = "keep it a tensor (torch.where), or say what holds with torch._check(...) before this line"
        tx.unsupported("data-dependent", f"{who} {tx.trace.unbacked.describe(expression)}", hint)

    # -- guards ------------------------------------------------------------------------------------------------------
    def add_guards(self, trace: Trace) -> None:
        """Guards of the decisions that the trace made, of ranges, and of sizes that share one symbol."""
        for symbol, sources in self.sources.items():
            for number, other in enumerate(sources[1:]):
                twin = sympy.Symbol(f"{symbol}_{number}", integer=True)
                self._guard(trace, sympy.Eq(symbol, twin), {twin: other})
        for expression, extra in self.facts:
            self._guard(trace, expression, extra)
        for guard in self.env.guards:
            self._guard(trace, guard.expr, {})

    def _guard(self, trace: Trace, expression: Any, extra: dict[Any, Source]) -> None:
        if expression in (sympy.true, True):
            return
        symbols = sorted(expression.free_symbols, key=str)
        known = {symbol: extra.get(symbol) or self._source(symbol) for symbol in symbols}
        if all(symbol.is_integer and not isinstance(source, ComputedSource) for symbol, source in known.items()):
            trace.guard("shape", None, ShapeFact(expression, tuple(known.items())))
            return
        computed = ComputedSource(number_of_expression(expression, symbols), tuple(known.values()))
        trace.guard("python", None, truth_fact(computed, True))

    def _source(self, symbol: Any) -> Source:
        return self.sources[symbol][0]


def _is_plain(obj: torch.Tensor) -> bool:
    """Whether size, stride, dtype and device say all about a tensor's layout."""
    plain = obj.layout is torch.strided and not obj.is_quantized and type(obj) is torch.Tensor
    return plain and not obj.is_conj() and not obj.is_neg() and obj.storage_offset() == 0
