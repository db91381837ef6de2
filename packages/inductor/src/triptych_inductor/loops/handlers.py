"""Handlers: what loop bodies run under. The base class, the recording handler (body to SSA form) and replay.

A body is recorded once. Every later question about it is answered from the record, or by replaying the record on
another handler with other loop variables, which costs no more than its number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from triptych_inductor.loops.table import reduction_dtype, result_dtype, scan_dtypes


class OpsHandler:
    """Base of all handlers. Subclass it and implement what your analysis meets; the rest raises `TypeError`.

    `pointwise(name, args)` receives every row of the op table and `where`.
    """

    def _unsupported(self, what: str) -> Any:
        raise TypeError(f"{type(self).__name__} does not handle {what}")

    def load(self, buffer: str, index: Any) -> Any:
        return self._unsupported("load")

    def store(self, buffer: str, index: Any, value: Any) -> None:
        self._unsupported("store")

    def store_atomic_add(self, buffer: str, index: Any, value: Any) -> None:
        self._unsupported("store_atomic_add")

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("constant")

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("index_expr")

    def indirect(self, value: Any, size: Any, check: tuple[str, int] | None = ("index", 0)) -> Any:
        return self._unsupported("indirect")

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        return self._unsupported("masked")

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("cast")

    def bitcast(self, value: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("bitcast")

    def reduce(self, kind: str, value: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("reduce")

    def scan(self, kind: str, value: Any, dtype: torch.dtype) -> Any:
        return self._unsupported("scan")

    def store_reduction(self, buffer: str, index: Any, value: Any) -> None:
        self._unsupported("store_reduction")

    def local_set(self, name: str, value: Any) -> None:
        self._unsupported("local_set")

    def local_get(self, name: str) -> Any:
        return self._unsupported("local_get")

    def random(self, seed: Any, offset: Any, kind: str, dtype: torch.dtype) -> Any:
        return self._unsupported("random")

    def pointwise(self, name: str, args: tuple[Any, ...]) -> Any:
        return self._unsupported(name)


_current: ContextVar[OpsHandler] = ContextVar("triptych_inductor_ops_handler")


def current() -> OpsHandler:
    """The handler that `loops.ops` dispatches to; `LookupError` outside `install`."""
    return _current.get()


@contextmanager
def install(handler: OpsHandler) -> Iterator[OpsHandler]:
    """Run bodies under `handler` for the extent of a `with` block."""
    token = _current.set(handler)
    try:
        yield handler
    finally:
        _current.reset(token)


class Value:
    """One SSA value: `op` on `args` (values) with `attrs` (plain data), of `dtype` (None for stores and the like).

    `op` is a row of the op table, `where`, or one of: load, store, store_atomic_add, constant, index_expr, indirect,
    masked, cast, bitcast, reduce, scan, project, store_reduction, local_set, local_get, random. `masked` has a
    `region`.
    """

    __slots__ = ("op", "args", "attrs", "dtype", "number", "region")

    def __init__(
        self,
        op: str,
        args: tuple[Value, ...],
        attrs: tuple[Any, ...],
        dtype: torch.dtype | None,
        number: int,
        region: Block | None = None,
    ) -> None:
        self.op = op
        self.args = args
        self.attrs = attrs
        self.dtype = dtype
        self.number = number
        self.region = region

    def __repr__(self) -> str:
        inner = ", ".join([f"%{a.number}" for a in self.args] + [str(a) for a in self.attrs])
        dtype = "" if self.dtype is None else f" : {str(self.dtype).removeprefix('torch.')}"
        return f"%{self.number} = {self.op}({inner}){dtype}"


@dataclass
class Block:
    """Values in the order of evaluation; `result` is what a region yields (None for a whole body)."""

    nodes: list[Value] = field(default_factory=list)
    result: Value | None = None

    def walk(self) -> Iterator[Value]:
        """All values, those of nested regions before the `masked` that holds them."""
        for node in self.nodes:
            if node.region is not None:
                yield from node.region.walk()
            yield node


@dataclass
class Recorded:
    """A body in SSA form, with the loop variables it was recorded with. Print it to read it."""

    block: Block
    outer: tuple[sympy.Symbol, ...]
    reduction: tuple[sympy.Symbol, ...]
    indirect: dict[sympy.Symbol, Value] = field(default_factory=dict)

    def walk(self) -> Iterator[Value]:
        return self.block.walk()

    def loads(self) -> list[tuple[str, Any]]:
        """(buffer, index) of every load, in order."""
        return [(n.attrs[0], n.attrs[1]) for n in self.walk() if n.op == "load"]

    def stores(self) -> list[tuple[str, Any]]:
        """(buffer, index) of every write, in order."""
        return [(n.attrs[0], n.attrs[1]) for n in self.walk() if n.op in STORES]

    def replay(self, handler: OpsHandler, outer: Sequence[Any], reduction: Sequence[Any] = ()) -> None:
        """Run the recorded body on `handler` with `outer` and `reduction` in place of its loop variables."""
        replacement = dict(zip(self.outer + self.reduction, (*outer, *reduction), strict=True))
        _Replay(handler, replacement, self.indirect).run(self.block)

    def as_body(self) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """This record as a define-by-run body, for a `Stage`."""
        return lambda outer, reduction: self.replay(current(), outer, reduction)

    def __str__(self) -> str:
        lines = [f"body({', '.join(map(str, self.outer))} | {', '.join(map(str, self.reduction))}):"]
        _print_block(self.block, "  ", lines)
        return "\n".join(lines)


STORES = frozenset({"store", "store_atomic_add", "store_reduction"})


def _print_block(block: Block, indent: str, lines: list[str]) -> None:
    for node in block.nodes:
        lines.append(f"{indent}{node!r}")
        if node.region is not None:
            _print_block(node.region, indent + "  ", lines)
            lines.append(f"{indent}  yield %{node.region.result.number if node.region.result else '?'}")


class RecordingHandler(OpsHandler):
    """Records a body as SSA values. Equal pure values within a region are one value.

    `dtypes` gives the dtype of every buffer and every local that the body reads. Locals that the body sets itself need
    no entry.
    """

    def __init__(self, dtypes: Mapping[str, torch.dtype]) -> None:
        self.dtypes = dict(dtypes)
        self.block = Block()
        self.indirect_values: dict[sympy.Symbol, Value] = {}
        self._known: list[dict[tuple[Any, ...], Value]] = [{}]
        self._count = 0
        self._version: dict[str, int] = {}

    def _emit(
        self,
        op: str,
        args: tuple[Value, ...],
        attrs: tuple[Any, ...],
        dtype: torch.dtype | None,
        region: Block | None = None,
    ) -> Value:
        node = Value(op, args, attrs, dtype, self._count, region)
        self._count += 1
        self.block.nodes.append(node)
        return node

    def _pure(
        self, op: str, args: tuple[Value, ...], attrs: tuple[Any, ...], dtype: torch.dtype | None, salt: Any = None
    ) -> Value:
        key = (op, tuple([a.number for a in args]), attrs, dtype, salt)
        for scope in self._known:
            found = scope.get(key)
            if found is not None:
                return found
        node = self._emit(op, args, attrs, dtype)
        self._known[-1][key] = node
        return node

    def load(self, buffer: str, index: Any) -> Value:
        return self._pure("load", (), (buffer, index), self.dtypes[buffer], self._version.get(buffer, 0))

    def _write(self, op: str, buffer: str, index: Any, value: Value) -> None:
        self._emit(op, (value,), (buffer, index), None)
        self._version[buffer] = self._version.get(buffer, 0) + 1

    def store(self, buffer: str, index: Any, value: Value) -> None:
        self._write("store", buffer, index, value)

    def store_atomic_add(self, buffer: str, index: Any, value: Value) -> None:
        self._write("store_atomic_add", buffer, index, value)

    def store_reduction(self, buffer: str, index: Any, value: Value) -> None:
        self._write("store_reduction", buffer, index, value)

    def constant(self, value: Any, dtype: torch.dtype) -> Value:
        # repr tells 0.0 from -0.0 and lets NaN equal itself.
        return self._pure("constant", (), (value,), dtype, repr(value))

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Value:
        return self._pure("index_expr", (), (expr,), dtype)

    def indirect(self, value: Value, size: Any, check: tuple[str, int] | None = ("index", 0)) -> sympy.Symbol:
        node = self._pure("indirect", (value,), (size, check), torch.int64)
        symbol = sympy.Symbol(f"indirect{node.number}", integer=True, nonnegative=True)
        self.indirect_values[symbol] = node
        return symbol

    def masked(self, mask: Value, body: Callable[[], Value], other: Any) -> Value:
        outside, inside = self.block, Block()
        self.block = inside
        self._known.append({})
        try:
            inside.result = body()
        finally:
            self.block = outside
            self._known.pop()
        return self._emit("masked", (mask,), (other,), inside.result.dtype, inside)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        return value if value.dtype is dtype else self._pure("cast", (value,), (), dtype)

    def bitcast(self, value: Value, dtype: torch.dtype) -> Value:
        return value if value.dtype is dtype else self._pure("bitcast", (value,), (), dtype)

    def reduce(self, kind: str, value: Value, dtype: torch.dtype) -> Any:
        node = self._pure("reduce", (value,), (kind, dtype), reduction_dtype(kind, dtype))
        if kind == "welford":
            return tuple(self._pure("project", (node,), (i,), dtype) for i in range(3))
        return node

    def scan(self, kind: str, value: Value, dtype: torch.dtype) -> Any:
        types = scan_dtypes(kind, dtype)
        node = self._pure("scan", (value,), (kind, dtype), dtype)
        if len(types) == 1:
            return node
        return tuple(self._pure("project", (node,), (k,), part) for k, part in enumerate(types))

    def local_set(self, name: str, value: Value) -> None:
        self._emit("local_set", (value,), (name,), None)
        self.dtypes.setdefault(name, value.dtype)  # type: ignore[arg-type]
        self._version[name] = self._version.get(name, 0) + 1

    def local_get(self, name: str) -> Value:
        return self._pure("local_get", (), (name,), self.dtypes[name], self._version.get(name, 0))

    def random(self, seed: Value, offset: Value, kind: str, dtype: torch.dtype) -> Value:
        return self._pure("random", (seed, offset), (kind,), dtype)

    def pointwise(self, name: str, args: tuple[Value, ...]) -> Value:
        dtype = result_dtype(name, tuple([a.dtype for a in args]))  # type: ignore[misc]
        return self._pure(name, args, (), dtype)


def loop_variables(prefix: str, count: int) -> tuple[sympy.Symbol, ...]:
    """Fresh loop variables `prefix0`, `prefix1`, ...: integers known to be nonnegative.

    >>> loop_variables("i", 2)
    (i0, i1)
    """
    return tuple(sympy.Symbol(f"{prefix}{k}", integer=True, nonnegative=True) for k in range(count))


def record(
    body: Callable[[Sequence[Any], Sequence[Any]], None],
    outer_count: int,
    reduction_count: int,
    dtypes: Mapping[str, torch.dtype],
) -> Recorded:
    """Run `body` once under a `RecordingHandler`, with loop variables i0.. and r0.., and give its SSA form.

    `dtypes`: dtype of each buffer and local that the body reads. `TypeError` where the body breaks a dtype rule.

    >>> record(lambda i, r: ops.store("y", i[0], ops.neg(ops.load("x", i[0]))), 1, 0, {"x": torch.float32})
    """
    handler = RecordingHandler(dtypes)
    outer, reduction = loop_variables("i", outer_count), loop_variables("r", reduction_count)
    with install(handler):
        body(outer, reduction)
    return Recorded(handler.block, outer, reduction, handler.indirect_values)


class _Replay:
    """Evaluates a block on another handler; index expressions get their variables replaced."""

    def __init__(
        self, handler: OpsHandler, replacement: dict[Any, Any], indirect: Mapping[sympy.Symbol, Value]
    ) -> None:
        self.handler = handler
        self.replacement = {old: new for old, new in replacement.items() if old is not new}
        self.symbol_of = {id(node): symbol for symbol, node in indirect.items()}
        self.values: dict[int, Any] = {}

    def index(self, expr: Any) -> Any:
        if isinstance(expr, int) or not self.replacement:
            return expr
        return expr.xreplace({old: sympy.sympify(new) for old, new in self.replacement.items()})

    def run(self, block: Block) -> Any:
        for node in block.nodes:
            self.values[node.number] = self.evaluate(node)
        return None if block.result is None else self.values[block.result.number]

    def evaluate(self, node: Value) -> Any:
        args = [self.values[a.number] for a in node.args]
        special = getattr(self, "on_" + node.op, None)
        return self.handler.pointwise(node.op, tuple(args)) if special is None else special(node, args)

    def on_load(self, node: Value, args: list[Any]) -> Any:
        return self.handler.load(node.attrs[0], self.index(node.attrs[1]))

    def on_store(self, node: Value, args: list[Any]) -> Any:
        return getattr(self.handler, node.op)(node.attrs[0], self.index(node.attrs[1]), args[0])

    on_store_atomic_add = on_store_reduction = on_store

    def on_constant(self, node: Value, args: list[Any]) -> Any:
        return self.handler.constant(node.attrs[0], node.dtype)  # type: ignore[arg-type]

    def on_index_expr(self, node: Value, args: list[Any]) -> Any:
        return self.handler.index_expr(self.index(node.attrs[0]), node.dtype)  # type: ignore[arg-type]

    def on_indirect(self, node: Value, args: list[Any]) -> Any:
        symbol = self.handler.indirect(args[0], self.index(node.attrs[0]), node.attrs[1])
        old = self.symbol_of[id(node)]
        if symbol is not old:
            self.replacement[old] = symbol
        return symbol

    def on_masked(self, node: Value, args: list[Any]) -> Any:
        assert node.region is not None
        return self.handler.masked(args[0], lambda: self.run(node.region), node.attrs[0])  # type: ignore[arg-type]

    def on_cast(self, node: Value, args: list[Any]) -> Any:
        return getattr(self.handler, node.op)(args[0], node.dtype)

    on_bitcast = on_cast

    def on_reduce(self, node: Value, args: list[Any]) -> Any:
        return self.handler.reduce(node.attrs[0], args[0], node.attrs[1])

    def on_scan(self, node: Value, args: list[Any]) -> Any:
        return self.handler.scan(node.attrs[0], args[0], node.attrs[1])

    def on_project(self, node: Value, args: list[Any]) -> Any:
        return args[0][node.attrs[0]]

    def on_local_set(self, node: Value, args: list[Any]) -> Any:
        return self.handler.local_set(node.attrs[0], args[0])

    def on_local_get(self, node: Value, args: list[Any]) -> Any:
        return self.handler.local_get(node.attrs[0])

    def on_random(self, node: Value, args: list[Any]) -> Any:
        return self.handler.random(args[0], args[1], node.attrs[0], node.dtype)  # type: ignore[arg-type]
