"""Recording loop bodies with `Index` addresses, and replaying the record for a code generator with sympy ones.

The record is the SSA form of `loops.handlers`; only the addresses differ (`Index` instead of sympy), so that
recording and fusing never pay for sympy. `IndexRecorder` also remembers which lazy tensor was evaluated at which
index, so that a value used along many paths is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from triptych_inductor.ir.index import Index, Indirect
from triptych_inductor.loops.handlers import OpsHandler, RecordingHandler, Value

ADDRESSED = frozenset({"load", "store", "store_atomic_add", "store_reduction"})


class IndexRecorder(RecordingHandler):
    """A `RecordingHandler` whose indices are `Index` objects, with a memory of evaluated lazy tensors."""

    def __init__(self, dtypes: Mapping[str, torch.dtype]) -> None:
        super().__init__({})
        self.dtypes = dtypes  # type: ignore[assignment]
        self._evaluated: list[dict[tuple[int, tuple[Index, ...]], Value]] = [{}]

    def indirect(self, value: Value, size: Any, check: tuple[str, int] | None = ("index", 0)) -> Index:  # type: ignore[override]
        node = self._pure("indirect", (value,), (size, check), torch.int64)
        return Index({Indirect(node.number, size): 1})

    def masked(self, mask: Value, body: Callable[[], Value], other: Any) -> Value:
        self._evaluated.append({})
        try:
            return super().masked(mask, body, other)
        finally:
            self._evaluated.pop()

    def recall(self, key: tuple[int, tuple[Index, ...]]) -> Value | None:
        """The value of a lazy tensor at an index, where it was evaluated before in a region still open."""
        for scope in self._evaluated:
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: tuple[int, tuple[Index, ...]], value: Value) -> None:
        self._evaluated[-1][key] = value


class Replayer:
    """Evaluates recorded values on another handler. `index` turns an `Index` into what that handler takes.

    `load` and `store` hooks let fusion forward values between nodes: they receive (buffer, index, emit) and may replace
    the access by something else.
    """

    def __init__(self, handler: OpsHandler, symbols: dict[Any, Any]) -> None:
        self.handler = handler
        self.symbols = symbols  # atom -> what the handler takes for it
        self.values: dict[int, Any] = {}

    def index(self, index: Any) -> Any:
        return index.to_sympy(self.symbols) if isinstance(index, Index) else sympy.sympify(index)

    def run(self, nodes: list[Value]) -> None:
        for node in nodes:
            self.values[node.number] = self.evaluate(node)

    def evaluate(self, node: Value) -> Any:
        args = [self.values[a.number] for a in node.args]
        special = _SPECIAL.get(node.op)
        return self.handler.pointwise(node.op, tuple(args)) if special is None else special(self, node, args)

    def _addressed(self, node: Value, args: list[Any]) -> Any:
        buffer, index = node.attrs
        return getattr(self.handler, node.op)(buffer, self.index(index), *args)

    def _constant(self, node: Value, args: list[Any]) -> Any:
        return self.handler.constant(node.attrs[0], node.dtype)  # type: ignore[arg-type]

    def _index_expr(self, node: Value, args: list[Any]) -> Any:
        return self.handler.index_expr(self.index(node.attrs[0]), node.dtype)  # type: ignore[arg-type]

    def _indirect(self, node: Value, args: list[Any]) -> Any:
        size = node.attrs[0]
        symbol = self.handler.indirect(args[0], size if isinstance(size, int) else self.index(size), node.attrs[1])
        self.symbols[Indirect(node.number, size)] = symbol
        return symbol

    def _masked(self, node: Value, args: list[Any]) -> Any:
        region = node.region
        assert region is not None and region.result is not None

        def body() -> Any:
            self.run(region.nodes)
            return self.values[region.result.number]  # type: ignore[union-attr]

        return self.handler.masked(args[0], body, node.attrs[0])

    def _cast(self, node: Value, args: list[Any]) -> Any:
        return getattr(self.handler, node.op)(args[0], node.dtype)

    def _reduce(self, node: Value, args: list[Any]) -> Any:
        return self.handler.reduce(node.attrs[0], args[0], node.attrs[1])

    def _scan(self, node: Value, args: list[Any]) -> Any:
        return self.handler.scan(node.attrs[0], args[0], node.attrs[1])

    def _project(self, node: Value, args: list[Any]) -> Any:
        return args[0][node.attrs[0]]

    def _local_set(self, node: Value, args: list[Any]) -> Any:
        return self.handler.local_set(node.attrs[0], args[0])

    def _local_get(self, node: Value, args: list[Any]) -> Any:
        return self.handler.local_get(node.attrs[0])


_SPECIAL: dict[str, Callable[[Replayer, Value, list[Any]], Any]] = {
    **dict.fromkeys(ADDRESSED, Replayer._addressed),
    "constant": Replayer._constant,
    "index_expr": Replayer._index_expr,
    "indirect": Replayer._indirect,
    "masked": Replayer._masked,
    "cast": Replayer._cast,
    "bitcast": Replayer._cast,
    "reduce": Replayer._reduce,
    "scan": Replayer._scan,
    "project": Replayer._project,
    "local_set": Replayer._local_set,
    "local_get": Replayer._local_get,
}
