"""Gradients of gradients: where a backward is itself to be differentiated, the function is run again as it is.

The rerun starts from the call's own inputs, under the autocast state of the trace and the random state of the call,
so its
graph is the one that eager would have kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych_aot_autograd.errors import DoubleBackwardError
from triptych_aot_autograd.runtime.plan import RuntimePlan


class DoubleBackward:
    """Differentiable backward of one compiled function."""

    def __init__(self, plan: RuntimePlan, eager: Callable[..., Any] | None) -> None:
        self.plan = plan
        self.eager = eager

    def random_state(self) -> tuple[Any, Any]:
        """The generators' states, to repeat the draws of a call."""
        return torch.get_rng_state(), torch.cuda.get_rng_state_all() if self.plan.cuda else None

    def backward(self, ctx: Any, grads: Sequence[torch.Tensor | None]) -> list[Any]:
        """Gradients for the inputs `plan.gradients`, with a graph of their own. Raises `DoubleBackwardError`."""
        self._check(ctx)
        primals = list(ctx.primals)
        for i in self.plan.gradients:  # an input may follow from another: only this call's part is wanted
            primals[i] = primals[i].view_as(primals[i])
        wanted = [primals[i] for i in self.plan.gradients]
        with torch.random.fork_rng(enabled=self.plan.random), self._forward_state(ctx):
            outputs = self.eager(primals)  # type: ignore[misc]
        pairs = [(o, g) for o, g in zip(self._differentiable(outputs), grads, strict=True) if g is not None]
        found = torch.autograd.grad(
            [o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=True
        )
        return list(found)

    def _check(self, ctx: Any) -> None:
        hint = "run this region without compilation to differentiate it twice"
        if self.eager is None:
            raise DoubleBackwardError(f"this graph does not know the function it was traced from; {hint}")
        if self.plan.changes_inputs:
            raise DoubleBackwardError(f"the region overwrites its inputs, so it cannot be run again; {hint}")
        if ctx.primals is None:
            raise DoubleBackwardError(
                "the inputs of this region were freed by an earlier backward: pass retain_graph=True to it"
            )

    @contextlib.contextmanager
    def _forward_state(self, ctx: Any) -> Any:
        if self.plan.random:
            cpu, cuda = ctx.rng
            torch.set_rng_state(cpu)
            if cuda is not None:
                torch.cuda.set_rng_state_all(cuda)
        with self.plan.autocast.entered():
            yield

    def _differentiable(self, outputs: Sequence[Any]) -> list[torch.Tensor]:
        found = []
        for desc in self.plan.results:
            if not desc.differentiable:
                continue
            out = outputs[desc.index]
            if desc.kind == "base":
                out = self._base(outputs, desc.index)
            elif self.plan.outputs[desc.index].root >= 0 and out._base is not None:
                out = out._base
            found.append(out)
        return found

    def _base(self, outputs: Sequence[Any], position: int) -> torch.Tensor:
        """The memory that output `position` and others show: an output that is not a view of it, or the views' base.

        Where all of them are detached (they are, or are views of, a root of their own), no gradient comes for it.
        """
        facts = self.plan.outputs
        group = [i for i, f in enumerate(facts) if f.kind == "view_of_value" and f.index == facts[position].index]
        for i in group:
            if not facts[i].steps:
                return outputs[i]
        attached = (outputs[i]._base for i in group if facts[i].root < 0 and outputs[i]._base is not None)
        return next(attached, outputs[position])
