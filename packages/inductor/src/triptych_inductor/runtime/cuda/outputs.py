"""What a replay gives: outputs are copied out of the recording's memory, lent as they lie there, or are inputs.

A *lent* output is a tensor of the recording itself, given without a copy. Only what nobody but a compiled graph's
caller sees is lent (values that a forward keeps for its backward, values between parts of a graph): the recording must
not be replayed while one of them is alive, which `Loans` tells.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from triptych_inductor._torch_compat import foreach_copy, storage_users


@dataclass
class Output:
    """How one output is made after a replay: `value` as it is, a window of an input, the same object as an earlier
    output, or a recorded tensor, copied or lent."""

    value: Any = None
    input: int | None = None
    whole: bool = False
    window: tuple[Any, ...] = ()
    same: int | None = None
    recorded: torch.Tensor | None = None
    lent: bool = False


def output_plan(
    result: Any, inputs: Sequence[Any], private: Collection[int] = ()
) -> tuple[list[Output], Callable[[list[Any]], Any]]:
    """How to make each output of a recorded call, and the container they go into. private: positions to be lent."""
    if not isinstance(result, (tuple, list)):
        return [_plan_one(result, inputs)], lambda made: made[0]
    visible: dict[int, int] = {}
    for k, value in enumerate(result):
        if isinstance(value, torch.Tensor) and k not in private:
            visible.setdefault(id(value), k)
    plan = []
    for k, value in enumerate(result):
        output = _plan_one(value, inputs)
        if output.recorded is not None:
            first = visible.get(id(value), len(result))
            output.lent = first > k
            output = Output(same=first) if first < k else output
        plan.append(output)
    return plan, type(result)


def _plan_one(value: Any, inputs: Sequence[Any]) -> Output:
    if not isinstance(value, torch.Tensor):
        return Output(value=value)
    for k, given in enumerate(inputs):
        if value is given:
            return Output(input=k, whole=True)
        if isinstance(given, torch.Tensor) and value.numel() and _storage(value) == _storage(given):
            offset = value.storage_offset() - given.storage_offset()
            return Output(input=k, window=(value.size(), value.stride(), offset))
    return Output(recorded=value)


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


def make_outputs(plan: Sequence[Output], args: Sequence[Any]) -> list[Any]:
    """The outputs of one replay; copies of recorded tensors are made in one step."""
    made: list[Any] = []
    sources, targets = [], []
    for item in plan:
        recorded = item.recorded
        if item.same is not None:
            made.append(made[item.same])
        elif recorded is not None and item.lent:
            made.append(recorded.detach())
        elif recorded is not None:
            copy = torch.empty_strided(recorded.size(), recorded.stride(), dtype=recorded.dtype, device=recorded.device)
            sources.append(core(recorded))
            targets.append(core(copy))
            made.append(copy)
        elif item.input is None:
            made.append(item.value)
        elif item.whole:
            made.append(args[item.input])
        else:
            size, stride, offset = item.window
            base = args[item.input]
            made.append(base.as_strided(size, stride, base.storage_offset() + offset))
    if targets:
        foreach_copy(targets, sources)
    return made


@dataclass
class Loans:
    """The memories of lent outputs: (storage, how many held it when nothing was lent)."""

    held: list[tuple[Any, int]] = field(default_factory=list)
    addresses: frozenset[int] = frozenset()
    given: list[weakref.ref[torch.Tensor]] = field(default_factory=list)  # what the last replay lent

    @staticmethod
    def of(plan: Sequence[Output]) -> Loans:
        """To be made before anything is lent."""
        tensors = [item.recorded for item in plan if item.lent and item.recorded is not None]
        storages = {s._cdata: s for s in (t.untyped_storage() for t in tensors)}
        held = [(s, storage_users(s._cdata)) for s in storages.values()]
        return Loans(held, frozenset(t.data_ptr() for t in tensors))

    def out(self) -> bool:
        """Whether something that was lent is alive, or a view of it."""
        return any(storage_users(storage._cdata) > count for storage, count in self.held)

    def note(self, plan: Sequence[Output], made: Sequence[Any]) -> None:
        """These outputs were made of the plan."""
        if self.held:
            self.given = [weakref.ref(value) for item, value in zip(plan, made, strict=True) if item.lent]

    def move_out(self) -> bool:
        """Give what is alive memory of its own. False, and nothing is moved, where there are views of it."""
        alive = [tensor for tensor in (ref() for ref in self.given) if tensor is not None]
        users = Counter(tensor.untyped_storage()._cdata for tensor in alive)
        if any(storage_users(s._cdata) > count + users[s._cdata] for s, count in self.held):
            return False
        for tensor in alive:
            tensor.data = own_copy(tensor)
        return True


def own_copy(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same layout in memory that stays."""
    own = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
    core(own).copy_(core(value))
    return own


def core(value: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor each once: axes that were expanded shrink to 1."""
    if 0 not in value.stride():
        return value
    size = [1 if step == 0 else n for n, step in zip(value.size(), value.stride(), strict=True)]
    return value.as_strided(size, value.stride())
