"""Ops that the recorder treats by rules of their own, one function each; `RULES` maps the op to its rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import DataDependentError
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor, new_view
from triptych_aot_autograd.tracing.mutable_ops import HIDDEN_WRITES
from triptych_aot_autograd.tracing.storages import adopt_view, current_value
from triptych_aot_autograd.tracing.symbols import SYMBOLIC
from triptych_aot_autograd.tracing.views import ViewStep

if TYPE_CHECKING:
    from triptych_aot_autograd.tracing.recorder import Recorder

aten = torch.ops.aten


def assign(recorder: Recorder, func: Any, target: TracedTensor, value: TracedTensor) -> None:
    """Write a functional result into `target`, with eager's checks of size and dtype and its conversion."""
    facts = target._facts
    if len(value._facts.size) != len(facts.size) or any(
        a is not b and a != b for a, b in zip(value._facts.size, facts.size, strict=True)
    ):
        fresh = all(step.func is aten.detach.default for step in target._chain)
        if target.numel() == 0 and fresh and target._storage.input_index is None:
            _reshape_out(recorder, target, value)
            return
        raise RuntimeError(
            f"output with shape {list(facts.size)} doesn't match the broadcast shape {list(value._facts.size)}"
        )
    if value._facts.dtype != facts.dtype:
        if not torch.can_cast(value._facts.dtype, facts.dtype):
            raise RuntimeError(
                f"result type {_type_name(value._facts.dtype)} can't be cast to the desired output type "
                f"{_type_name(facts.dtype)}"
            )
        value = recorder(aten._to_copy.default, value, dtype=facts.dtype)
    recorder.write(target, value)


def _type_name(dtype: torch.dtype) -> str:
    names = {
        torch.float32: "Float",
        torch.float64: "Double",
        torch.float16: "Half",
        torch.int64: "Long",
        torch.int32: "Int",
    }
    return names.get(dtype, str(dtype).removeprefix("torch.").capitalize())


def _reshape_out(recorder: Recorder, target: TracedTensor, value: TracedTensor) -> None:
    """An empty `out=` tensor takes the result's size."""
    if value._facts.dtype != target._facts.dtype:
        value = recorder(aten._to_copy.default, value, dtype=target._facts.dtype)
    storage = target._storage
    storage.facts, storage.value = value._facts, value._value
    storage.generation += 1
    for tensor in (target, storage.base):
        compat.set_geometry(tensor, value)
        tensor._facts, tensor._value, tensor._generation = value._facts, value._value, storage.generation


def _detach(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """The same value under another tensor object: no node."""
    source = recorder.as_traced(args[0])
    facts = source._facts
    step = ViewStep(aten.detach.default, (), {}, facts, facts, torch.is_grad_enabled())
    view = adopt_view(new_view(facts, source), facts, source._value, source, step)
    view._generation = source._generation
    view._constant = source._constant
    return view


def _lift_fresh(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """A literal (`torch.tensor(3.0)`) enters the trace: a constant of the graph."""
    return recorder.as_traced(args[0])


def _copy(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """`copy_`: convert and broadcast the source, write it."""
    target, source = recorder.as_traced(args[0]), recorder.as_traced(args[1])
    value, facts = source, target._facts
    if value._facts.dtype != facts.dtype or value._facts.device != facts.device:
        value = recorder(aten._to_copy.default, value, dtype=facts.dtype, device=facts.device)
    if list(value._facts.size) != list(facts.size):
        value = recorder(aten.expand.default, value, list(facts.size))
    elif value is source and not value._storage.generation and not target._chain:
        value = recorder(aten.clone.default, value)
    recorder.write(target, value)
    return args[0]


def _fill(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """`zero_`, `fill_`: a new uniform value."""
    number = 0 if func is aten.zero_.default else args[1]
    recorder.write(recorder.as_traced(args[0]), recorder(aten.full_like.default, args[0], number))
    return args[0]


def _item(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """`item()`: the number of a literal; else a symbol of the shape environment, where it allows that."""
    tensor = recorder.as_traced(args[0])
    if tensor._constant is not None:
        return tensor._constant.item()
    foreseen = recorder.provenance.source_value
    if isinstance(foreseen, SYMBOLIC):  # the front end has a symbol for this number already
        node = recorder.graph.create_node("call_function", func, (current_value(tensor, recorder),), {})
        node.meta.update(recorder.provenance.origin(), phase="forward", facts=foreseen, val=foreseen)
        return recorder.wrap(foreseen, node)
    try:
        template, node = recorder.record(func, (tensor,), {})
    except RuntimeError as error:
        raise DataDependentError("the program asks a traced tensor for its number (item(), bool(), int())") from error
    return recorder.wrap(template, node)


def _hidden_write(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Batch norm: running statistics are written though the schema does not say so."""
    functional, written = HIDDEN_WRITES[func]
    training = args[5]
    if not training or any(args[i] is None for i in written):
        template, node = recorder.record(func, args, kwargs)
        return recorder.wrap(template, node)
    results = recorder.dispatch(functional, args, kwargs)
    for position, value in zip(written, results[-len(written) :], strict=True):
        assign(recorder, func, recorder.as_traced(args[position]), value)
    return tuple(results[: -len(written)])


def _lazy_bit(physical: Any) -> Any:
    """`_conj`, `_neg_view`: eager sets a bit on a view; here values are computed, the tensor stays a view."""

    def rule(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
        source = recorder.as_traced(args[0])
        template, node = recorder.record(physical, (source,), {})
        step = ViewStep(func, (), {}, source._facts, template, torch.is_grad_enabled())
        return adopt_view(new_view(template, source), template, node, source, step)

    return rule


def fold_literals(result: TracedTensor, func: Any, args: Any, kwargs: Any) -> None:
    """A number computed from literals alone is known too: remember it, for programs that ask for it."""
    facts = result._facts
    if facts.size != () or facts.device.type != "cpu" or compat.is_random(func):
        return
    if any(isinstance(v, (torch.Tensor, *SYMBOLIC)) for v in kwargs.values()):
        return
    known = [a._constant if isinstance(a, TracedTensor) else a for a in args]
    if all(isinstance(a, (int, float, torch.Tensor)) for a in known):
        with compat.below_autograd(), compat.no_autocast():
            result._constant = func(*known, **kwargs)


def _zeros(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """`_efficientzerotensor`: forward-mode differentiation's zeros without memory become zeros with memory."""
    return recorder(aten.full.default, args[0], 0, **kwargs)  # type: ignore[no-any-return]


def _device(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> torch.device:
    return args[0]._facts.device


def _resize(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> TracedTensor:
    """`resize_` to the size that the tensor has already changes nothing; anything else is refused."""
    size = args[1] if func is aten.resize_.default else args[1].size()
    if list(args[0].size()) == list(size):
        return args[0]
    return recorder._write(func, args, kwargs)


RULES: dict[Any, Any] = {
    torch.ops.prim.device.default: _device,
    aten.detach.default: _detach,
    aten.lift_fresh.default: _lift_fresh,
    aten.copy_.default: _copy,
    aten.zero_.default: _fill,
    aten.fill_.Scalar: _fill,
    aten._local_scalar_dense.default: _item,
    aten.native_batch_norm.default: _hidden_write,
    aten._native_batch_norm_legit.default: _hidden_write,
    aten._conj.default: _lazy_bit(aten.conj_physical.default),
    aten._neg_view.default: _lazy_bit(aten.neg.default),
    aten.resize_.default: _resize,
    aten._efficientzerotensor.default: _zeros,
    aten.resize_as_.default: _resize,
}

__all__ = ["RULES", "Facts", "assign"]
