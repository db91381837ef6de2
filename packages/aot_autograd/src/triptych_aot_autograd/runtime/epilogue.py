"""Epilogue: after the graph ran, inputs are left as the function would have left them.

The graph itself has overwritten inputs whose change autograd does not record. Here follow: metadata changes (`t_`), new
values that autograd has to know of (`copy_` on the real tensor, which may be a view), and version counters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd.runtime.results import bind_step

if TYPE_CHECKING:
    from triptych_aot_autograd.runtime.plan import RuntimePlan

Action = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None]  # primals, values, symbols


def make_epilogue(plan: RuntimePlan) -> Callable[[Sequence[Any], Sequence[Any]], None] | None:
    """A function of the primals and the graph's values; None where no input changes."""
    first_symbol = plan.first_symbol
    new_values = {d.index: i for i, d in enumerate(plan.results) if d.kind == "mutation"}
    actions: list[Action] = []
    for index, facts in enumerate(plan.inputs):
        for step in facts.metadata_steps:
            actions.append(_metadata(index, bind_step(step)))
        if index in new_values:
            actions.append(_write_back(index, new_values[index]))
        bumps = facts.version_bumps - len(facts.metadata_steps) - (1 if index in new_values else 0)
        if bumps > 0 and facts.mutated:
            actions.append(_bump(index, bumps))
    if not actions:
        return None

    def epilogue(primals: Sequence[Any], values: Sequence[Any]) -> None:
        symbols = values[first_symbol:]
        for action in actions:
            action(primals, values, symbols)

    return epilogue


def _metadata(index: int, step: Callable[[Any, Sequence[Any]], Any]) -> Action:
    def action(primals: Sequence[Any], values: Sequence[Any], symbols: Sequence[Any]) -> None:
        step(primals[index], symbols)

    return action


def _write_back(index: int, value: int) -> Action:
    def action(primals: Sequence[Any], values: Sequence[Any], symbols: Sequence[Any]) -> None:
        primals[index].copy_(values[value])

    return action


def _bump(index: int, count: int) -> Action:
    def action(primals: Sequence[Any], values: Sequence[Any], symbols: Sequence[Any]) -> None:
        tensor = primals[index]
        if not tensor.is_inference():
            for _ in range(count):
                torch.autograd.graph.increment_version(tensor)

    return action
