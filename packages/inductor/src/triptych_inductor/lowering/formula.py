"""Formulas over loop values in ordinary notation: `x * 0.5 * (1 + erf(x * c))`.

`Term` wraps a value of the recording handler; numbers take the dtype of the term they meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.lowering.common import constant


class Term:
    """A value with operators. Comparisons give bool terms; `&`, `|`, `~` are logical on those."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def dtype(self) -> torch.dtype:
        assert self.value.dtype is not None
        return self.value.dtype

    def _other(self, other: Any) -> Value:
        return other.value if isinstance(other, Term) else number(other, self.dtype)

    def _binary(self, name: str, other: Any, swap: bool = False) -> Term:
        a, b = self.value, self._other(other)
        return Term(getattr(ops, name)(*((b, a) if swap else (a, b))))

    def __add__(self, other: Any) -> Term:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Term:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Term:
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> Term:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Term:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._binary("truediv", other, True)

    def __floordiv__(self, other: Any) -> Term:
        return self._binary("floordiv", other)

    def __mod__(self, other: Any) -> Term:
        return self._binary("remainder", other)

    def __neg__(self) -> Term:
        return Term(ops.neg(self.value))

    def __lt__(self, other: Any) -> Term:
        return self._binary("lt", other)

    def __le__(self, other: Any) -> Term:
        return self._binary("le", other)

    def __gt__(self, other: Any) -> Term:
        return self._binary("gt", other)

    def __ge__(self, other: Any) -> Term:
        return self._binary("ge", other)

    def __eq__(self, other: Any) -> Term:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: Any) -> Term:  # type: ignore[override]
        return self._binary("ne", other)

    def __and__(self, other: Any) -> Term:
        return self._binary("logical_and", other)

    def __or__(self, other: Any) -> Term:
        return self._binary("logical_or", other)

    def __invert__(self) -> Term:
        return Term(ops.logical_not(self.value))


def number(value: Any, dtype: torch.dtype) -> Value:
    """A Python or symbolic number as a value of `dtype`."""
    return constant(value, dtype)


def _function(name: str) -> Callable[..., Term]:
    def call(*args: Any) -> Term:
        first = next(a for a in args if isinstance(a, Term))
        return Term(getattr(ops, name)(*[a.value if isinstance(a, Term) else first._other(a) for a in args]))

    call.__name__ = name
    call.__doc__ = f"`ops.{name}` on terms and numbers."
    return call


exp, log, log1p, expm1 = _function("exp"), _function("log"), _function("log1p"), _function("expm1")
sqrt, rsqrt, tanh, erf, sigmoid = (_function(n) for n in ("sqrt", "rsqrt", "tanh", "erf", "sigmoid"))
minimum, maximum, absolute, sign = (_function(n) for n in ("minimum", "maximum", "abs", "sign"))
floor, trunc, isnan, relu, sin = (_function(n) for n in ("floor", "trunc", "isnan", "relu", "sin"))
isinf, erfc = _function("isinf"), _function("erfc")


def where(condition: Term, a: Any, b: Any) -> Term:
    """`a` where the condition holds, else `b`; at least one of them is a term."""
    like = a if isinstance(a, Term) else b
    left, right = (t.value if isinstance(t, Term) else number(t, like.dtype) for t in (a, b))
    return Term(ops.where(condition.value, left, right))


def cast(term: Term, dtype: torch.dtype) -> Term:
    """Conversion as by `Tensor.to`."""
    return Term(ops.cast(term.value, dtype))


def formula(fn: Callable[..., Any]) -> Callable[..., Value]:
    """`fn` on terms as a function on values."""

    def call(*values: Value) -> Value:
        result: Term = fn(*[Term(v) for v in values])
        return result.value

    call.__name__ = fn.__name__
    return call
