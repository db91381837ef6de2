"""The autograd side of a compiled function: one `torch.autograd.Function` over its forward and backward graphs.

Only inputs that need a gradient pass through autograd, and only outputs that have one; everything else goes beside
it in a `_Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.runtime.double_backward import DoubleBackward
from triptych_aot_autograd.runtime.plan import RuntimePlan, TangentForm
from triptych_aot_autograd.runtime.saved import Saved


class _Call:
    """One call: what goes beside autograd."""

    __slots__ = ("primals", "values")

    def __init__(self, primals: list[Any]) -> None:
        self.primals = primals
        self.values: Any = None


class Tangents:
    """Brings incoming gradients into the form the backward graph was traced for."""

    def __init__(self, forms: Sequence[TangentForm]) -> None:
        self._forms = [(f.stride, f.dtype, f.device, f.size, f.dtype.is_complex) for f in forms]
        self._orders = [f.order and (f.order, tuple(map(f.order.index, range(len(f.order))))) for f in forms]

    def prepare(self, grads: Sequence[torch.Tensor | None], sizes: Sequence[Any] | None) -> list[torch.Tensor]:
        """Zeros for missing gradients; copies of those whose strides differ from the traced ones."""
        ready = []
        for i, (grad, (stride, dtype, device, size, is_complex)) in enumerate(zip(grads, self._forms, strict=True)):
            if grad is None:
                grad = torch.zeros(sizes[i] if sizes is not None else size, dtype=dtype, device=device)
            if is_complex:
                grad = grad.resolve_conj()
            order = self._orders[i]
            if order:
                grad = grad.permute(order[0]).contiguous().permute(order[1])
            elif stride is None:
                grad = grad.contiguous()
            elif grad.stride() != stride:
                assert size is not None
                grad = torch.empty_strided(size, stride, dtype=dtype, device=device).copy_(grad)
            ready.append(grad)
        return ready


def make_differentiable(
    plan: RuntimePlan, forward: Callable[..., Any], backward: Callable[..., Any], eager: Callable[..., Any] | None
) -> Callable[[list[Any]], Any]:
    """A function of the list of primals giving the graph's results, with gradients."""
    grad_outputs = [i for i, d in enumerate(plan.results) if d.differentiable]
    count, saved_primals = len(plan.results), plan.saved_primals
    end_saved = count + plan.saved_tensors
    has_symbols = bool(plan.saved_symbols)
    symbolic = any(form.size is None for form in plan.tangents)
    grad_inputs, dependencies, keep_rng = plan.gradients, plan.dependencies, plan.random
    tangents = Tangents(plan.tangents)
    double, saved = DoubleBackward(plan, eager), Saved(len(saved_primals))

    def run_forward(ctx: Any, call: _Call, *grad_primals: torch.Tensor) -> Any:
        primals = call.primals
        ctx.set_materialize_grads(False)
        ctx.primals = tuple(primals)
        if keep_rng:
            ctx.rng = double.random_state()
        inputs = [primals[i] for i in saved_primals]
        values = forward(primals)
        saved.keep(ctx, inputs, values[count:end_saved], values[:count])
        if has_symbols:
            ctx.symbols = tuple(values[end_saved:])
        values = call.values = list(values[:count])
        outputs = tuple([values[i] for i in grad_outputs])
        if symbolic:
            ctx.sizes = [o.size() for o in outputs]
        return outputs

    def run_backward(ctx: Any, *given: Any) -> Any:
        grads: list[torch.Tensor | None] = given[0] if compat.BOXED_GRADS else list(given)
        del given
        missing = None in grads and frozenset(i for i, g in enumerate(grads) if g is None)
        if missing and len(missing) == len(grads):
            return (None,) * (len(grad_inputs) + 1)
        if torch.is_grad_enabled():
            return (None, *double.backward(ctx, grads))
        keep = compat.backward_keeps_graph()
        inputs = saved.take(ctx, keep)
        if has_symbols:
            inputs += ctx.symbols
        inputs += tangents.prepare(grads, ctx.sizes if symbolic else None)
        grads.clear()
        if not keep:
            ctx.primals = None
        results = backward(inputs)
        if missing:  # a gradient made of absent tangents only is absent, as in eager
            results = [None if d <= missing else r for r, d in zip(results, dependencies, strict=True)]
        return (None, *results)

    methods = {"forward": staticmethod(run_forward), "backward": staticmethod(run_backward)}
    kind = type("CompiledFunction", (torch.autograd.Function,), {**methods, "boxed_grads_call": compat.BOXED_GRADS})
    apply = compat.function_apply(kind)

    def run(primals: list[Any]) -> Any:
        call = _Call(primals)
        outputs = apply(call, *[primals[i] for i in grad_inputs])
        values = call.values
        for i, output in zip(grad_outputs, outputs, strict=True):
            values[i] = output
        return values

    return torch.enable_grad()(run) if plan.enables_grad else run
