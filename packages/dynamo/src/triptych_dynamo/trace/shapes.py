"""Symbolic sizes and numbers of one trace: which are symbolic, their symbols, and the guards on them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import sympy
import torch

from triptych_dynamo._torch_compat import (
    CANNOT_FAKE,
    ShapeEnv,
    expect_true,
    make_fake_mode,
    new_symbol,
    number_of_expression,
    open_symbol,
    symbolic_float,
    symbolic_int,
)
from triptych_dynamo.errors import ConstraintViolationError, RestartTrace, StaticSizesWarning, Unsupported
from triptych_dynamo.guards.facts import ShapeFact
from triptych_dynamo.guards.number_facts import truth_fact
from triptych_dynamo.guards.shape_program import INT64_MAX, INT64_MIN
from triptych_dynamo.marks import STATIC_CLASS, Mark
from triptych_dynamo.shape_specs import Declared
from triptych_dynamo.sources import (
    ComputedSource,
    InstanceDictSource,
    ItemSource,
    TensorSizeSource,
    TensorStrideSource,
    is_owned,
)
from triptych_dynamo.trace.constraints import Condition, Conditions
from triptych_dynamo.trace.differentiation import tells_history
from triptych_dynamo.trace.history import History
from triptych_dynamo.trace.sizes import Size, symbolic_dims
from triptych_dynamo.trace.tiny_sizes import Copies
from triptych_dynamo.values.atoms.numbers import NumberValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value
    from triptych_dynamo.values.tensors.tensor import TensorValue


class Shapes:
    """The fake mode, its shape environment, and where symbols come from.

    Args:
        dynamic: None: what changed between compiles is symbolic; True: every size; False: none.
        history: what earlier compiles of the frame saw.
        declared: what the caller said of the sizes and numbers of all calls.
    """

    def __init__(
        self, dynamic: bool | None = None, history: History | None = None, declared: Declared | None = None
    ) -> None:
        self.env = ShapeEnv()
        self.fake_mode = make_fake_mode(self.env)
        self.dynamic = dynamic
        self.history = history or History()
        self.declared = declared or Declared()
        self.sources: dict[sympy.Symbol, list[Source]] = {}
        self.facts: list[tuple[Any, dict[Any, Source]]] = []  # (expression, extra symbols)
        self.open: dict[sympy.Symbol, Source] = {}  # symbols of sizes that have no value in the trace
        self.values: dict[sympy.Symbol, Any] = {}  # sizes and numbers of this call
        self.marked: list[tuple[sympy.Symbol, Mark, str]] = []
        self.copies = Copies(self)
        self.granted: list[Condition] = []  # what torch's functions took for granted about open sizes
        self._lines: list[str] = []  # of the program, for each guard of the shape environment
        self._shape_ids: dict[Any, sympy.Symbol] = {}
        self._sizes: dict[tuple[int, int], SymbolicValue] = {}

    # -- tensors -----------------------------------------------------------------------------------------------------
    def fake_input(self, obj: torch.Tensor, source: Source | None) -> torch.Tensor:
        """The fake tensor of a real one; dimensions that are symbolic have symbols of their own."""
        dims = symbolic_dims(obj, source, self.dynamic, self.history, self.declared) if source is not None else {}
        if not dims or source is None or not _is_plain(obj):
            return self._converted(obj)
        sizes = [
            self._size_symbol(size, TensorSizeSource(source, dim), dims[dim]) if dim in dims else sympy.Integer(size)
            for dim, size in enumerate(obj.shape)
        ]
        strides = self._strides(obj, sizes, source)
        return self._make(obj, [self._number(size) for size in sizes], [self._number(stride) for stride in strides])

    def _converted(self, obj: torch.Tensor) -> torch.Tensor:
        try:
            return self.fake_mode.from_tensor(obj, static_shapes=True)
        except (RuntimeError, AssertionError) as error:  # views whose base was written to under another gradient mode
            plain = type(obj) is torch.Tensor and obj.layout is torch.strided and tells_history(obj)
            if not plain or obj.is_conj() or obj.is_neg():
                raise Unsupported(
                    "tensor-error", f"torch has no fake tensor for this one: {str(error)[:200]}"
                ) from None
            return self._make(obj, list(obj.shape), list(obj.stride()))

    def _size_symbol(self, size: int, source: TensorSizeSource, plan: Size) -> Any:
        mark = plan.mark
        least, most = (mark.least, mark.most) if mark is not None else (None, None)
        if plan.open:
            symbol = open_symbol(self.env, least or 0, most, size if mark is None else mark.hint or size)
            self.open[symbol] = source
        else:
            alone = self.history.is_general(source.base) or (mark is not None and mark.kind == "dynamic")
            symbol = new_symbol(self.env, size, str(source), duck=not alone)
            least = max(least or 2, 2)
        self.values[symbol] = size
        if symbol not in self.sources:
            self._bound(symbol, least, most)
            self._mark(symbol, source, mark)
        self.sources.setdefault(symbol, []).append(source)
        return symbol

    def _bound(self, symbol: Any, least: int | None, most: int | None) -> None:
        if least:
            self.facts.append((sympy.Ge(symbol, least, evaluate=False), {}))
        if most is not None:
            self.facts.append((sympy.Le(symbol, most, evaluate=False), {}))

    def _mark(self, symbol: Any, source: Source, mark: Mark | None) -> None:
        """What a mark asks for beside the symbol."""
        if mark is None:
            return
        special = [holds for holds in mark.specialize_on if holds(self.values[symbol])]
        if mark.kind in ("dynamic", "unbacked") and not special:
            self.marked.append((symbol, mark, str(source)))
        if mark.shape_id is not None:
            first = self._shape_ids.setdefault(mark.shape_id, symbol)
            if first is not symbol:
                expect_true(symbolic_int(self.env, first) == symbolic_int(self.env, symbol))
        for holds in special:
            bool(holds(symbolic_int(self.env, symbol)))  # decided, and so guarded

    def _strides(self, obj: torch.Tensor, sizes: list[Any], source: Source) -> list[Any]:
        """Strides as expressions over the sizes inside of them; a stride that is none is taken as it is, and
        guarded.
        """
        order = sorted(range(obj.ndim), key=lambda dim: (obj.stride(dim), obj.shape[dim], -dim))
        if obj.is_contiguous():
            order = list(reversed(range(obj.ndim)))
        strides: list[Any] = [sympy.Integer(stride) for stride in obj.stride()]
        candidates: dict[int, Any] = {1: sympy.Integer(1)}
        for dim in order:
            stride = obj.stride(dim)
            if stride in candidates:
                strides[dim] = candidates[stride]
            candidates[stride * max(obj.shape[dim], 1)] = strides[dim] * sizes[dim]
        empty = [sympy.Eq(size, 0) for size in sizes if size in self.open]
        for dim, expression in enumerate(strides):
            if expression.free_symbols:
                symbol = sympy.Symbol(f"stride{len(self.facts)}", integer=True)
                fact = sympy.Or(sympy.Eq(symbol, expression), *empty)  # strides of an empty tensor say nothing
                self.facts.append((fact, {symbol: TensorStrideSource(source, dim)}))
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
        if self.dynamic is False or self.history.fixed or not self._is_symbolic_number(obj, source):
            return None
        if _is_static_attribute(tx, source):
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
        if self.declared:
            said = self.declared.varies(str(source), obj, is_owned(source))
            if said is not None:
                return said
        return varies or (bool(self.dynamic) and not is_owned(source))

    def integer_of(self, tx: Frame, number: int, source: Source) -> Value:
        """The symbolic value of an integer that is read or computed at `source` before the graph runs."""
        known = tx.trace.number_inputs.get(source)
        if known is None:
            symbol = new_symbol(self.env, number, str(source), duck=False)
            self.sources.setdefault(symbol, []).append(source)
            sym = symbolic_int(self.env, symbol)
            self.values[symbol] = number
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
            with self.blaming(tx.user_line):
                return bool(sym)
        except CANNOT_FAKE:
            return self.undecided(tx, sym.node.expr)

    def specialize(self, tx: Frame, sym: Any) -> Any:
        """The number that `sym` is in this run; a guard keeps it."""
        convert = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(sym)]
        try:
            with self.blaming(tx.user_line):
                return convert(sym)
        except CANNOT_FAKE:
            return self.undecided(tx, sym.node.expr)

    @contextmanager
    def blaming(self, line: str) -> Iterator[None]:
        """Guards that come up inside are for this line of the program."""
        try:
            yield
        finally:
            self._lines += [line] * (len(self.env.guards) - len(self._lines))

    def number_of(self, sym: Any) -> Any:
        """The number that a symbolic one is in this call."""
        return sym.node.pytype(sym.node.expr.xreplace({s: sympy.sympify(v) for s, v in self.values.items()}))

    def keep_backed(self, symbols: Iterable[Any]) -> None:
        """The program decides by these open sizes: trace again with their values, unless they are marked open."""
        strict = {symbol for symbol, mark, _ in self.marked if mark.kind == "unbacked"}
        sources = [self.open[symbol] for symbol in symbols if symbol in self.open and symbol not in strict]
        if sources:
            self.history.backed.update(sources)
            raise RestartTrace

    def grant(self, expression: Any, line: str) -> None:
        """torch's functions took this for granted about open sizes: a guard, if it holds in this call."""
        values = {symbol: sympy.sympify(value) for symbol, value in self.values.items()}
        if expression.xreplace(values) is sympy.false:
            self.keep_backed(expression.free_symbols)
            names = "; ".join(f"{s} is {self.sources[s][0]}" for s in sorted(expression.free_symbols, key=str))
            raise ConstraintViolationError(
                f"sizes that are marked as unbacked do not fulfil what is needed at {line}: {expression}, where {names}"
            )
        self.granted.append(Condition(expression, line))

    def give_in(self, error: Exception) -> None:
        """The backend failed: trace again with backed sizes in place of open ones (those that it asked about, if it
        tells), then with constants.
        """
        asked = getattr(error, "cond", None)
        if asked is not None:
            self.keep_backed(asked.free_symbols)
        self.keep_backed(self.open)
        if self.sources and not self.history.fixed and not any(mark.kind == "unbacked" for _, mark, _ in self.marked):
            self.history.fixed = True
            warnings.warn(
                f"the backend failed on symbolic sizes or numbers, so each is compiled for by itself: "
                f"{type(error).__name__}: {error}",
                StaticSizesWarning,
                stacklevel=2,
            )
            raise RestartTrace

    @staticmethod
    def undecided(tx: Frame, expression: Any, who: str = "it needs to know") -> NoReturn:
        """The trace ends at a question about a number that only the run knows."""
        tx.trace.shapes.keep_backed(expression.free_symbols)
        hint = "keep it a tensor (torch.where), or say what holds with torch._check(...) before this line"
        tx.unsupported("data-dependent", f"{who} {tx.trace.unbacked.describe(expression)}", hint)

    # -- guards ------------------------------------------------------------------------------------------------------
    def add_guards(self, trace: Trace) -> None:
        """Guards of the decisions that the trace made, of ranges, and of sizes that share one symbol.

        Raises:
            ConstraintViolationError: a size that the user marked is not as free as the mark says.
        """
        for symbol, sources in self.sources.items():
            for number, other in enumerate(sources[1:]):
                twin = sympy.Symbol(f"{symbol}_{number}", integer=True)
                self._guard(trace, sympy.Eq(symbol, twin), {twin: other})
        lines = [*self._lines, *[""] * len(self.env.guards)]
        conditions = [Condition(guard.expr, line) for guard, line in zip(self.env.guards, lines, strict=False)]
        conditions += self.granted
        if self.marked:
            bounds = [Condition(fact, "") for fact, extra in self.facts if not extra]
            found = Conditions([*conditions, *bounds], self.values)
            for symbol, mark, name in self.marked:
                found.check(symbol, mark, name)
        for expression, extra in self.facts:
            self._guard(trace, expression, extra)
        for condition in conditions:
            self._guard(trace, condition.expression, {}, condition.line)

    def _guard(self, trace: Trace, expression: Any, extra: dict[Any, Source], line: str = "") -> None:
        if expression in (sympy.true, True):
            return
        symbols = sorted(expression.free_symbols, key=str)
        known = {symbol: extra.get(symbol) or self._source(symbol) for symbol in symbols}
        if all(symbol.is_integer and not isinstance(source, ComputedSource) for symbol, source in known.items()):
            trace.guard("shape", None, ShapeFact(expression, tuple(known.items())), line)
            return
        computed = ComputedSource(number_of_expression(expression, symbols), tuple(known.values()))
        trace.guard("python", None, truth_fact(computed, True), line)

    def _source(self, symbol: Any) -> Source:
        return self.sources[symbol][0]


def _is_static_attribute(tx: Frame, source: Source) -> bool:
    """Whether the number is an attribute of an object whose class was marked static."""
    holder = source.base
    if not isinstance(source, ItemSource) or not isinstance(holder, InstanceDictSource):
        return False
    return bool(getattr(type(tx.trace.object_at(holder.base)), STATIC_CLASS, False))


def _is_plain(obj: torch.Tensor) -> bool:
    """Whether size, stride, dtype and device say all about a tensor's layout."""
    plain = obj.layout is torch.strided and not obj.is_quantized and type(obj) is torch.Tensor
    return plain and not obj.is_conj() and not obj.is_neg() and obj.storage_offset() == 0
