"""Memory plan: when each buffer is allocated, freed, and whose memory it takes over.

In: steps in order. Out: for each step the buffers to allocate before it (with the dead buffer to reuse, if any) and
those to free after it. Only buffers of equal size, strides and dtype take over memory, so that a buffer's variable is
simply renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from triptych_inductor.ir.nodes import Buffer, IRGraph, Strided

# A dead buffer is held for a later one of its kind at most this many steps.
HOLD = 24


@dataclass
class StepMemory:
    """What surrounds one step: allocations (buffer, reused or None) before it, and frees after it."""

    allocate: list[tuple[Buffer, Buffer | None]] = field(default_factory=list)
    free: list[Buffer] = field(default_factory=list)


@dataclass
class Usage:
    """Names of the buffers that a step touches, and those of them it makes."""

    touched: set[str]
    made: list[str]


def _kind(buffer: Buffer) -> tuple[Any, ...]:
    return (buffer.size, buffer.stride, buffer.dtype, buffer.device)


def plan(graph: IRGraph, usages: list[Usage], reuse: bool) -> list[StepMemory]:
    """The memory plan of steps that use buffers as `usages` says."""
    last_use: dict[str, int] = {}
    for k, usage in enumerate(usages):
        for name in usage.touched:
            last_use[name] = k
    kept = {leaf.buffer.name for leaf in graph.outputs if isinstance(leaf, Strided)}
    result = [StepMemory() for _ in usages]
    allocations = _allocation_steps(graph, usages)
    pool: dict[tuple[Any, ...], list[Buffer]] = {}
    seen: set[str] = set()
    for k, usage in enumerate(usages):
        for name in (*usage.made, *sorted(usage.touched)):  # what nobody makes is uninitialised memory
            buffer = graph.buffers[name]
            if name in seen or buffer.kind != "temporary":
                continue
            seen.add(name)
            held = pool.get(_kind(buffer), [])
            source = held.pop() if held and not buffer.aliased else None
            result[k].allocate.append((buffer, source))
        for name in sorted(usage.touched):
            buffer = graph.buffers[name]
            if last_use[name] != k or name in kept:
                continue
            key = _kind(buffer)
            wanted = any(k < step <= k + HOLD for step in allocations.get(key, ()))
            if reuse and buffer.kind == "temporary" and not buffer.aliased and wanted:
                pool.setdefault(key, []).append(buffer)
            else:
                result[k].free.append(buffer)
    return result


def _allocation_steps(graph: IRGraph, usages: Iterable[Usage]) -> dict[tuple[Any, ...], list[int]]:
    """For each kind of buffer the steps at which one is allocated."""
    steps: dict[tuple[Any, ...], list[int]] = {}
    seen: set[str] = set()
    for k, usage in enumerate(usages):
        for name in usage.made:
            if name not in seen and graph.buffers[name].kind == "temporary":
                seen.add(name)
                steps.setdefault(_kind(graph.buffers[name]), []).append(k)
    return steps
