"""`torch.func`: vmap, grad, vjp, jvp and what is made of them, traced through their Python code.

A transform works at a level of nesting. Levels are really entered while tracing, so that fake tensors are wrapped as
real ones would be, and entered again by nodes of the graph; what runs inside is recorded as it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _functorch
from torch._functorch import apis, eager_transforms, predispatch

from triptych_dynamo.polyfills import transforms as models
from triptych_dynamo.values import iterators
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.builtin_functions import builtin
from triptych_dynamo.values.common import constant_of, none
from triptych_dynamo.values.functions import wrap_function
from triptych_dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

# (how the Python code enters, how it leaves, the C functions behind both)
_LEVELS: tuple[tuple[Any, Any, Any, Any], ...] = (
    (
        predispatch._vmap_increment_nesting,
        predispatch._vmap_decrement_nesting,
        _functorch._vmap_increment_nesting,
        _functorch._vmap_decrement_nesting,
    ),
    (
        predispatch._jvp_increment_nesting,
        predispatch._jvp_decrement_nesting,
        _functorch._jvp_increment_nesting,
        _functorch._jvp_decrement_nesting,
    ),
    (
        _functorch._grad_increment_nesting,
        _functorch._grad_decrement_nesting,
        _functorch._grad_increment_nesting,
        _functorch._grad_decrement_nesting,
    ),
)
# Functions of tensors: (as the Python code calls them, the C function that becomes the node).
_TENSOR_FUNCTIONS: tuple[tuple[Any, Any], ...] = (
    (predispatch._add_batch_dim, _functorch._add_batch_dim),
    (predispatch._remove_batch_dim, _functorch._remove_batch_dim),
    (predispatch._unwrap_for_grad, _functorch._unwrap_for_grad),
    (_functorch._wrap_for_grad, _functorch._wrap_for_grad),
    (predispatch._make_dual, torch._VF._make_dual),
    (predispatch._unpack_dual, torch._VF._unpack_dual),
)


def _record(tx: Frame, function: Any, args: list[Any], result: Any) -> None:
    node = tx.trace.graph.graph.call_function(function, tuple(args))
    node.meta.update(val=result, effect=True, stack_trace=tx.trace.graph.stack_trace())


def _level(enter: Any, leave: Any, enter_c: Callable[..., int], leave_c: Callable[[], int]) -> None:
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

    builtin(enter)(entered)
    builtin(leave)(left)


for _row in _LEVELS:
    _level(*_row)


def _tensor_function(called: Any, function: Any) -> None:
    def call(tx: Frame, tensor: Value, *args: Value, **kwargs: Value) -> Value:
        return tx.call_graph(function, [tensor, *args], kwargs)

    builtin(called)(call)


for _called, _function in _TENSOR_FUNCTIONS:
    _tensor_function(_called, _function)


@builtin(predispatch._add_batch_dim)
def _add_batch_dim(tx: Frame, tensor: Value, dim: Value, level: Value) -> Value:
    """A negative dimension counts from the end."""
    position = constant_of(tx, dim, "a batch dimension")
    rank = constant_of(tx, tensor.get_attr(tx, "ndim"), "a rank")
    return tx.call_graph(_functorch._add_batch_dim, [tensor, position % rank, level])


@builtin(predispatch._enter_dual_level)
def _enter_dual_level(tx: Frame) -> Value:
    level = torch._C._enter_dual_level()
    tx.trace.undo.append((_exit_dual_level_of, level))
    _record(tx, torch._C._enter_dual_level, [], level)
    return tx.constant(level)


def _exit_dual_level_of(level: int) -> None:
    """Leave a level of forward-mode differentiation."""
    torch._C._exit_dual_level(level=level)


@builtin(predispatch._exit_dual_level)
def _exit_dual_level(tx: Frame, level: Value) -> Value:
    number = level.as_constant()
    _exit_dual_level_of(number)
    tx.trace.undo.remove((_exit_dual_level_of, number))
    node = tx.trace.graph.graph.call_function(torch._C._exit_dual_level, (), {"level": number})
    node.meta.update(val=None, effect=True, stack_trace=tx.trace.graph.stack_trace())
    return none(tx)


def _modelled(function: Any, model: Any) -> None:
    def call(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return tx.call(wrap_function(tx, model, None), list(args), kwargs)

    builtin(function)(call)


_modelled(eager_transforms._autograd_grad, models.autograd_grad)
_WRAPS = getattr(apis, "_wraps_without_dynamo_attrs", None)  # of newer releases
if _WRAPS is not None:
    _modelled(_WRAPS, models.wraps_plainly)


@builtin(predispatch.lazy_load_decompositions)
def _load_decompositions(tx: Frame) -> Value:
    """Registration of rules, done once a process: done now."""
    predispatch.lazy_load_decompositions()
    return none(tx)


@builtin(
    torch._C._autograd._saved_tensors_hooks_disable,
    torch._C._autograd._saved_tensors_hooks_enable,
    torch._C._autograd._saved_tensors_hooks_get_disabled_error_message,
)
def _saved_tensor_hooks(tx: Frame, *args: Value) -> Value:
    """The graph has no such hooks inside a transform."""
    return none(tx)


def outputs_of(tx: Frame, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[Value]:
    """The differentiated outputs of a call of `torch.autograd.grad`."""
    outputs = args[0] if args else kwargs["outputs"]
    return [outputs] if isinstance(outputs, TensorValue) else iterators.items_of(tx, outputs)


def _is_wrapped(value: Value) -> bool:
    """Whether a tensor belongs to a level of a transform, an ended one included."""
    return isinstance(value, TensorValue) and _functorch.is_functorch_wrapped_tensor(value.fake)


@builtin(torch.autograd.grad)
def _grad(tx: Frame, *args: Value, **kwargs: Value) -> Value:
    """A node of the graph inside a transform; elsewhere the gradients belong to the program around the graph."""
    if _functorch.maybe_current_level() is None and not any(_is_wrapped(item) for item in outputs_of(tx, args, kwargs)):
        return tx.unsupported("backward", "torch.autograd.grad")
    return tx.call_graph(torch.autograd.grad, list(args), kwargs)
