"""Guards on memory: inputs that the graph writes share none with others, or share it as they do now.

Where inputs share memory that is written, what a backend makes of the graph is right for inputs that share (it runs
such a region as it is), and another version is made for those that do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from triptych_dynamo.errors import Unsupported
from triptych_dynamo.guards.facts import Apart, PythonFact
from triptych_dynamo.guards.python_check import memory_range
from triptych_dynamo.runtime_arrays import apart_in_memory, together_in_memory
from triptych_dynamo.sources import ComputedSource, Source, is_owned

if TYPE_CHECKING:
    from triptych_dynamo.trace.trace import Trace


def check_references(trace: Trace) -> None:
    """What a weak reference with a callback led to is still there: the callback would have run in the middle.

    Raises:
        Unsupported: it is gone; the graph ends before the reference was made.
    """
    for reference in trace.inputs.references:
        if reference.missed_a_death:
            error = Unsupported("call", "a weak reference whose callback runs within the region")
            error.step = reference.made_at
            raise error


def guard_memory(trace: Trace) -> None:
    """Guard each written input against every other.

    Tensors that modules own are taken as they are now relative to each other; pairs with another input are guarded.
    """
    check_references(trace)
    inputs = trace.graph.inputs
    tensors = [source for node, source in inputs.items() if isinstance(node.meta["val"], torch.Tensor)]
    trace.inputs.bytes.guard(trace, tensors)
    written = [inputs[node] for node in trace.graph.mutated_inputs() if node in inputs]
    free = [source for source in tensors if not is_owned(source)]
    for owned in (True, False):
        group = [source for source in written if is_owned(source) is owned]
        others = free if owned else tensors
        shared = _shared(trace, group, others)
        guard_apart(trace, "no_overlap", [source for source in group if source not in shared], others)
        for source, found in shared.items():
            guard_apart(trace, "no_overlap", [source], [other for other in others if other not in found])
            for other in found:
                _guard_together(trace, source, other)


def guard_apart(trace: Trace, kind: str, sources: list[Source], others: list[Source]) -> None:
    """A guard of a kind whose value is `Apart`, unless there is nothing to be apart from; one a pair for arrays."""
    written = [source for source in sources if not isinstance(source, ComputedSource)]
    read = [source for source in others if not isinstance(source, ComputedSource)]
    if written and set(read) - set(written[:1]):
        trace.guard(kind, None, Apart(tuple(written), tuple(read)))
    for source in sources:
        for other in others:
            if source != other and isinstance(source, ComputedSource) | isinstance(other, ComputedSource):
                _guard_array(trace, source, other)


def _guard_together(trace: Trace, source: Source, other: Source) -> None:
    """A written input shares memory with another one, either of which may be an array."""
    if not isinstance(source, ComputedSource) and not isinstance(other, ComputedSource):
        trace.guard("overlap", None, Apart((source,), (other,)))
        return
    pair = _pair(source, other)
    trace.guard("python", pair[0], PythonFact(together_in_memory, f"{source} and {other} share memory", pair))


def _pair(*sources: Source) -> tuple[Source, ...]:
    """Where the arrays and tensors are that the inputs are made of."""
    return tuple(item.operands[0] if isinstance(item, ComputedSource) else item for item in sources)


def _guard_array(trace: Trace, source: Source, other: Source) -> None:
    """Memory of an array is not memory of another input."""
    pair = _pair(source, other)
    trace.guard("python", pair[0], PythonFact(apart_in_memory, f"{source} and {other} are apart in memory", pair))


def _shared(trace: Trace, sources: list[Source], others: list[Source]) -> dict[Source, list[Source]]:
    """The other inputs whose memory a written one shares in this call."""
    real = trace.inputs.real_tensors()
    places = {source: memory_range(real[source]) for source in {*sources, *others} if source in real}
    found: dict[Source, list[Source]] = {}
    if _are_apart(list(places.values())):
        return found
    for source in sources:
        start, end = places.get(source, (0, 0))
        for other in others:
            other_start, other_end = places.get(other, (0, 0))
            if other != source and start < other_end and other_start < end:
                found.setdefault(source, []).append(other)
    return found


def _are_apart(ranges: list[tuple[int, int]]) -> bool:
    last = 0
    for start, end in sorted(ranges):
        if start < last:
            return False
        last = max(last, end)
    return True
