"""Elementwise arithmetic, comparison and logic of ATen: tables of rows, and the few ops that need more than a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from triptych_inductor.ir.tensors import LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import FLOAT, INTEGER
from triptych_inductor.lowering import formula as f
from triptych_inductor.lowering.common import broadcast, constant, cost, is_scalar, pointwise, promote, to_dtype
from triptych_inductor.lowering.formula import Term, formula
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten

# Functions of floats; integers and bools are computed in the default float type.
FLOAT_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc erfinv lgamma digamma sigmoid"
).split()

# Functions that keep the dtype. Rounding ones are the identity on integers.
SAME_UNARY = "neg abs sign floor ceil trunc frac bitwise_not relu".split()

PREDICATES = "isnan isinf signbit logical_not".split()

# ATen name -> op, computed in the promoted dtype.
SAME_BINARY = {
    "mul": "mul",
    "minimum": "minimum",
    "maximum": "maximum",
    "remainder": "remainder",
    "fmod": "fmod",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "shift_left",
    "bitwise_right_shift": "shift_right",
    "__lshift__": "shift_left",
    "__rshift__": "shift_right",
    "floor_divide": "floordiv",
}

FLOAT_BINARY = {"atan2": "atan2", "hypot": "hypot", "copysign": "copysign", "nextafter": "nextafter"}

COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_xor".split()


def float_dtype(*operands: Any) -> torch.dtype:
    """The promoted dtype, where integers and bools become the default float type."""
    dtype = promote(*operands)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _declare_unary(name: str, floating: bool, predicate: bool) -> None:
    fn: Callable[..., Value] = getattr(ops, name)

    def lowering(ctx: Context, x: LazyTensor) -> LazyTensor:
        compute = compute_dtype(float_dtype(x) if floating else x.dtype)
        return pointwise(fn, x, dtype=ctx.dtype, compute=compute, weight=cost(name))

    def identity_on_integers(ctx: Context, x: LazyTensor) -> LazyTensor:
        return x if x.dtype not in FLOAT else lowering(ctx, x)

    rounding = name in ("floor", "ceil", "trunc")
    register_lowering(getattr(aten, name).default)(identity_on_integers if rounding else lowering)


def _declare_binary(aten_name: str, op: str, floating: bool, boolean: bool) -> None:
    fn: Callable[..., Value] = getattr(ops, op)

    def lowering(ctx: Context, a: Any, b: Any) -> Any:
        if is_scalar(a) and is_scalar(b):
            return NotImplemented
        compute = compute_dtype(float_dtype(a, b) if floating else promote(a, b))
        return pointwise(fn, a, b, dtype=ctx.dtype, compute=compute, weight=cost(op))

    register_lowering(getattr(aten, aten_name))(lowering)


for _name in FLOAT_UNARY:
    _declare_unary(_name, True, False)
for _name in SAME_UNARY:
    _declare_unary(_name, False, False)
for _name in PREDICATES:
    _declare_unary(_name, False, True)
for _aten, _op in SAME_BINARY.items():
    _declare_binary(_aten, _op, False, False)
for _aten, _op in FLOAT_BINARY.items():
    _declare_binary(_aten, _op, True, False)
for _name in COMPARISONS:
    _declare_binary(_name, _name, False, True)


@register_lowering(aten.round.default)
def round_(ctx: Context, x: LazyTensor) -> LazyTensor:
    return pointwise(ops.round, x, dtype=ctx.dtype) if x.dtype in FLOAT else x


@register_lowering(aten.sgn)
def sgn(ctx: Context, x: LazyTensor) -> LazyTensor:
    return pointwise(ops.sign, x, dtype=ctx.dtype)


@register_lowering(aten.positive)
def positive(ctx: Context, x: LazyTensor) -> LazyTensor:
    return x


def _scaled(fn: Callable[..., Value], alpha: Any) -> Callable[..., Value]:
    """`fn(a, alpha * b)`."""
    if is_scalar(alpha) and alpha == 1:
        return fn
    return lambda a, b, scale: fn(a, ops.mul(b, scale))


def _additive(fn: Callable[..., Value], a: Any, b: Any, alpha: Any, dtype: torch.dtype) -> Any:
    if is_scalar(a) and is_scalar(b):
        return NotImplemented
    compute = compute_dtype(promote(a, b))
    extra = () if is_scalar(alpha) and alpha == 1 else (alpha,)
    return pointwise(_scaled(fn, alpha), a, b, *extra, dtype=dtype, compute=compute)


@register_lowering(aten.add)
def add(ctx: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _additive(ops.add, a, b, alpha, ctx.dtype)


@register_lowering(aten.sub)
def sub(ctx: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _additive(ops.sub, a, b, alpha, ctx.dtype)


@register_lowering(aten.rsub)
def rsub(ctx: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return pointwise(
        lambda x, y, scale: ops.sub(y, ops.mul(x, scale)),
        a,
        b,
        alpha,
        dtype=ctx.dtype,
        compute=compute_dtype(promote(a, b)),
    )


@formula
def truncated_division(a: Term, b: Term) -> Term:
    """Integer division rounding toward zero, from the one rounding down."""
    down = a // b
    inexact = (a % b) != 0
    return f.where(inexact & ((a < 0) != (b < 0)), down + 1, down)


@register_lowering(aten.div)
def div(ctx: Context, a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if is_scalar(a) and is_scalar(b):
        return NotImplemented
    if rounding_mode is None:
        return pointwise(ops.truediv, a, b, dtype=ctx.dtype, compute=compute_dtype(float_dtype(a, b)), weight=4)
    compute = compute_dtype(promote(a, b))
    if rounding_mode == "floor":
        return pointwise(ops.floordiv, a, b, dtype=ctx.dtype, compute=compute, weight=10)
    if compute in INTEGER:
        fn = truncated_division if compute is not torch.uint8 else ops.floordiv
        return pointwise(fn, a, b, dtype=ctx.dtype, compute=compute, weight=10)
    return pointwise(lambda x, y: ops.trunc(ops.truediv(x, y)), a, b, dtype=ctx.dtype, compute=compute, weight=5)


# Exponents that eager computes by other means than `pow`.
_POWERS: dict[float, Callable[[Value], Value]] = {
    2.0: lambda x: ops.mul(x, x),
    3.0: lambda x: ops.mul(ops.mul(x, x), x),
}
_FLOAT_POWERS: dict[float, Callable[[Value], Value]] = {
    0.5: lambda x: ops.sqrt(x),
    -0.5: lambda x: ops.rsqrt(x),
    -1.0: lambda x: ops.reciprocal(x),
    -2.0: lambda x: ops.reciprocal(ops.mul(x, x)),
}


@register_lowering(aten.pow)
def pow_(ctx: Context, base: Any, exponent: Any) -> Any:
    if is_scalar(base) and is_scalar(exponent):
        return NotImplemented
    compute = compute_dtype(promote(base, exponent))
    if compute is torch.bool:
        return NotImplemented
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        if exponent == 1 and isinstance(base, LazyTensor):
            return to_dtype(base, ctx.dtype)
        special = _POWERS.get(exponent) or (_FLOAT_POWERS.get(exponent) if compute in FLOAT else None)
        if special is not None:
            return pointwise(special, base, dtype=ctx.dtype, compute=compute, weight=2)
        if exponent < 0 and compute not in FLOAT:
            return NotImplemented  # eager raises
    return pointwise(ops.pow, base, exponent, dtype=ctx.dtype, compute=compute, weight=cost("pow"))


@register_lowering(aten.where)
def where(ctx: Context, condition: LazyTensor, a: Any = None, b: Any = None) -> Any:
    if a is None and b is None:
        return NotImplemented
    compute = compute_dtype(promote(a, b))

    def choose(c: Value, x: Value, y: Value) -> Value:
        return ops.where(ops.cast(c, torch.bool), ops.cast(x, compute), ops.cast(y, compute))

    return _mixed(ctx, choose, condition, a, b)


def _mixed(ctx: Context, fn: Callable[..., Value], *operands: Any) -> LazyTensor:
    """Pointwise over operands that keep their own dtypes (numbers become 0-dimensional in the result's)."""
    from_numbers = compute_dtype(ctx.dtype)
    tensors = [o if isinstance(o, LazyTensor) else _filled(ctx, o, from_numbers) for o in operands]
    return _own_dtypes(fn, tensors, ctx.dtype)


def _filled(ctx: Context, value: Any, dtype: torch.dtype) -> LazyTensor:
    return LazyTensor(ctx.builder, (), dtype, ctx.device, lambda i: constant(value, dtype), weight=0)


def _own_dtypes(fn: Callable[..., Value], tensors: list[LazyTensor], dtype: torch.dtype) -> LazyTensor:
    spread = broadcast(*tensors)
    first = spread[0]
    final = compute_dtype(dtype)
    return LazyTensor(
        first.builder,
        first.size,
        dtype,
        first.device,
        lambda i: ops.cast(fn(*[t.at(i) for t in spread]), final),
        parents=spread,
    )


@register_lowering(aten.masked_fill)
def masked_fill(ctx: Context, x: LazyTensor, mask: LazyTensor, value: Any) -> LazyTensor:
    compute = compute_dtype(ctx.dtype)
    return _mixed(ctx, lambda c, v, y: ops.where(c, ops.cast(v, compute), ops.cast(y, compute)), mask, value, x)


def _bound(x: Value, low: Value | None, high: Value | None) -> Value:
    if low is not None:
        x = ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@register_lowering(aten.clamp)
def clamp(ctx: Context, x: LazyTensor, min: Any = None, max: Any = None) -> LazyTensor:
    given = [b for b in (min, max) if b is not None]
    compute = compute_dtype(promote(x, *given))

    def fn(*values: Value) -> Value:
        rest = list(values[1:])
        low = rest.pop(0) if min is not None else None
        return _bound(values[0], low, rest.pop(0) if rest else None)

    return pointwise(fn, x, *given, dtype=ctx.dtype, compute=compute, weight=2)


@register_lowering(aten.clamp_min)
def clamp_min(ctx: Context, x: LazyTensor, min: Any) -> LazyTensor:
    return clamp(ctx, x, min=min)


@register_lowering(aten.clamp_max)
def clamp_max(ctx: Context, x: LazyTensor, max: Any) -> LazyTensor:
    return clamp(ctx, x, max=max)


@register_lowering(aten.lerp)
def lerp(ctx: Context, a: LazyTensor, b: LazyTensor, weight: Any) -> LazyTensor:
    @formula
    def fn(x: Term, y: Term, w: Term) -> Term:
        near = f.absolute(w) < 0.5
        return f.where(near, x + w * (y - x), y - (y - x) * (1 - w))

    return pointwise(fn, a, b, weight, dtype=ctx.dtype, compute=compute_dtype(ctx.dtype), weight=6)


@register_lowering(aten.addcmul)
def addcmul(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, value: Any = 1) -> LazyTensor:
    @formula
    def fn(t: Term, p: Term, q: Term, v: Term) -> Term:
        return t + v * p * q if value != 1 else t + p * q

    return pointwise(fn, x, a, b, value, dtype=ctx.dtype, compute=compute_dtype(ctx.dtype), weight=3)


@register_lowering(aten.addcdiv)
def addcdiv(ctx: Context, x: LazyTensor, a: LazyTensor, b: LazyTensor, *, value: Any = 1) -> LazyTensor:
    @formula
    def fn(t: Term, p: Term, q: Term, v: Term) -> Term:
        return t + v * p / q if value != 1 else t + p / q

    return pointwise(fn, x, a, b, value, dtype=ctx.dtype, compute=compute_dtype(ctx.dtype), weight=6)


def _declare_formula(target: Any, fn: Callable[..., Term], weight: int, floating: bool = True) -> None:
    body = formula(fn)

    def lowering(ctx: Context, *operands: Any) -> Any:
        if all(is_scalar(o) for o in operands):
            return NotImplemented
        dtype = float_dtype(*operands) if floating else promote(*operands)
        return pointwise(body, *operands, dtype=ctx.dtype, compute=compute_dtype(dtype), weight=weight)

    register_lowering(target)(lowering)


def _xlogy(x: Term, y: Term) -> Term:
    return f.where(f.isnan(y), y, f.where(x == 0, x * 0.0, x * f.log(y)))


def _logaddexp(a: Term, b: Term) -> Term:
    high = f.maximum(a, b)
    same_infinity = f.isinf(a) & (a == b)
    return f.where(same_infinity, a, high + f.log1p(f.exp(-f.absolute(a - b))))


def _fmax(a: Term, b: Term) -> Term:
    return f.where(f.isnan(a), b, f.where(f.isnan(b), a, f.maximum(a, b)))


def _fmin(a: Term, b: Term) -> Term:
    return f.where(f.isnan(a), b, f.where(f.isnan(b), a, f.minimum(a, b)))


def _heaviside(x: Term, value: Term) -> Term:
    return f.where(x == 0, value, f.where(x > 0, x - x + 1, x - x))


def _ndtr(x: Term) -> Term:
    t = x * math.sqrt(0.5)
    return f.where(t < -1, f.erfc(-t) * 0.5, (f.erf(t) + 1) * 0.5)


_declare_formula(aten.special_ndtr, _ndtr, 34)
_declare_formula(aten.xlogy, _xlogy, 14)
_declare_formula(aten.logaddexp, _logaddexp, 26)
_declare_formula(aten.fmax, _fmax, 4, floating=False)
_declare_formula(aten.fmin, _fmin, 4, floating=False)
