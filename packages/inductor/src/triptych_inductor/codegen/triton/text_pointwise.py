"""Triton text of pointwise ops, family arithmetic, choice, logic and bits. Maths is in `text_math`.

A row has one template a class of dtypes; `{0}`, `{1}`, `{2}` are the operands, `{T}` the dtype's text and `{bits}`
its width.
A half type without a template of its own is computed in float32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from triptych_inductor.codegen.triton.dtypes import DTYPES


@dataclass(frozen=True)
class OpText:
    """Templates by class of dtype; an empty one falls to `integer` (signed, unsigned), `float` (double) or `any`."""

    any: str = ""
    float: str = ""
    double: str = ""
    half: str = ""
    integer: str = ""
    signed: str = ""
    unsigned: str = ""
    bool: str = ""

    def template(self, kind: str) -> str:
        """The template for a class of dtypes, "" where the op has none for it."""
        chain = {  # a half type never falls to `any`: it is computed in float32
            "float": (self.float,),
            "double": (self.double, self.float),
            "half": (self.half,),
            "signed": (self.signed, self.integer),
            "unsigned": (self.unsigned, self.integer),
            "bool": (self.bool,),
        }[kind]
        return next((text for text in chain if text), "" if kind == "half" else self.any)


def _operator(symbol: str, bool_symbol: str = "") -> OpText:
    text = f"{{0}} {symbol} {{1}}"
    return OpText(float=text, integer=text, bool=f"{{0}} {bool_symbol} {{1}}" if bool_symbol else "")


def _compare(symbol: str) -> OpText:
    text = f"{{0}} {symbol} {{1}}"
    return OpText(any=text)


def _same_everywhere(text: str) -> OpText:
    return OpText(any=text, half=text)


POINTWISE: dict[str, OpText] = {
    # Arithmetic. Integers wrap; quotients and remainders of integers round down as torch's do.
    "add": _operator("+", "|"),
    "sub": _operator("-"),
    "mul": _operator("*", "&"),
    "truediv": OpText(float="tl.div_rn({0}, {1})", double="{0} / {1}"),
    "floordiv": OpText(
        float="lib.floordiv_float({0}, {1})", signed="lib.floordiv_signed({0}, {1})", unsigned="{0} // {1}"
    ),
    "mod": OpText(float="lib.remainder_float({0}, {1})", signed="lib.remainder_signed({0}, {1})", unsigned="{0} % {1}"),
    "remainder": OpText(
        float="lib.remainder_float({0}, {1})", signed="lib.remainder_signed({0}, {1})", unsigned="{0} % {1}"
    ),
    "fmod": OpText(float="libdevice.fmod({0}, {1})", integer="{0} % {1}"),
    "pow": OpText(
        float="libdevice.pow({0}, {1})", signed="lib.pow_signed({0}, {1})", unsigned="lib.pow_unsigned({0}, {1})"
    ),
    "neg": OpText(float="{0} * -1.0", integer="-{0}"),  # Triton's `-x` is 0 - x, which loses the sign of zero
    "abs": OpText(float="tl.abs({0})", signed="tl.abs({0})", unsigned="{0}", bool="{0}"),
    "sign": OpText(float="lib.sign({0})", signed="lib.sign({0})", unsigned="({0} != 0).to({T})", bool="{0}"),
    "minimum": OpText(float="lib.minimum({0}, {1})", integer="tl.minimum({0}, {1})", bool="{0} & {1}"),
    "maximum": OpText(float="lib.maximum({0}, {1})", integer="tl.maximum({0}, {1})", bool="{0} | {1}"),
    "fma": OpText(float="tl.fma({0}, {1}, {2})", integer="{0} * {1} + {2}"),
    "relu": OpText(float="lib.relu({0})", signed="tl.maximum({0}, 0)", unsigned="{0}"),
    # Choice and comparison.
    "where": _same_everywhere("tl.where({0}, {1}, {2})"),
    "eq": _compare("=="),
    "ne": _compare("!="),
    "lt": _compare("<"),
    "le": _compare("<="),
    "gt": _compare(">"),
    "ge": _compare(">="),
    # Logic: nonzero is true.
    "logical_and": OpText(any="({0} != 0) & ({1} != 0)", bool="{0} & {1}"),
    "logical_or": OpText(any="({0} != 0) | ({1} != 0)", bool="{0} | {1}"),
    "logical_xor": OpText(any="({0} != 0) ^ ({1} != 0)", bool="{0} ^ {1}"),
    "logical_not": OpText(any="{0} == 0"),
    "bitwise_and": _operator("&", "&"),
    "bitwise_or": _operator("|", "|"),
    "bitwise_xor": _operator("^", "^"),
    "bitwise_not": OpText(signed="~{0}", unsigned="lib.bitwise_not({0})", bool="{0} == 0"),
    "shift_left": OpText(signed="lib.shift_left({0}, {1}, {bits})", unsigned="lib.shift_left({0}, {1}, {bits})"),
    "shift_right": OpText(
        signed="lib.shift_right_signed({0}, {1}, {bits})", unsigned="lib.shift_right({0}, {1}, {bits})"
    ),
    # Predicates and bits of floating-point numbers.
    "isnan": OpText(float="{0} != {0}", integer="{0} != {0}", bool="{0} != {0}"),
    "isinf": OpText(float="tl.abs({0}) == float('inf')", integer="{0} != {0}", bool="{0} != {0}"),
    "signbit": OpText(
        float="lib.signbit_float({0})",
        double="lib.signbit_double({0})",
        signed="{0} < 0",
        unsigned="{0} != {0}",
        bool="{0} != {0}",
    ),
    "copysign": OpText(float="libdevice.copysign({0}, {1})"),
    "nextafter": OpText(
        float="lib.nextafter({0}, {1}, tl.int32)",
        double="lib.nextafter({0}, {1}, tl.int64)",
        half="lib.nextafter({0}, {1}, tl.int16)",
    ),
}

KEEPS_BOOL = frozenset("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf signbit".split())


def cast_text(value: str, source: torch.dtype, target: torch.dtype) -> str:
    """Conversion of `value` as by `Tensor.to`: bool is `!= 0`; floats to uint8 and the like wrap as eager's do."""
    src, dst = DTYPES[source], DTYPES[target]
    if target is torch.bool:
        return f"{value}.to(tl.float32) != 0" if src.kind == "half" else f"{value} != 0"
    floating = src.kind in ("float", "double", "half")
    if floating and dst.kind == "unsigned":
        return f"{value}.to(tl.int64).to({dst.text})"
    if floating and dst.kind == "signed" and dst.bits < 32:
        return f"{value}.to(tl.int32).to({dst.text})"
    return f"{value}.to({dst.text})"
