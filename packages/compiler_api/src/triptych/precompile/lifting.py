"""The arguments of a program as flat tensors: parameters and buffers of its modules, then the leaves of the rest.

Weights are lifted, never baked in: while a program is traced, its modules hold stand-ins, and when it runs, tensors are
read from the modules that it is called with.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from triptych.errors import PrecompileError

Slot = tuple[dict[str, Any], str]  # a module's own dictionary of parameters or buffers, and the name in it


@dataclasses.dataclass
class State:
    """The tensors of some modules, each once. names, tensors: in step; slots: every place where each is held."""

    names: list[str] = dataclasses.field(default_factory=list)
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    slots: list[list[Slot]] = dataclasses.field(default_factory=list)


def state_of(modules: Sequence[nn.Module]) -> tuple[State, State]:
    """Parameters and buffers of modules, by qualified name; with several modules, prefixed by `m0.`, `m1.`, ..."""
    parameters, buffers = _Collector(), _Collector()
    for number, root in enumerate(modules):
        prefix = f"m{number}." if len(modules) > 1 else ""
        for path, module in root.named_modules():
            stem = prefix + (f"{path}." if path else "")
            for state, held in ((parameters, module._parameters), (buffers, module._buffers)):
                for name, tensor in held.items():
                    if tensor is not None:
                        state.add(stem + name, tensor, (held, name))
    return parameters.state, buffers.state


class _Collector:
    """Fills a `State`; a tensor that is met again is the same entry."""

    def __init__(self) -> None:
        self.state = State()
        self._known: dict[int, int] = {}

    def add(self, name: str, tensor: torch.Tensor, slot: Slot) -> None:
        known = self._known.get(id(tensor))
        if known is not None:
            self.state.slots[known].append(slot)
            return
        self._known[id(tensor)] = len(self.state.names)
        self.state.names.append(name)
        self.state.tensors.append(tensor)
        self.state.slots.append([slot])


class Snapshot:
    """The state of some modules, with all that it was read from, so that a later look is short."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.parameters, self.buffers = state_of(modules)
        self.tensors = [*self.parameters.tensors, *self.buffers.tensors]
        tables = [t for root in modules for m in root.modules() for t in (m._parameters, m._buffers, m._modules)]
        self._sizes = [(table, len(table)) for table in tables]
        self._entries = [(table, name, value) for table in tables for name, value in table.items()]

    def holds(self) -> bool:
        """Whether the modules still have the same parts and hold the same tensors."""
        if any(len(table) != size for table, size in self._sizes):
            return False
        return all(table.get(name) is value for table, name, value in self._entries)


class Arguments:
    """One set of positional arguments, taken apart.

    modules: those among them, `positions`: where. leaves, spec: of the other arguments, as torch's pytree has them.
    snapshot: an earlier look at the same modules that still holds.
    """

    def __init__(self, args: Sequence[Any], snapshot: Snapshot | None = None) -> None:
        self.count = len(args)
        self.positions = [i for i, arg in enumerate(args) if isinstance(arg, nn.Module)]
        self.modules: list[nn.Module] = [args[i] for i in self.positions]
        self.leaves, self.spec = tree_flatten([arg for arg in args if not isinstance(arg, nn.Module)])
        self.snapshot = snapshot if snapshot is not None else Snapshot(self.modules)
        self.parameters, self.buffers = self.snapshot.parameters, self.snapshot.buffers
        if any(isinstance(leaf, nn.Module) for leaf in self.leaves):
            raise PrecompileError("a module inside another argument: pass modules as positional arguments of their own")

    @property
    def state(self) -> list[torch.Tensor]:
        """Parameters, then buffers."""
        return self.snapshot.tensors

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors, in the order of the graph's inputs."""
        return [*self.state, *(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))]

    def rebuilt(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments with other leaves; modules stay."""
        return put_together(self.count, self.positions, self.modules, leaves, self.spec)

    @contextlib.contextmanager
    def holding(self, stand_ins: Sequence[torch.Tensor]) -> Iterator[None]:
        """The modules hold `stand_ins` in place of their parameters and buffers, and afterwards what they held."""
        slots = [*self.parameters.slots, *self.buffers.slots]
        saved = [(held, dict(held)) for held in {id(h): h for places in slots for h, _ in places}.values()]
        try:
            for places, stand_in in zip(slots, stand_ins, strict=True):
                for held, name in places:
                    held[name] = stand_in
            yield
        finally:
            for held, before in saved:
                held.clear()
                held.update(before)


def put_together(
    count: int, positions: Sequence[int], modules: Sequence[nn.Module], leaves: Sequence[Any], spec: TreeSpec
) -> list[Any]:
    """Positional arguments of modules at their positions and a tree of the others."""
    others, mine = iter(tree_unflatten(list(leaves), spec)), dict(zip(positions, modules, strict=True))
    return [mine[i] if i in mine else next(others) for i in range(count)]
