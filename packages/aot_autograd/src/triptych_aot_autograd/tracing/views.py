"""View ops: their single-output form, and how a changed view is written back into what it was taken from.

`single_output_step` names one view as (op, arguments after the source tensor), also where the op makes many at once
(`split`, `unbind`).
`INVERSES` has for each view op a function that gives the source with the view's elements replaced:
`inverse(emit, source, value, step)`, where `source()` gives the source's present value, `value` the view's new
elements and `emit`
records an op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor

aten = torch.ops.aten
Emit = Callable[..., Any]
Source = Callable[[], TracedTensor]


@dataclass(frozen=True, eq=False)
class ViewStep:
    """`result = func(source, *args, **kwargs)`, one link between a storage's base and a view of it."""

    func: Any
    args: tuple
    kwargs: dict[str, Any]
    source: Facts
    result: Facts
    grad_mode: bool  # whether gradients were recorded when the view was taken


def single_output_step(func: Any, args: tuple, index: int) -> tuple[Any, tuple]:
    """The op and the arguments after the source that give output `index` of a view op of many outputs."""
    rest = args[1:]
    if func is aten.unbind.int:
        return aten.select.int, (rest[0] if rest else 0, index)
    if func in (aten.split.Tensor, aten.chunk.default):
        dim = rest[1] if len(rest) > 1 else 0
        return aten.slice.Tensor, (dim, index * rest[0], (index + 1) * rest[0])
    if func is aten.split_with_sizes.default:
        dim = rest[1] if len(rest) > 1 else 0
        start = sum(rest[0][:index])
        return aten.slice.Tensor, (dim, start, start + rest[0][index])
    raise UnsupportedOperationError(f"{func}: a view op of many outputs without a row in single_output_step")


def _reshape(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    return emit(aten.reshape.default, value, list(step.source.size))


def _transpose(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    return emit(step.func, value, *step.args, **step.kwargs)


def _permute(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    dims = [d % len(step.source.size) for d in step.args[0]]
    back = sorted(range(len(dims)), key=dims.__getitem__)
    return emit(aten.permute.default, value, back)


def _scatter_as(func: Any) -> Callable[..., TracedTensor]:
    def inverse(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
        return emit(func, source(), value, *step.args, **step.kwargs)

    return inverse


def _as_strided(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    facts = step.result
    return emit(aten.as_strided_scatter.default, source(), value, list(facts.size), list(facts.stride), facts.offset)


def _dtype(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    return emit(aten.view.dtype, value, step.source.dtype)


def _identity(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    return value


def _apply(func: Any) -> Callable[..., TracedTensor]:
    return lambda emit, source, value, step: emit(func, value)


INVERSES: dict[Any, Callable[..., TracedTensor]] = {
    aten.view.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten._reshape_alias.default: _reshape,
    aten.unsqueeze.default: _reshape,
    aten.squeeze.default: _reshape,
    aten.squeeze.dim: _reshape,
    aten.squeeze.dims: _reshape,
    aten.view.dtype: _dtype,
    aten.t.default: _transpose,
    aten.transpose.int: _transpose,
    aten.permute.default: _permute,
    aten.select.int: _scatter_as(aten.select_scatter.default),
    aten.slice.Tensor: _scatter_as(aten.slice_scatter.default),
    aten.diagonal.default: _scatter_as(aten.diagonal_scatter.default),
    aten.as_strided.default: _as_strided,
    aten.unfold.default: _as_strided,
    aten.detach.default: _identity,
    aten.alias.default: _identity,
    aten.lift_fresh.default: _identity,
    aten.view_as_real.default: _apply(aten.view_as_complex.default),
    aten.view_as_complex.default: _apply(aten.view_as_real.default),
    aten._conj.default: _apply(aten.conj_physical.default),
    aten._neg_view.default: _apply(aten.neg.default),
}


def write_back(emit: Emit, source: Source, value: TracedTensor, step: ViewStep) -> TracedTensor:
    """`source()` with the elements that `step` views replaced by `value`; raises for a view op without an inverse."""
    inverse = INVERSES.get(step.func)
    if inverse is None:
        raise UnsupportedOperationError(f"an in-place change through a view made by {step.func} has no functional form")
    return inverse(emit, source, value, step)
