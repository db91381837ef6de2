"""`torch.func`: vmap, grad, vjp, jvp and what is made of them, traced through their Python code.

A transform works at a level of nesting. Levels are really entered while tracing, so that fake tensors are wrapped as
real ones would be, and entered again by nodes of the graph; what runs inside is recorded as it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import (
    enter_dual_level,
    exit_dual_level,
    load_batching_rules,
    make_dual,
    transform_forms,
    transform_gradient,
    transform_wraps,
    unpack_dual,
)
from triptych_dynamo._torch_compat import transform_functions as functions
from triptych_dynamo.polyfills import transforms as models
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.functions import wrap_function
from triptych_dynamo.values.common import constant_of, none

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

# The kinds of levels: names of the functions that enter and leave one. Newer releases call these through wrappers.
_LEVELS: tuple[tuple[str, str], ...] = (
    ("_vmap_increment_nesting", "_vmap_decrement_nesting"),
    ("_jvp_increment_nesting", "_jvp_decrement_nesting"),
    ("_grad_increment_nesting", "_grad_decrement_nesting"),
)
# Functions of tensors, with the C function that becomes the node.
_TENSOR_FUNCTIONS: dict[str, Any] = {
    "_add_batch_dim": functions._add_batch_dim,
    "_remove_batch_dim": functions._remove_batch_dim,
    "_unwrap_for_grad": functions._unwrap_for_grad,
    "_wrap_for_grad": functions._wrap_for_grad,
    "_make_dual": make_dual,
    "_unpack_dual": unpack_dual,
}


def _record(tx: Frame, function: Any, args: list[Any], result: Any) -> None:
    node = tx.trace.graph.graph.call_function(function, tuple(args))
    node.meta.update(val=result, effect=True, stack_trace=tx.trace.graph.stack_trace())


def _level(enter_name: str, leave_name: str) -> None:
    enter_c: Callable[..., int] = getattr(functions, enter_name)
    leave_c: Callable[[], int] = getattr(functions, leave_name)

    def undo(_: Any) -> None:
        leave_c()

    def entered(tx: Frame, *args: Value) -> Value:
        plain = [constant_of(tx, arg, "an argument of a transform") for arg in args]
        level = enter_c(*plain)
        tx.trace.undo.append((undo, level))
        _record(tx, enter_c, plain, level)
        return tx.constant(level)

    def left(tx: Frame) -> Value:
        level = leave_c()
        tx.trace.undo.remove((undo, level))
        _record(tx, leave_c, [], level)
        return tx.constant(level)

    builtin(*transform_forms(enter_name, enter_c))(entered)
    builtin(*transform_forms(leave_name, leave_c))(left)


for _row in _LEVELS:
    _level(*_row)


def _tensor_function(name: str, function: Any) -> None:
    def call(tx: Frame, tensor: Value, *args: Value, **kwargs: Value) -> Value:
        return tx.call_graph(function, [tensor, *args], kwargs)

    builtin(*transform_forms(name, function))(call)


for _name, _function in _TENSOR_FUNCTIONS.items():
    _tensor_function(_name, _function)


@builtin(*transform_forms("_add_batch_dim", functions._add_batch_dim))
def _add_batch_dim(tx: Frame, tensor: Value, dim: Value, level: Value) -> Value:
    """A negative dimension counts from the end."""
    position = constant_of(tx, dim, "a batch dimension")
    rank = constant_of(tx, tensor.get_attr(tx, "ndim"), "a rank")
    return tx.call_graph(functions._add_batch_dim, [tensor, position % rank, level])


@builtin(*transform_forms("_enter_dual_level", enter_dual_level))
def _enter_dual_level(tx: Frame) -> Value:
    level = enter_dual_level()
    tx.trace.undo.append((_exit_dual_level_of, level))
    _record(tx, enter_dual_level, [], level)
    return tx.constant(level)


def _exit_dual_level_of(level: int) -> None:
    """Leave a level of forward-mode differentiation."""
    exit_dual_level(level=level)


@builtin(*transform_forms("_exit_dual_level", exit_dual_level))
def _exit_dual_level(tx: Frame, level: Value) -> Value:
    number = level.as_constant()
    _exit_dual_level_of(number)
    tx.trace.undo.remove((_exit_dual_level_of, number))
    node = tx.trace.graph.graph.call_function(exit_dual_level, (), {"level": number})
    node.meta.update(val=None, effect=True, stack_trace=tx.trace.graph.stack_trace())
    return none(tx)


def _modelled(function: Any, model: Any) -> None:
    def call(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return tx.call(wrap_function(tx, model, None), list(args), kwargs)

    builtin(function)(call)


_modelled(transform_gradient, models.autograd_grad)
if transform_wraps is not None:
    _modelled(transform_wraps, models.wraps_plainly)


_modelled(torch.func.functionalize, models.functionalize)


@builtin(torch.func.linearize)
def _linearize(tx: Frame, func: Value, *primals: Value) -> Value:
    """The model does not call the function as often as torch does: it must leave the program's objects alone."""
    changes = tx.effects.count
    result = tx.call(wrap_function(tx, models.linearize, None), [func, *primals], {})
    if tx.effects.count != changes:
        return tx.unsupported("higher-order", "torch.func.linearize of a function with side effects")
    return result


def _load_decompositions(tx: Frame) -> Value:
    """Registration of rules, done once a process: done now."""
    load_batching_rules()
    return none(tx)


builtin(load_batching_rules)(_load_decompositions)
