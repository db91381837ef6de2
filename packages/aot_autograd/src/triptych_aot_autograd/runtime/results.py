"""Results: the function's outputs from the graph's values, with the aliasing that eager's outputs have.

Views of inputs are taken anew from the real inputs, and views that share memory are taken from one real base, by
replaying the ops that made them; so `data_ptr`, `_base`, gradients and later in-place changes are eager's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.facts import OutputFacts, Step, SymbolRef

if TYPE_CHECKING:
    from triptych_aot_autograd.runtime.plan import RuntimePlan


def bind_step(step: Step) -> Callable[[Any, Sequence[Any]], Any]:
    """The step as a function of the tensor and the values of the graph's symbols."""
    func, args, kwargs = step.func, step.args, step.kwargs
    if not _has_symbols((args, kwargs)):
        return lambda tensor, symbols: func(tensor, *args, **kwargs)
    return lambda tensor, symbols: func(tensor, *_fill(args, symbols), **_fill(kwargs, symbols))


def _has_symbols(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, SymbolRef) or (isinstance(value, (list, tuple)) and any(map(_has_symbols, value)))


def _fill(value: Any, symbols: Sequence[Any]) -> Any:
    if isinstance(value, SymbolRef):
        return symbols[value.index]
    if isinstance(value, (list, tuple)):
        return type(value)([_fill(v, symbols) for v in value])
    if isinstance(value, dict):
        return {k: _fill(v, symbols) for k, v in value.items()}
    return value


def _replay(steps: Sequence[Step]) -> Callable[[Any, Sequence[Any]], Any]:
    bound = [(s.grad_mode, bind_step(s)) for s in steps]

    def replay(tensor: Any, symbols: Sequence[Any]) -> Any:
        ambient = torch.is_grad_enabled()
        for grad_mode, step in bound:
            if grad_mode == ambient:
                tensor = step(tensor, symbols)
            else:
                with torch.set_grad_enabled(grad_mode):
                    tensor = step(tensor, symbols)
        return tensor

    return replay


def make_results(plan: RuntimePlan) -> Callable[[Sequence[Any], Sequence[Any]], tuple] | None:
    """A function of the primals and the graph's values that gives the flat outputs; None: the values are they."""
    if [(o.kind, o.index) for o in plan.outputs] == [("value", i) for i in range(len(plan.results))]:
        return None
    first_symbol = plan.first_symbol
    places, roots = len(plan.outputs), 1 + max(o.root for o in plan.outputs)
    makers = [_maker(o, places + o.root) for o in plan.outputs]

    def make(primals: Sequence[Any], values: Sequence[Any]) -> tuple:
        symbols = values[first_symbol:]
        made: list[Any] = [None] * (places + roots)
        for place, maker in enumerate(makers):
            made[place] = maker(primals, values, symbols, made)
        return tuple(made[:places])

    return make


def _maker(output: OutputFacts, root: int) -> Callable[[Any, Any, Any, Any], Any]:
    index, constant = output.index, output.constant
    if output.kind == "value":
        return lambda primals, values, symbols, made: values[index]
    if output.kind == "input":
        return lambda primals, values, symbols, made: primals[index]
    if output.kind == "same":
        return lambda primals, values, symbols, made: made[index]
    if output.kind == "constant":
        return lambda primals, values, symbols, made: constant
    of_input, gradient = output.kind == "view_of_input", output.gradient
    if output.root >= 0:
        return _maker_by_root(output, root)
    replay = _replay(output.steps)
    if gradient >= 0:
        return lambda primals, values, symbols, made: _with_gradient_of(
            values[gradient], replay((primals if of_input else values)[index].detach(), symbols)
        )
    if of_input:
        return lambda primals, values, symbols, made: replay(primals[index], symbols)
    return lambda primals, values, symbols, made: replay(values[index], symbols)


def _maker_by_root(output: OutputFacts, root: int) -> Callable[[Any, Any, Any, Any], Any]:
    """As `_maker`; the tensor behind the first steps is made once and kept at place `root` of what is made."""
    index, gradient, of_input = output.index, output.gradient, output.kind == "view_of_input"
    to_root, from_root = _replay(output.steps[: output.root_steps]), _replay(output.steps[output.root_steps :])

    def make(primals: Any, values: Any, symbols: Any, made: Any) -> Any:
        if made[root] is None:
            made[root] = to_root((primals if of_input else values)[index], symbols)
            if gradient >= 0:
                _write_again(made[root], values[gradient])
        return from_root(made[root], symbols)

    return make


def _write_again(root: torch.Tensor, value: torch.Tensor) -> None:
    """Give the root, which holds `value`'s elements already, the history of having been written to with them."""
    if value.requires_grad:
        with compat.preserved_version(root), torch.enable_grad():
            root.copy_(value)


class _GradientOf(torch.autograd.Function):
    """The second tensor, whose gradient goes to the first."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        return view

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def _with_gradient_of(value: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    if not value.requires_grad:
        return view
    return _GradientOf.apply(value, view)  # type: ignore[no-any-return, no-untyped-call]
