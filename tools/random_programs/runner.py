"""One random program, plain and compiled: the first difference as text."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import torch
import triptych_dynamo

from tools.random_programs.outcome import run
from tools.random_programs.writer import write_program


def compiler(backend: str) -> Callable[[Any], Any]:
    """What compiles a program's `main`."""
    if backend == "triptych":
        import triptych

        return lambda fn: triptych.compile(fn)
    return lambda fn: triptych_dynamo.optimize(backend)(fn)


def difference(seed: int, backend: str = "eager") -> str:
    """What the compiled program of `seed` does otherwise than the plain one; empty when nothing."""
    return difference_of(write_program(seed), backend, seed % 3 == 0)


def difference_of(text: str, backend: str, requires_grad: bool) -> str:
    """The same of a program's text."""
    torch.manual_seed(0)
    expected = run(text, lambda fn: fn, requires_grad)
    torch.manual_seed(0)
    try:
        got = run(text, compiler(backend), requires_grad)
    except Exception:
        return f"the compiler failed: {traceback.format_exc(limit=-4)}"
    for call, (one, other) in enumerate(zip(expected, got, strict=True)):
        for part in one:
            if one[part] != other[part]:
                return f"call {call}, {part}: {first_difference(one[part], other[part])}"
    return ""


def first_difference(expected: Any, got: Any, path: str = "") -> str:
    """Where two nests of plain data part."""
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            if one != other:
                return first_difference(one, other, f"{path}/{index}")
    return f"at {path or '/'}: plain {str(expected)[:300]}, compiled {str(got)[:300]}"
