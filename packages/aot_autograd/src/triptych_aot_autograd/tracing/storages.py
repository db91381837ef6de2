"""Functionalisation: what every traced storage holds, and which views of it have to be taken anew.

Ops that write are recorded as their functional partners while the trace runs (one pass over the ops, no second
graph). Each storage
keeps the node of its base's present value and a generation that grows with each write. A tensor knows the generation
that its own node belongs to; a reader that finds it behind has the view chain replayed on the base's present value.

In: traced tensors and the values to be written. Out: nodes recorded through `emit`; `print(storage)` shows one storage.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor, hashable_size
from triptych_aot_autograd.tracing.views import Emit, ViewStep, write_back

aten = torch.ops.aten


class TracedStorage:
    """One piece of memory of the traced program."""

    __slots__ = ("base", "facts", "value", "generation", "input_index", "metadata_steps", "mutated_under_grad")

    def __init__(self, base: TracedTensor, value: Node, input_index: int | None = None) -> None:
        self.base = base  # the first tensor that had this storage
        self.facts: Facts = base._facts  # its metadata at that time: view chains start from these
        self.value = value  # the base's present value
        self.generation = 0
        self.input_index = input_index  # which input of the function it belongs to
        self.metadata_steps: list[tuple[Any, tuple, dict[str, Any]]] = []  # t_(), unsqueeze_() ... done to the base

    def __repr__(self) -> str:
        owner = "intermediate" if self.input_index is None else f"input {self.input_index}"
        return f"TracedStorage({owner}, value={self.value}, generation={self.generation}, {self.facts})"


def adopt(tensor: TracedTensor, facts: Facts, node: Node, input_index: int | None = None) -> TracedTensor:
    """Give `tensor` a storage of its own, with `node` as its value."""
    tensor._facts = facts
    tensor._value = node
    tensor._generation = 0
    tensor._chain = ()
    tensor._constant = None
    tensor._storage = TracedStorage(tensor, node, input_index)
    return tensor


def adopt_view(tensor: TracedTensor, facts: Facts, node: Node, source: TracedTensor, step: ViewStep) -> TracedTensor:
    """Make `tensor` a view of `source`, one step further."""
    tensor._facts = facts
    tensor._value = node
    tensor._storage = source._storage
    tensor._generation = source._storage.generation
    tensor._chain = (*source._chain, step)
    tensor._constant = None
    return tensor


def current_value(tensor: TracedTensor, emit: Emit) -> Node:
    """The node that holds the tensor's present value; replays its views when its storage has been written since."""
    storage = tensor._storage
    if tensor._generation != storage.generation:
        tensor._value = _replay(storage, tensor._chain, emit)._value
        tensor._generation = storage.generation
    return tensor._value


def _handle(facts: Facts, node: Node, make: Any) -> TracedTensor:
    return adopt(make(facts), facts, node)


def _replay(storage: TracedStorage, chain: tuple[ViewStep, ...], emit: Emit) -> TracedTensor:
    tensor = emit.handle(storage.facts, storage.value)  # type: ignore[attr-defined]
    for step in chain:
        tensor = emit(step.func, tensor, *step.args, **step.kwargs)
    return tensor


def write(tensor: TracedTensor, value: TracedTensor, emit: Emit) -> None:
    """All elements of `tensor` become those of `value` (same size and dtype): a new generation of its storage."""
    storage, chain = tensor._storage, tensor._chain
    if any(step.func is aten.expand.default for step in chain):
        value = _write_through_expansion(tensor, value, emit)
        chain = ()
    for i in range(len(chain) - 1, -1, -1):
        value = write_back(emit, lambda i=i: _replay(storage, chain[:i], emit), value, chain[i])  # type: ignore[misc]
    value = match_layout(value, storage.facts, emit)
    storage.value = value._value
    storage.generation += 1
    storage.base._constant = None
    tensor._constant = None
    if not tensor._chain:
        tensor._value = value._value
        tensor._generation = storage.generation


def _write_through_expansion(tensor: TracedTensor, value: TracedTensor, emit: Emit) -> TracedTensor:
    """The base after a write to a view of an expanded view: placed by strides, if no element is written twice."""
    facts, base = tensor._facts, tensor._storage.facts
    if any(s == 0 and n != 1 for n, s in zip(facts.size, facts.stride, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if type(base.offset) is not int or base.offset != 0 or tensor._storage.metadata_steps:
        raise UnsupportedOperationError("an in-place change through an expanded view has no functional form here")
    handle = emit.handle(base, tensor._storage.value)  # type: ignore[attr-defined]
    return emit(aten.as_strided_scatter.default, handle, value, list(facts.size), list(facts.stride), facts.offset)


def match_layout(value: TracedTensor, facts: Facts, emit: Emit) -> TracedTensor:
    """`value`, copied where its strides differ from those that its place in memory has."""
    have = value._facts
    if have is facts or have.symbolic or facts.symbolic:
        return value if have is facts else _match_symbolic(value, facts, emit)
    if all(a == b or n == 1 for n, a, b in zip(have.size, have.stride, facts.stride, strict=True)):
        return value
    return _relayout(value, facts, emit)


def _match_symbolic(value: TracedTensor, facts: Facts, emit: Emit) -> TracedTensor:
    if [hashable_size(s) for s in value._facts.stride] == [hashable_size(s) for s in facts.stride]:
        return value
    return _relayout(value, facts, emit)


def _relayout(value: TracedTensor, facts: Facts, emit: Emit) -> TracedTensor:
    """Copy into dense memory with the dimensions in the order of `facts.stride`."""
    hints = [s.node.hint if isinstance(s, torch.SymInt) else s for s in facts.stride]
    order = sorted(range(len(hints)), key=lambda d: -hints[d])
    if order == list(range(len(order))):
        return emit(aten.clone.default, value, memory_format=torch.contiguous_format)
    moved = emit(aten.permute.default, value, order)
    dense = emit(aten.clone.default, moved, memory_format=torch.contiguous_format)
    return emit(aten.permute.default, dense, sorted(range(len(order)), key=order.__getitem__))


def change_metadata(tensor: TracedTensor, view: TracedTensor, func: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """`tensor` becomes what `view`, a functional view of it, is (`t_` ...): the caller sets its geometry."""
    storage = tensor._storage
    if tensor is storage.base:
        storage.metadata_steps.append((func, args, kwargs))
    elif storage.input_index is not None and storage.base is tensor:
        raise UnsupportedOperationError(f"{func} of an input")
    tensor._facts, tensor._value, tensor._generation, tensor._chain = (
        view._facts,
        view._value,
        view._generation,
        view._chain,
    )
