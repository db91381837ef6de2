"""The functions that loop bodies call. Each dispatches to the handler installed by `handlers.install`.

    from triptych_inductor.loops import ops
    body = lambda i, r: ops.store("y", i[0], ops.exp(ops.load("x", i[0])))

`vocabulary.md` describes the meaning of each function; pointwise ops are the rows of `table.OPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from triptych_inductor.loops import handlers
from triptych_inductor.loops.table import OPS, WHERE

_slot = handlers._current


def load(buffer: str, index: Any) -> Any:
    """Element `index` of `buffer`, in the buffer's dtype."""
    return _slot.get().load(buffer, index)


def store(buffer: str, index: Any, value: Any) -> None:
    """Write `value` (of the buffer's dtype) at `index`, once a point."""
    _slot.get().store(buffer, index, value)


def store_atomic_add(buffer: str, index: Any, value: Any) -> None:
    """Add `value` into `buffer[index]`; points may collide."""
    _slot.get().store_atomic_add(buffer, index, value)


def constant(value: Any, dtype: torch.dtype) -> Any:
    """A Python number (bool, int or float) as a value of `dtype`."""
    return _slot.get().constant(value, dtype)


def index_expr(expr: Any, dtype: torch.dtype) -> Any:
    """A sympy integer expression over loop variables and sizes as a value of `dtype`."""
    return _slot.get().index_expr(expr, dtype)


def indirect(value: Any, size: Any, check: tuple[str, int] | None = ("index", 0)) -> Any:
    """A loaded integer as an index into an axis of `size`; one out of range raises IndexError.

    check: None (in range for certain), or what is said of one out of range: (kind, dimension), where kind is "index",
    "gather" (a RuntimeError), "table" (a row of an embedding) or "class" (a label). Only with "index" and None do
    negative numbers count from the end.
    """
    return _slot.get().indirect(value, size, check)


def masked(mask: Any, body: Callable[[], Any], other: Any) -> Any:
    """`body()` where `mask` holds, else the number `other`; loads of `body` touch memory only where the mask holds."""
    return _slot.get().masked(mask, body, other)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Conversion as by `Tensor.to(dtype)`."""
    return _slot.get().cast(value, dtype)


def bitcast(value: Any, dtype: torch.dtype) -> Any:
    """The same bits as another dtype of the same width, as by `Tensor.view(dtype)`."""
    return _slot.get().bitcast(value, dtype)


def reduce(kind: str, value: Any, dtype: torch.dtype) -> Any:
    """Reduce `value` over the reduction axes, accumulating in `dtype`; `welford` gives (mean, m2, count)."""
    return _slot.get().reduce(kind, value, dtype)


def scan(kind: str, value: Any, dtype: torch.dtype) -> Any:
    """The running result along the reduction axes, this point included; `max` and `min` give (value, position)."""
    return _slot.get().scan(kind, value, dtype)


def store_reduction(buffer: str, index: Any, value: Any) -> None:
    """Write a value made of reduction results, once an outer point."""
    _slot.get().store_reduction(buffer, index, value)


def local_set(name: str, value: Any) -> None:
    """Hand `value` to later stages under the name of one of the kernel's locals."""
    _slot.get().local_set(name, value)


def local_get(name: str) -> Any:
    """The value an earlier stage (or an earlier line of this one) set."""
    return _slot.get().local_get(name)


def random(seed: Any, offset: Any, kind: str, dtype: torch.dtype) -> Any:
    """A number of a counter-based generator: `kind` is "rand" or "randn"."""
    return _slot.get().random(seed, offset, kind, dtype)


def _pointwise(name: str, arity: int) -> Callable[..., Any]:
    def op(*args: Any) -> Any:
        return _slot.get().pointwise(name, args)

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"Pointwise `{name}` of {arity} operand{'s' if arity > 1 else ''}."
    return op


for _row in (*OPS.values(), WHERE):
    globals()[_row.name] = _pointwise(_row.name, _row.arity)


def __getattr__(name: str) -> Callable[..., Any]:
    raise AttributeError(f"no op {name!r} in the vocabulary of loop bodies")
