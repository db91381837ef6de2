"""The autograd side of a compiled function: one `torch.autograd.Function` over its forward and backward graphs.

Only inputs that need a gradient pass through autograd, and only outputs that have one; everything else goes beside
it in a `_Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.double_backward import DoubleBackward

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph


class _Call:
    """One call: what goes beside autograd."""

    __slots__ = ("primals", "values")

    def __init__(self, primals: list[Any]) -> None:
        self.primals = primals
        self.values: Any = None


class Tangents:
    """Brings incoming gradients into the form the backward graph was traced for."""

    def __init__(self, examples: Sequence[torch.Tensor]) -> None:
        self._expected: list[
            tuple[tuple[int, ...] | None, torch.dtype, torch.device, tuple[int, ...] | None, bool]
        ] = []
        for example in examples:
            static = all(type(n) is int for n in (*example.size(), *example.stride()))
            stride = tuple(example.stride()) if static else None
            size = tuple(example.size()) if static else None
            self._expected.append((stride, example.dtype, example.device, size, example.dtype.is_complex))

    def prepare(self, grads: Sequence[torch.Tensor | None], sizes: Sequence[Any] | None) -> list[torch.Tensor]:
        """Zeros for missing gradients; copies of those whose strides differ from the traced ones."""
        ready = []
        for i, (grad, (stride, dtype, device, size, is_complex)) in enumerate(zip(grads, self._expected, strict=True)):
            if grad is None:
                grad = torch.zeros(sizes[i] if sizes is not None else size, dtype=dtype, device=device)
            if is_complex:
                grad = grad.resolve_conj()
            if stride is None:
                grad = grad.contiguous()
            elif grad.stride() != stride:
                assert size is not None
                grad = torch.empty_strided(size, stride, dtype=dtype, device=device).copy_(grad)
            ready.append(grad)
        return ready


def make_differentiable(
    joint: JointGraph, partition: Partition, forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[[list[Any]], Any]:
    """A function of the list of primals giving the graph's results, with gradients."""
    results = joint.of_kind("output", "base", "mutation", "symbol")
    grad_outputs = [i for i, (_, d) in enumerate(results) if d.differentiable]
    count, saved_primals = partition.num_outputs, tuple(partition.saved_primals)
    end_saved = count + len(partition.saved_tensors)
    has_symbols = bool(partition.saved_symbols)
    symbolic = any(not isinstance(n, int) for t in joint.tangents for n in t.meta["val"].size())
    grad_inputs = tuple(partition.gradients)
    tangents = Tangents([t.meta["val"] for t in joint.tangents])
    double = DoubleBackward(joint, grad_inputs)
    dependencies = partition.dependencies
    keep_rng = joint.facts.random

    def run_forward(ctx: Any, call: _Call, *grad_primals: torch.Tensor) -> Any:
        primals = call.primals
        ctx.set_materialize_grads(False)
        ctx.primals = tuple(primals)
        if keep_rng:
            ctx.rng = double.random_state()
        saved = [primals[i] for i in saved_primals]
        values = forward(primals)
        ctx.save_for_backward(*saved, *values[count:end_saved])
        if has_symbols:
            ctx.symbols = tuple(values[end_saved:])
        values = call.values = list(values[:count])
        outputs = tuple([values[i] for i in grad_outputs])
        if symbolic:
            ctx.sizes = [o.size() for o in outputs]
        return outputs

    def run_backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        missing = None in grads and frozenset(i for i, g in enumerate(grads) if g is None)
        if missing and len(missing) == len(grads):
            return (None,) * (len(grad_inputs) + 1)
        if torch.is_grad_enabled():
            return (None, *double.backward(ctx, grads))
        inputs = list(ctx.saved_tensors)
        if has_symbols:
            inputs += ctx.symbols
        inputs += tangents.prepare(grads, ctx.sizes if symbolic else None)
        if not compat.backward_keeps_graph():
            ctx.primals = None
        results = backward(inputs)
        if missing:  # a gradient made of absent tangents only is absent, as in eager
            results = [None if d <= missing else r for r, d in zip(results, dependencies, strict=True)]
        return (None, *results)

    apply = compat.function_apply(
        type(
            "CompiledFunction",
            (torch.autograd.Function,),
            {"forward": staticmethod(run_forward), "backward": staticmethod(run_backward)},
        )
    )

    def run(primals: list[Any]) -> Any:
        call = _Call(primals)
        outputs = apply(call, *[primals[i] for i in grad_inputs])
        values = call.values
        for i, output in zip(grad_outputs, outputs, strict=True):
            values[i] = output
        return values

    return run
