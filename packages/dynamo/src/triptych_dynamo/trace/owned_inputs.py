"""Inputs of a graph that a module owns: its parameters and buffers.

A backend finds an `OwnedInputs` in `gm.meta["owned_inputs"]`. While it compiles the graph it may take the tensor behind
such an input and build on its numbers (constant folding, packed weights); the compiled code then holds for this very
tensor, in a module that is not in training, and both are guarded. Nothing else of the program's data reaches a backend.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.sources import InstanceDictSource, ItemSource

if TYPE_CHECKING:
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace

TABLES = ("_parameters", "_buffers")
WHY = "the backend, which took the tensor as a constant"


class OwnedInputs:
    """The parameters and buffers among a graph's placeholders. It is of use until the graph's backend returns.

    Example:
        >>> owned = gm.meta["owned_inputs"]
        >>> for index in owned.positions():
        ...     if not owned.is_training(index):
        ...         weights[index] = owned.take(index)
    """

    def __init__(self, trace: Trace) -> None:
        self._trace: Trace | None = trace
        self._found: dict[int, tuple[Source, Source, torch.nn.Module, torch.Tensor]] | None = None

    def _inputs(self) -> dict[int, tuple[Source, Source, torch.nn.Module, torch.Tensor]]:
        """Position -> source of the tensor, source of the module, the two themselves; looked up at the first use."""
        if self._found is None:
            trace = self._live()
            real, self._found = trace.inputs.real_tensors(), {}
            for index, source in enumerate(trace.graph.inputs.values()):
                owner = _owner(source)
                module = None if owner is None else trace.object_at(owner)
                if owner is not None and isinstance(module, torch.nn.Module) and source in real:
                    self._found[index] = source, owner, module, real[source]
        return self._found

    def positions(self) -> list[int]:
        """Which of the graph's inputs are parameters or buffers of modules."""
        return list(self._inputs())

    def is_training(self, index: int) -> bool:
        """Whether the module that owns the input is in training mode."""
        return self._inputs()[index][2].training

    def take(self, index: int) -> torch.Tensor:
        """The tensor itself. From now on the code holds for this object alone, and for its module not in training.

        What is written into the tensor later is not noticed.
        """
        source, owner, _, tensor = self._inputs()[index]
        trace = self._live()
        trace.guard("is_weak", source, weakref.ref(tensor), WHY)
        trace.guard("equals", ItemSource(InstanceDictSource(owner), "training"), False, WHY)
        return tensor

    def forget_facts(self, index: int) -> None:
        """After `take`: sizes and dtype of the tensor do not matter either, for its memory is given up."""
        source, guards = self._inputs()[index][0], self._live().guards
        for key in [key for key, guard in guards.items() if guard.kind == "tensor" and guard.source == source]:
            del guards[key]

    def _live(self) -> Trace:
        if self._trace is None:
            raise RuntimeError("the inputs of a graph can be taken only while its backend compiles it")
        return self._trace

    def release(self) -> None:
        """Let go of the trace and the program's objects."""
        self._trace, self._found = None, None

    def __deepcopy__(self, memo: Any) -> OwnedInputs:
        return self

    def __reduce__(self) -> Any:
        return _released, ()


def _released() -> None:
    """What a pickled graph has in place of its `OwnedInputs`."""
    return None


def _owner(source: Source) -> Source | None:
    """The source of the module whose parameter or buffer is read at `source`."""
    if not isinstance(source, ItemSource):
        return None
    table = source.base
    if not isinstance(table, ItemSource) or table.key not in TABLES or not isinstance(table.base, InstanceDictSource):
        return None
    return table.base.base
