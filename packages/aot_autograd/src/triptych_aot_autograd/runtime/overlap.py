"""Overlap check: at each call, whether an input that the function writes shares memory with another input.

The trace treats its inputs as separate memories. Where that is not so at run time, and one of them is written, the
region runs as the original function instead.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

from triptych_aot_autograd.runtime.plan import RuntimePlan, extent


def make_overlap_check(plan: RuntimePlan) -> Callable[[Sequence[Any]], bool] | None:
    """A predicate of the primals: True when they overlap harmfully. None when the function writes to no input."""
    tensors = [i for i, f in enumerate(plan.inputs) if f.is_tensor]
    changed = [i for i, f in enumerate(plan.inputs) if f.changed]
    if not changed or len(tensors) < 2:
        return None
    extents = plan.extents
    written = set(changed)
    last: list[int] = []

    def overlaps(primals: Sequence[Any]) -> bool:
        nonlocal last
        starts = [primals[i].data_ptr() for i in tensors]
        if extents is not None and starts == last:
            return False
        before = last if extents is not None and len(last) == len(starts) else None
        sizes = extents if extents is not None else {i: extent(primals[i]) for i in tensors}
        if before is not None and not any(
            a != b for i, a, b in zip(tensors, starts, before, strict=True) if i in written
        ):
            found = _moved_meet_written(tensors, starts, before, sizes, changed)
        else:
            found = _any_overlap(tensors, starts, sizes, written)
        if not found:
            last = starts
        return found

    return overlaps


def _moved_meet_written(
    tensors: list[int], starts: list[int], before: list[int], sizes: dict[int, int], changed: list[int]
) -> bool:
    """Whether an input that has moved since the last call meets one of those that are written, which have not."""
    position = {i: at for at, i in enumerate(tensors)}
    ranges = sorted((starts[position[i]], starts[position[i]] + sizes[i]) for i in changed if sizes[i])
    ends = [end for _, end in ranges]
    for at, i in enumerate(tensors):
        if starts[at] != before[at] and sizes[i]:
            first = bisect.bisect_right(ends, starts[at])  # the first range that ends behind the start
            if first < len(ranges) and ranges[first][0] < starts[at] + sizes[i]:
                return True
    return False


def _any_overlap(tensors: list[int], starts: list[int], sizes: dict[int, int], written: set[int]) -> bool:
    """Whether the range of a changed input meets that of any other, by one sweep over sorted ranges."""
    ranges = sorted(
        (start, start + sizes[i], i in written) for i, start in zip(tensors, starts, strict=True) if sizes[i]
    )
    end_any = end_written = -1
    for start, end, is_written in ranges:
        if start < (end_any if is_written else end_written):
            return True
        end_any = max(end_any, end)
        if is_written:
            end_written = max(end_written, end)
    return False
