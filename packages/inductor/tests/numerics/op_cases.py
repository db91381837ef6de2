"""Eager meanings of the pointwise ops, the values they are tried on, and one compiled kernel for each op and dtype."""

from __future__ import annotations

import functools
import math

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


def case_name(name: str, dtype: torch.dtype) -> str:
    return f"{name}_{str(dtype).removeprefix('torch.')}"


def op_kernel(name: str, dtype: torch.dtype) -> Kernel:
    """out[i] = op(a[i], b[i], ..) for i < n, n symbolic."""
    import sympy

    n = sympy.Symbol("n", integer=True, positive=True)
    row = OPS[name]
    names = [f"in{k}" for k in range(row.arity)]
    out = torch.bool if row.result == "bool" else dtype

    def body(i, r):
        ops.store("out", i[0], getattr(ops, name)(*[ops.load(a, i[0]) for a in names]))

    inputs = [TensorArg(a, dtype, n) for a in names]
    return Kernel(case_name(name, dtype), CPU, (n,), (), [Stage(body, False)], inputs, [TensorArg("out", out, n)], [], [n])


def special_floats(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    tiny = info.smallest_normal
    return [
        0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 0.25, 3.0, -3.0, 1.5, -1.5, 2.5, -2.5, 0.1, -0.1, 7.25, -7.25, 10.0, -10.0,
        math.inf, -math.inf, math.nan, info.max, info.min, tiny, -tiny, tiny / 4, -tiny / 4, info.eps, -info.eps, 1 + info.eps,
        1 - info.eps, 88.0, -88.0, 88.8, -103.0, 127.0, -149.0, 1e-3, -1e-3, 1e4, -1e4, 0.625, 0.93, 5000.0, 1e-20, math.pi, math.e,
    ]  # fmt: skip


def special_integers(dtype: torch.dtype) -> list[int]:
    info = torch.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 7, 8, 31, 63, 100, info.max, info.max - 1, info.min, info.min + 1, -1, -2, -3, -7, -8, -100]
    return [v for v in values if info.min <= v <= info.max]


@functools.cache
def specials(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        values = torch.tensor(special_floats(dtype), dtype=torch.float64)
        return values.to(dtype)
    return torch.tensor(special_integers(dtype), dtype=dtype)


def operands(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """All combinations of special values, then random ones. Zero divisors of integers are left out (they raise)."""
    row = OPS[name]
    grids = torch.meshgrid(*[specials(dtype)] * min(row.arity, 2), indexing="ij")
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
    if row.arity == 3:
        tensors.append(tensors[0].flip(0).clone())
    if row.can_fail and not dtype.is_floating_point:
        tensors[1][tensors[1] == 0] = 1
    return tensors
