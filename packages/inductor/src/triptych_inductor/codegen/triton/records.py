"""What generation yields: Triton functions with their launch facts, and the program that launches them in order.

Everything here is plain data that goes to JSON and back, so that a warm start needs neither Triton nor the loop bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

Extent = Any  # int | sympy.Expr


@dataclass(frozen=True)
class Param:
    """One run-time parameter of a function. `type`: Triton's text ("*bf16", "i64"). `arg`: which program argument it
    takes.

    `multiple`: a number that the value is known to be divisible by (16 for pointers; checked at each launch), else 1.
    """

    name: str
    type: str
    arg: int
    multiple: int = 1


@dataclass(frozen=True)
class GridFactor:
    """`ceil(numel / block)`; `numel` is a postfix program over the size arguments (see `postfix`)."""

    numel: tuple[Any, ...]
    block: int


@dataclass(frozen=True)
class TritonFunction:
    """One `@triton.jit` function with fixed block sizes. `grid` factors are multiplied: programs are numbered in one
    axis."""

    name: str
    source: str
    params: tuple[Param, ...]
    constants: tuple[tuple[str, int], ...]
    grid: tuple[GridFactor, ...]
    num_warps: int
    num_stages: int
    checked: bool = False  # holds device assertions, which need debug compilation


@dataclass(frozen=True)
class Workspace:
    """Memory that a program needs between its functions: `numel` elements (postfix) of a dtype, named in the
    parameters."""

    name: str
    dtype: str
    numel: tuple[Any, ...]


@dataclass(frozen=True)
class TritonProgram:
    """The functions of one kernel. Arguments: buffers, then sizes, then workspaces, all by position."""

    name: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    workspaces: tuple[Workspace, ...]
    functions: tuple[TritonFunction, ...]
    notes: tuple[str, ...] = field(default=())

    suffix = ".py"  # of a file that holds `source`

    @property
    def source(self) -> str:
        """The module text of all functions, as a reader wants to see it."""
        notes = "".join(f"# {self.name}: {note}\n" for note in self.notes)
        return MODULE_HEADER + "\n\n" + notes + "\n" + "\n\n".join(f.source for f in self.functions)

    def to_json(self) -> dict[str, Any]:
        """Plain data for an artifact."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TritonProgram:
        """The program that `to_json` wrote."""
        return TritonProgram(
            data["name"],
            tuple(data["buffers"]),
            tuple(data["sizes"]),
            tuple(Workspace(w["name"], w["dtype"], tuple(w["numel"])) for w in data["workspaces"]),
            tuple(_function_from_json(f) for f in data["functions"]),
            tuple(data.get("notes", ())),
        )


def _function_from_json(data: dict[str, Any]) -> TritonFunction:
    return TritonFunction(
        data["name"],
        data["source"],
        tuple(Param(**p) for p in data["params"]),
        tuple((name, value) for name, value in data["constants"]),
        tuple(GridFactor(tuple(g["numel"]), g["block"]) for g in data["grid"]),
        data["num_warps"],
        data["num_stages"],
        data["checked"],
    )


MODULE_HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice
import triptych_device_library as lib"""


_BINARY = {"FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%", "Max": "max", "Min": "min"}


def postfix(expr: Extent, sizes: dict[str, int]) -> tuple[Any, ...]:
    """An extent as a postfix program: ints push themselves, ("size", k) pushes an argument, texts combine two entries.

    >>> postfix(6, {})
    (6,)
    """
    if isinstance(expr, int):
        return (expr,)
    if expr.is_Integer:
        return (int(expr),)
    if expr.is_Symbol:
        return (f"s{sizes[str(expr)]}",)
    if expr.is_Add or expr.is_Mul:
        return _fold(expr.args, "+" if expr.is_Add else "*", sizes)
    if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
        return _fold([expr.base] * int(expr.exp), "*", sizes)
    name = type(expr).__name__
    if name in _BINARY:
        return _fold(expr.args, _BINARY[name], sizes)
    raise TypeError(f"no launch arithmetic for the extent {expr}")


def _fold(args: Any, operator: str, sizes: dict[str, int]) -> tuple[Any, ...]:
    program = list(postfix(args[0], sizes))
    for other in args[1:]:
        program += [*postfix(other, sizes), operator]
    return tuple(program)


_APPLY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def evaluate(program: tuple[Any, ...], sizes: tuple[int, ...] | list[int]) -> int:
    """The value of a postfix program for given size arguments.

    >>> evaluate(("s0", 4, "*", 3, "+"), [5])
    23
    """
    stack: list[int] = []
    for step in program:
        if isinstance(step, int):
            stack.append(step)
        elif step in _APPLY:
            right = stack.pop()
            stack.append(_APPLY[step](stack.pop(), right))
        else:
            stack.append(sizes[int(step[1:])])
    return stack[0]


def grid_size(function: TritonFunction, sizes: tuple[int, ...] | list[int]) -> int:
    """How many programs one launch runs."""
    total = 1
    for factor in function.grid:
        total *= -(-evaluate(factor.numel, sizes) // factor.block)
    return total
