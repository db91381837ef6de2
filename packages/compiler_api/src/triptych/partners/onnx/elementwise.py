"""Operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from triptych.partners.onnx.builder import Builder, UnsupportedError, Value

aten = torch.ops.aten

# -- one operand -------------------------------------------------------------------------------------------------------
UNARY = {  # computed in the dtype of the result
    aten.relu.default: "Relu",
    aten.sigmoid.default: "Sigmoid",
    aten.tanh.default: "Tanh",
    aten.exp.default: "Exp",
    aten.log.default: "Log",
    aten.sqrt.default: "Sqrt",
    aten.abs.default: "Abs",
    aten.neg.default: "Neg",
    aten.floor.default: "Floor",
    aten.ceil.default: "Ceil",
    aten.round.default: "Round",
    aten.sin.default: "Sin",
    aten.cos.default: "Cos",
    aten.tan.default: "Tan",
    aten.asin.default: "Asin",
    aten.acos.default: "Acos",
    aten.atan.default: "Atan",
    aten.sinh.default: "Sinh",
    aten.cosh.default: "Cosh",
    aten.asinh.default: "Asinh",
    aten.acosh.default: "Acosh",
    aten.atanh.default: "Atanh",
    aten.erf.default: "Erf",
    aten.reciprocal.default: "Reciprocal",
    aten.alias.default: "Identity",
    aten.clone.default: "Identity",
    aten.detach.default: "Identity",
    aten.lift_fresh_copy.default: "Identity",
    aten.hardswish.default: "HardSwish",
}
TESTS = {aten.isnan.default: "IsNaN", aten.isinf.default: "IsInf"}


def _unary(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, out: Value, x: Value, **_: Any) -> Value:
        return b.like(kind, out, b.cast(x, out.dtype))

    return rule


def _test(kind: str) -> Callable[..., Value]:
    return lambda b, out, x: b.like(kind, out, x)


def _rsqrt(b: Builder, out: Value, x: Value) -> Value:
    return b.like("Reciprocal", out, b.like("Sqrt", out, b.cast(x, out.dtype)))


def _silu(b: Builder, out: Value, x: Value) -> Value:
    return b.like("Mul", out, x, b.like("Sigmoid", out, x))


def _gelu(b: Builder, out: Value, x: Value, approximate: str = "none") -> Value:
    return b.like("Gelu", out, x, approximate=approximate)


def _leaky_relu(b: Builder, out: Value, x: Value, negative_slope: float = 0.01) -> Value:
    return b.like("LeakyRelu", out, x, alpha=float(negative_slope))


def _clamp(b: Builder, out: Value, x: Value, min: Any = None, max: Any = None) -> Value:
    result = b.cast(x, out.dtype)
    if min is not None:
        result = b.like("Max", out, result, b.cast(min, out.dtype))
    return result if max is None else b.like("Min", out, result, b.cast(max, out.dtype))


def _logical_not(b: Builder, out: Value, x: Value) -> Value:
    return b.like("Not", out, b.cast(x, torch.bool))


def _bitwise_not(b: Builder, out: Value, x: Value) -> Value:
    return b.like("Not" if x.dtype == torch.bool else "BitwiseNot", out, x)


def _convert(b: Builder, out: Value, x: Value, *_: Any, **__: Any) -> Value:
    return b.cast(x, out.dtype) if x.dtype != out.dtype else b.like("Identity", out, x)


# -- two operands ------------------------------------------------------------------------------------------------------
def _operands(b: Builder, x: Any, y: Any, dtype: torch.dtype) -> tuple[Value, Value]:
    return b.cast(x, dtype), b.cast(y, dtype)


def _common(x: Any, y: Any) -> torch.dtype:
    """The dtype in which torch compares or combines two operands."""
    stand_ins = [torch.empty(v.shape, dtype=v.dtype, device="meta") if isinstance(v, Value) else v for v in (x, y)]
    return torch.result_type(*stand_ins)


ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "maximum": "Max", "minimum": "Min"}
COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITS = {"bitwise_and": ("And", "BitwiseAnd"), "bitwise_or": ("Or", "BitwiseOr"), "bitwise_xor": ("Xor", "BitwiseXor")}


def _arithmetic(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, out: Value, x: Any, y: Any, alpha: Any = 1) -> Value:
        if out.dtype == torch.bool:
            raise UnsupportedError("arithmetic of truth values")
        left, right = _operands(b, x, y, out.dtype)
        if alpha != 1:
            right = b.make("Mul", out.dtype, right.shape, right, b.constant(alpha, out.dtype))
        return b.like(kind, out, left, right)

    return rule


def _comparison(kind: str) -> Callable[..., Value]:
    return lambda b, out, x, y: b.like(kind, out, *_operands(b, x, y, _common(x, y)))


def _not_equal(b: Builder, out: Value, x: Any, y: Any) -> Value:
    return b.like("Not", out, b.like("Equal", out, *_operands(b, x, y, _common(x, y))))


def _logic(kind: str) -> Callable[..., Value]:
    return lambda b, out, x, y: b.like(kind, out, *_operands(b, x, y, torch.bool))


def _bits(kinds: tuple[str, str]) -> Callable[..., Value]:
    return lambda b, out, x, y: b.like(kinds[out.dtype != torch.bool], out, *_operands(b, x, y, out.dtype))


def _divide(b: Builder, out: Value, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    left, right = _operands(b, x, y, out.dtype)
    if rounding_mode is None:
        return b.like("Div", out, left, right)
    if out.dtype.is_floating_point or rounding_mode != "trunc":
        raise UnsupportedError(f"division rounded by {rounding_mode!r} of {out.dtype}")
    return b.like("Div", out, left, right)


def _power(b: Builder, out: Value, x: Any, y: Any) -> Value:
    if not out.dtype.is_floating_point:
        raise UnsupportedError("powers of integers")
    if not isinstance(y, Value) and y == 2:
        return b.like("Mul", out, *_operands(b, x, x, out.dtype))
    return b.like("Pow", out, *_operands(b, x, y, out.dtype))


def _where(b: Builder, out: Value, condition: Value, x: Any, y: Any) -> Value:
    return b.like("Where", out, b.cast(condition, torch.bool), *_operands(b, x, y, out.dtype))


def _overloads(name: str) -> list[Any]:
    packet = getattr(aten, name)
    return [getattr(packet, kind) for kind in ("default", "Tensor", "Scalar") if kind in packet.overloads()]


RULES: dict[Any, Callable[..., Any]] = {
    **{op: _unary(kind) for op, kind in UNARY.items()},
    **{op: _test(kind) for op, kind in TESTS.items()},
    aten.rsqrt.default: _rsqrt,
    aten.silu.default: _silu,
    aten.gelu.default: _gelu,
    aten.leaky_relu.default: _leaky_relu,
    aten.clamp.default: _clamp,
    aten.clamp_min.default: lambda b, out, x, low: _clamp(b, out, x, low),
    aten.clamp_max.default: lambda b, out, x, high: _clamp(b, out, x, None, high),
    aten.logical_not.default: _logical_not,
    aten.bitwise_not.default: _bitwise_not,
    aten._to_copy.default: _convert,
    torch.ops.prims.convert_element_type.default: _convert,
    **{op: _arithmetic(kind) for name, kind in ARITHMETIC.items() for op in _overloads(name)},
    **{op: _comparison(kind) for name, kind in COMPARISONS.items() for op in _overloads(name)},
    **{op: _not_equal for op in _overloads("ne")},
    **{op: _logic(kind) for name, kind in LOGIC.items() for op in _overloads(name)},
    **{op: _bits(kinds) for name, kinds in BITS.items() for op in _overloads(name)},
    **{op: _divide for op in (*_overloads("div"), aten.div.Tensor_mode, aten.div.Scalar_mode)},
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.where.self: _where,
}
