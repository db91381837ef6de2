"""Which accumulator type (`header/reductions.h`, `header/scans.h`) each kind of reduction or scan has, and its step."""

from __future__ import annotations

import torch

from triptych_inductor.codegen.cpp.types import TYPES
from triptych_inductor.loops.handlers import Value

_SIMPLE = {"prod": "Product", "max": "Maximum", "min": "Minimum", "xor": "Xor", "any": "Any", "all": "All"}
_ON_BOOL = {"max": "Any", "min": "All", "prod": "All", "any": "Any", "all": "All", "xor": "Xor"}


def accumulator_type(node: Value) -> str:
    """C++ type of the accumulator of a `reduce` value.

    >>> accumulator_type(sum_of_float32)
    'Sum<f32>'
    """
    kind, dtype = node.attrs[0], node.args[0].dtype
    assert dtype is not None
    ctype = TYPES[dtype]
    if kind in ("argmax", "argmin"):
        vector = "i32" if dtype is torch.bool else ctype.vector
        return f"Position<{vector}, {'true' if kind == 'argmax' else 'false'}>"
    if kind == "welford":
        return f"Welford<{ctype.vector}>"
    if kind == "sum":
        return f"{'Sum' if ctype.kind == 'float' else 'IntegerSum'}<{ctype.vector}>"
    if ctype.kind == "boolean":
        return f"{_ON_BOOL[kind]}<mask>"
    return f"{_SIMPLE[kind]}<{ctype.vector}>"


_RUNNING = {"sum": "RunningSum", "prod": "RunningProduct", "logaddexp": "RunningLogAddExp"}


def scan_type(node: Value) -> str:
    """C++ type of the state of a `scan` value."""
    kind, dtype = node.attrs
    vector = TYPES[dtype].vector
    if kind in _RUNNING:
        return f"{_RUNNING[kind]}<{vector}>"
    return f"RunningExtreme<{vector}, {'true' if kind == 'max' else 'false'}>"


def stepped(node: Value, text: str, position: str) -> str:
    """Arguments of `step`: the value, and where it stands for arg reductions (`position`: an i64 vector)."""
    if node.attrs[0] not in ("argmax", "argmin"):
        return text
    return f"{text} & 1, {position}" if node.args[0].dtype is torch.bool else f"{text}, {position}"


def needs_flush(node: Value) -> bool:
    """Whether long runs must be cut into blocks to stay accurate."""
    return accumulator_type(node).startswith(("Sum<", "Welford<"))


def needs_position(node: Value) -> bool:
    return node.attrs[0] in ("argmax", "argmin")


def result_text(node: Value, accumulator: str) -> str:
    """The result of a finished accumulator; of Welford the accumulator itself, from which `project` takes its parts."""
    if node.attrs[0] == "welford":
        return accumulator
    ctype = TYPES[node.dtype]  # type: ignore[index]
    text = f"{accumulator}.result()"
    return f"round_{ctype.half}({text})" if ctype.half else text
