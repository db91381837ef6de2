"""`Kernel`: what scheduling hands to a code generator, one record for each generated function.

Iteration space. A kernel has outer axes (independent points, parallel) and reduction axes. Both are extents (`int` or
sympy
integer expressions over size symbols). A `Stage` is one loop body over the outer axes and, when `reduced` is true,
over the
reduction axes as well. Stages run in order; a code generator may put neighbouring stages into one loop when no stage
of the
group reads the result of a reduction made in the same group.

Values that pass between stages of one kernel by register or local array use the names of `Kernel.local` (never
written to memory unless they are also in `outputs`).

A body is define-by-run: `body(outer_vars, reduction_vars)` calls functions of `triptych_inductor.loops.ops` on
whatever handler is
installed. The order of axes is the order of memory as far as scheduling could arrange it: the last axis is the best
one to
vectorise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Extent = Any  # int | sympy.Expr
Body = Callable[[Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class TensorArg:
    """A buffer that a kernel reads or writes: contiguous or strided memory of `dtype`, indexed in elements."""

    name: str
    dtype: torch.dtype
    numel: Extent  # elements reachable from the data pointer (storage extent), for 32/64-bit choices and bounds


@dataclass(frozen=True)
class LocalArg:
    """A value carried between stages: one scalar for each outer point (`per_point`), or one for each (outer,
    reduction) point."""

    name: str
    dtype: torch.dtype
    per_point: bool


@dataclass
class Stage:
    """One loop body. `reduced`: it runs over outer and reduction axes; else over the outer axes alone."""

    body: Body
    reduced: bool
    origin: tuple[str, ...] = ()  # the user's lines and the ops it came from, for comments and profiles


@dataclass
class Kernel:
    """One function to generate."""

    name: str  # "kernel_0"; equal kernels are renamed to one
    device: torch.device
    outer: tuple[Extent, ...]
    reduction: tuple[Extent, ...]
    stages: list[Stage]
    inputs: list[TensorArg]
    outputs: list[TensorArg]  # written; a buffer updated in place appears in `inputs` as well
    local: list[LocalArg] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)  # size symbols (sympy) passed as int64 arguments, in order
    typical: tuple[int, ...] = ()  # what the sizes were when the graph was compiled; for timing only
    description: str = ""
    # Column sums that run along, made only for generators that take them (`CodeGenerator.pairs`): a kernel over the
    # same points
    # whose outer axes are this kernel's reduction axes and the other way round, with arguments among this kernel's.
    columns: Kernel | None = None
