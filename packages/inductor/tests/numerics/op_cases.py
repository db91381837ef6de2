"""Eager meanings of the pointwise ops, the values they are tried on, and kernels that evaluate all ops of a dtype."""

from __future__ import annotations

import functools
import math

import sympy
import torch
from triptych_inductor.codegen.cpp.types import TYPES
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, Stage, TensorArg
from triptych_inductor.loops.table import OPS

CPU = torch.device("cpu")
DTYPES = tuple(TYPES)

REFERENCE = {
    "truediv": torch.true_divide,
    "floordiv": torch.floor_divide,
    "mod": torch.remainder,
    "relu": torch.relu,
    "fma": lambda a, b, c: a * b + c,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "pow": torch.pow,
}


def reference(name: str):
    """The eager function of an op."""
    return REFERENCE.get(name) or getattr(torch, name, None) or getattr(torch.special, name)


def cases() -> list[tuple[str, torch.dtype]]:
    """Every (op, dtype) of the table that has a C++ form."""
    return [(name, dtype) for name, row in OPS.items() for dtype in DTYPES if dtype in row.dtypes]


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def ops_of(dtype: torch.dtype, arity: int) -> list[str]:
    """The ops of an arity that are defined for a dtype."""
    return [name for name, row in OPS.items() if row.arity == arity and dtype in row.dtypes]


def result_type(name: str, dtype: torch.dtype) -> torch.dtype:
    return torch.bool if OPS[name].result == "bool" else dtype


def ops_kernel(dtype: torch.dtype, arity: int) -> Kernel:
    """out_<op>[i] = op(in0[i], in1[i], ..) for i < n and every op of the arity, n symbolic."""
    n = sympy.Symbol("n", integer=True, positive=True)
    names = [f"in{k}" for k in range(arity)]
    chosen = ops_of(dtype, arity)

    def body(i, r):
        for name in chosen:
            ops.store(f"out_{name}", i[0], getattr(ops, name)(*[ops.load(a, i[0]) for a in names]))

    inputs = [TensorArg(a, dtype, n) for a in names]
    outputs = [TensorArg(f"out_{name}", result_type(name, dtype), n) for name in chosen]
    return Kernel(f"ops{arity}_{short(dtype)}", CPU, (n,), (), [Stage(body, False)], inputs, outputs, [], [n])


def special_floats(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    tiny = info.smallest_normal
    return [
        0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 0.25, 3.0, -3.0, 1.5, -1.5, 2.5, -2.5, 0.1, -0.1, 7.25, -7.25,
        10.0, -10.0, math.inf, -math.inf, math.nan, info.max, info.min, tiny, -tiny, tiny / 4, -tiny / 4, info.eps,
        -info.eps, 1 + info.eps, 1 - info.eps, 88.0, -88.0, 88.8, -103.0, 127.0, -149.0, 1e-3, -1e-3, 1e4, -1e4,
        0.625, 0.93, 5000.0, 1e-20, math.pi, math.e,
    ]  # fmt: skip


def special_integers(dtype: torch.dtype) -> list[int]:
    info = torch.iinfo(dtype)
    values = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        31,
        63,
        100,
        info.max,
        info.max - 1,
        info.min,
        info.min + 1,
        -1,
        -2,
        -3,
        -7,
        -8,
        -100,
    ]
    return [v for v in values if info.min <= v <= info.max]


@functools.cache
def specials(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        values = torch.tensor(special_floats(dtype), dtype=torch.float64)
        return values.to(dtype)
    return torch.tensor(special_integers(dtype), dtype=dtype)


@functools.cache
def operands(dtype: torch.dtype, arity: int) -> tuple[torch.Tensor, ...]:
    """All pairs of special values, then random ones. Zero divisors of integers are left out (they raise)."""
    grids = torch.meshgrid(*[specials(dtype)] * min(arity, 2), indexing="ij")
    generator = torch.Generator().manual_seed(1)
    tensors = []
    for grid in grids:
        if dtype is torch.bool:
            noise = torch.rand(999, generator=generator) < 0.5
        elif dtype.is_floating_point:
            noise = (torch.randn(999, generator=generator, dtype=torch.float64) * 4).to(dtype)
        else:
            info = torch.iinfo(dtype)
            noise = torch.randint(max(info.min, -(2**40)), min(info.max, 2**40), (999,), generator=generator).to(dtype)
        tensors.append(torch.cat([grid.reshape(-1), noise]))
    if arity == 3:
        tensors.append(tensors[0].flip(0).clone())
    if arity == 2 and not dtype.is_floating_point and dtype is not torch.bool:
        tensors[1][tensors[1] == 0] = 1
    return tuple(tensors)
