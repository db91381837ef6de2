"""Helpers of all lowering files: broadcasting, promotion, scalars, and the maker of pointwise tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from triptych_inductor.ir import extents, views
from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.tensors import Indices, LazyTensor, compute_dtype
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import FLOAT, HALF, OPS
from triptych_inductor.lowering.numbers import symbolic, truth

Scalar = Any  # bool | int | float | sympy.Expr
Operand = Any  # LazyTensor | Scalar


def is_scalar(value: Any) -> bool:
    """Whether an argument is a number (symbolic ones included)."""
    return isinstance(value, (bool, int, float, sympy.Expr, sympy.logic.boolalg.Boolean))


def scalar_kind(value: Scalar) -> torch.dtype:
    """The dtype torch would give a Python number: bool, int64 or the default float."""
    if isinstance(value, (bool, sympy.logic.boolalg.Boolean)) and not isinstance(value, sympy.Symbol):
        return torch.bool
    if isinstance(value, int) or (isinstance(value, sympy.Expr) and value.is_integer):
        return torch.int64
    return torch.get_default_dtype()


def _category(dtype: torch.dtype) -> int:
    return 0 if dtype is torch.bool else 1 if not dtype.is_floating_point else 2


def promote(*operands: Operand) -> torch.dtype:
    """The common dtype by torch's promotion: dimensioned tensors, then zero-dimensional ones, then numbers."""
    ranks: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        tensor = isinstance(operand, LazyTensor)
        rank = 2 if not tensor else 0 if operand.ndim else 1
        dtype = operand.dtype if tensor else scalar_kind(operand)
        known = ranks[rank]
        ranks[rank] = dtype if known is None else torch.promote_types(known, dtype)
    result: torch.dtype | None = None
    for dtype in ranks:
        if dtype is not None and (result is None or _category(dtype) > _category(result)):
            result = dtype
    assert result is not None
    return result


def constant(value: Scalar, dtype: torch.dtype) -> Value:
    """A number (symbolic: an expression over sizes) as a value of `dtype`."""
    if isinstance(value, sympy.Expr):
        return symbolic(value, dtype)
    if isinstance(value, sympy.logic.boolalg.Boolean) and not isinstance(value, sympy.logic.boolalg.BooleanAtom):
        return ops.cast(truth(value), dtype)
    if dtype in FLOAT:
        value = float(value)
    elif dtype is torch.bool:
        value = bool(value)
    else:
        value = int(value)
    return ops.constant(value, dtype)


def broadcast_size(*sizes: Sequence[Extent]) -> tuple[Extent, ...]:
    """The common size of broadcast operands."""
    ndim = max([len(s) for s in sizes], default=0)
    result: list[Extent] = [1] * ndim
    for size in sizes:
        for k, extent in enumerate(size):
            place = ndim - len(size) + k
            if result[place] == 1 or (type(result[place]) is not int and type(extent) is int and extent != 1):
                result[place] = extent
    return tuple(result)


def broadcast(*operands: Operand) -> tuple[Any, ...]:
    """Lazy tensors expanded to their common size; numbers and None as they are."""
    size = broadcast_size(*[o.size for o in operands if isinstance(o, LazyTensor)])
    return tuple([views.expand(o, size) if isinstance(o, LazyTensor) else o for o in operands])


def like(
    x: LazyTensor, recipe: Callable[[Indices], Value], dtype: torch.dtype, *parents: LazyTensor, weight: int = 1
) -> LazyTensor:
    """A tensor of the size of `x` from a recipe that gives `compute_dtype(dtype)`."""
    return LazyTensor(x.builder, x.size, dtype, x.device, recipe, parents=parents or (x,), weight=weight)


def load(operand: Operand, indices: Indices, dtype: torch.dtype) -> Value:
    """An operand's element (or the number) as a value of `dtype`."""
    if isinstance(operand, LazyTensor):
        return ops.cast(operand.at(indices), dtype)
    return constant(operand, dtype)


def pointwise(
    fn: Callable[..., Value],
    *operands: Operand,
    dtype: torch.dtype,
    compute: torch.dtype | None = None,
    weight: int = 1,
) -> LazyTensor:
    """`fn` of the operands' elements, all cast to `compute`; the result is a tensor of `dtype`.

    `compute` defaults to the compute dtype of the promoted operands.
    """
    spread = broadcast(*operands)
    working = compute or compute_dtype(promote(*operands))
    final = compute_dtype(dtype)
    tensors = [o for o in spread if isinstance(o, LazyTensor)]
    first = tensors[0]
    rounded = first.builder.exact and dtype in HALF

    def recipe(indices: Indices) -> Value:
        value = fn(*[load(o, indices, working) for o in spread])
        return ops.cast(ops.cast(value, dtype) if rounded else value, final)

    device = next((t.device for t in tensors if t.ndim and t.device.type != "cpu"), first.device)
    return LazyTensor(first.builder, first.size, dtype, device, recipe, parents=tensors, weight=weight)


def cost(name: str) -> int:
    """The price of a table op."""
    return OPS[name].cost if name in OPS else 1


def to_dtype(x: LazyTensor, dtype: torch.dtype) -> LazyTensor:
    """`x.to(dtype)`, rounding to a half type even where the value stays in a register."""
    if x.dtype is dtype:
        return x
    final = compute_dtype(dtype)

    def recipe(indices: Indices) -> Value:
        value = ops.cast(x.at(indices), dtype)
        return ops.cast(value, final)

    result = like(x, recipe, dtype)
    return result


def full(like_: LazyTensor, size: Sequence[Extent], value: Scalar, dtype: torch.dtype) -> LazyTensor:
    """A constant tensor on the device of `like_`."""
    return LazyTensor(
        like_.builder, size, dtype, like_.device, lambda i: constant(value, compute_dtype(dtype)), weight=0
    )


def normalise_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """Reduction dimensions as nonnegative, sorted, distinct ints; None or empty means all."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return tuple(range(ndim))
    if isinstance(dims, int):
        dims = [dims]
    return tuple(sorted({d % ndim if ndim else 0 for d in dims})) if ndim else ()


def reduce(kind: str, x: LazyTensor, dims: Sequence[int], dtype: torch.dtype, keepdim: bool = False) -> LazyTensor:
    """A single-result reduction in `dtype` (the accumulation dtype)."""
    return x.builder.reduction(kind, x, dims, dtype, keepdim)[0]


def numel_of(x: LazyTensor, dims: Sequence[int]) -> Extent:
    """Number of elements reduced over."""
    return extents.product([x.size[d] for d in dims])
