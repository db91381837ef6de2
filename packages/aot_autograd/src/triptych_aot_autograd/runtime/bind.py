"""`bind`: a run-time plan, the two compiled graphs and the original function become the compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.runtime.differentiable import make_differentiable
from triptych_aot_autograd.runtime.epilogue import make_epilogue
from triptych_aot_autograd.runtime.overlap import make_overlap_check
from triptych_aot_autograd.runtime.plan import RuntimePlan
from triptych_aot_autograd.runtime.results import make_results

Flat = Callable[[list[Any]], Any]  # takes a list of inputs (which it may empty), returns a list or tuple
Eager = Callable[[list[Any]], Any]  # the function itself: flat inputs to flat outputs


def bind(
    plan: RuntimePlan, forward: Callable[..., Any], backward: Flat | None = None, *, eager: Eager | None = None
) -> Callable[..., tuple]:
    """A callable `(*primals) -> tuple of flat outputs` that behaves like the traced function.

    forward: the compiled forward (or inference) graph; marked `_boxed_call` it takes one list, which it may empty.
    backward: takes a list of inputs; needed where the plan has gradients. eager: the function itself, flat inputs to
    flat outputs: for inputs that overlap in memory that it writes, and for gradients of gradients; without it these
    raise `UnsupportedOperationError` and `DoubleBackwardError`.
    """
    if plan.gradients:
        assert backward is not None, "a plan with gradients needs the backward graph"
        return _wrap(plan, make_differentiable(plan, boxed(forward), backward, eager), None, eager)
    return _wrap(plan, boxed(forward), starred(forward), eager)


def boxed(compiled: Callable[..., Any]) -> Flat:
    """The compiled graph as a function of a list of inputs, run below autograd and autocast."""
    keys, guard = compat.RUNTIME_EXCLUDED_KEYS, compat.exclude_keys

    def run_boxed(inputs: list[Any]) -> Any:
        with guard(keys):
            return compiled(inputs)

    def run(inputs: list[Any]) -> Any:
        with guard(keys):
            return compiled(*inputs)

    return run_boxed if getattr(compiled, "_boxed_call", False) else run


def starred(compiled: Callable[..., Any]) -> Callable[..., tuple]:
    """The compiled graph as a function of its inputs, run below autograd and autocast."""
    keys, guard = compat.RUNTIME_EXCLUDED_KEYS, compat.exclude_keys

    def run_boxed(*inputs: Any) -> tuple:
        with guard(keys):
            return tuple(compiled(list(inputs)))

    def run(*inputs: Any) -> tuple:
        with guard(keys):
            return tuple(compiled(*inputs))

    return run_boxed if getattr(compiled, "_boxed_call", False) else run


def _resolving(core: Flat, lazy: list[int]) -> Flat:
    """Give the graph the numbers of lazily conjugated or negated inputs."""

    def run(inputs: list[Any]) -> Any:
        for i in lazy:
            inputs[i] = inputs[i].resolve_conj().resolve_neg()
        return core(inputs)

    return run


def _wrap(
    plan: RuntimePlan, core: Flat, plain: Callable[..., tuple] | None, eager: Eager | None
) -> Callable[..., tuple]:
    """Add what happens around the graphs: overlap check, write-back, aliasing. `plain`: `core`, if nothing does."""
    lazy = [i for i, f in enumerate(plan.inputs) if f.lazy_bits]
    if lazy:
        core, plain = _resolving(core, lazy), None
    overlaps, epilogue, results = make_overlap_check(plan), make_epilogue(plan), make_results(plan)
    if overlaps is None and epilogue is None:
        if results is None:
            return plain or (lambda *primals: tuple(core(list(primals))))
        return lambda *primals: results(primals, core(list(primals)))

    def run(*primals: Any) -> tuple:
        if overlaps is not None and overlaps(primals):
            if eager is None:
                raise UnsupportedOperationError(
                    "inputs share memory that the program writes, and the program itself is not here to run instead: "
                    "pass copies of them"
                )
            return tuple(eager(list(primals)))
        values = core(list(primals))
        if epilogue is not None:
            epilogue(primals, values)
        return tuple(values) if results is None else results(primals, values)

    return run
