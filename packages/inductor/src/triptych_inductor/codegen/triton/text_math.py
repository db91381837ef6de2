"""Triton text of roots, exponentials, trigonometric and special functions, and rounding.

Functions come from the vendor's maths library through `libdevice`, whose float32 results are within a few units in the
last place, as eager's are: Triton's own `tl.exp` and division trade accuracy for speed and are not used.
"""

from __future__ import annotations

from triptych_inductor.codegen.triton.text_pointwise import POINTWISE, OpText

_LIBDEVICE = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erfc "
    "erfinv lgamma rsqrt"
)

MATH: dict[str, OpText] = {
    **{name: OpText(float=f"libdevice.{name}({{0}})") for name in _LIBDEVICE.split()},
    "erf": OpText(float="lib.erf({0})", double="libdevice.erf({0})"),
    "sqrt": OpText(float="tl.sqrt_rn({0})", double="tl.sqrt({0})"),
    "reciprocal": OpText(float="tl.div_rn(1.0, {0})", double="1.0 / {0}"),
    "sigmoid": OpText(float="lib.sigmoid({0})", double="lib.sigmoid_double({0})"),
    "atan2": OpText(float="libdevice.atan2({0}, {1})"),
    "hypot": OpText(float="libdevice.hypot({0}, {1})"),
    "digamma": OpText(float="lib.digamma({0})"),
    "floor": OpText(float="libdevice.floor({0})", integer="{0}"),
    "ceil": OpText(float="libdevice.ceil({0})", integer="{0}"),
    "round": OpText(float="libdevice.rint({0})", integer="{0}"),
    "trunc": OpText(float="libdevice.trunc({0})", integer="{0}"),
    "frac": OpText(float="{0} - libdevice.trunc({0})"),
}

OP_TEXT: dict[str, OpText] = {**POINTWISE, **MATH}
"""Text of every pointwise op of the vocabulary, by name."""
