"""Memory plan: when each buffer is allocated, freed, and whose memory it takes over.

In: steps in order. Out: for each step the buffers to allocate before it (with the dead buffer to reuse, if any) and
those to free after it. Only buffers of equal size, strides and dtype take over memory, so that a buffer's variable is
simply renamed. A dead buffer is held for a later one only where that does not raise the peak. Buffers of static sizes
are gathered in arenas (`arena.py`) where that saves allocations and does not raise the peak either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triptych_inductor.ir.extents import Extent
from triptych_inductor.ir.nodes import Buffer, IRGraph
from triptych_inductor.schedule.arena import Arena, Place, candidate, gather, rounded

# A dead buffer is held for a later one of its kind at most this many steps.
HOLD = 24


@dataclass
class StepMemory:
    """What surrounds one step: allocations (buffer, reused or None) before it, and frees after it.

    over: buffers that the step writes over others, which end with it. opens, closes: arenas that begin before it and
    end after it; places: what begins in arenas before it.
    """

    allocate: list[tuple[Buffer, Buffer | None]] = field(default_factory=list)
    over: list[tuple[Buffer, Buffer]] = field(default_factory=list)
    free: list[Buffer] = field(default_factory=list)
    opens: list[Arena] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    closes: list[Arena] = field(default_factory=list)


@dataclass
class Usage:
    """Names of the buffers that a step touches, and those of them it makes."""

    touched: set[str]
    made: list[str]


@dataclass
class Lifetimes:
    """first: the step before which each buffer of ours comes to be. last: the last step that touches each buffer.

    over: result -> operand whose memory it takes over at its making; such a result comes to be behind that step.
    """

    first: dict[str, int]
    last: dict[str, int]
    over: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(graph: IRGraph, usages: list[Usage]) -> Lifetimes:
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for k, usage in enumerate(usages):
            for name in (*usage.made, *sorted(usage.touched)):  # what nobody makes is uninitialised memory
                if graph.buffers[name].kind in ("temporary", "extern"):
                    first.setdefault(name, k)
            for name in usage.touched:
                last[name] = k
            for name in usage.made:
                last.setdefault(name, k)
        return Lifetimes(first, last)

    def overwriting(self, over: Mapping[str, str]) -> Lifetimes:
        """With results that take over the memory of operands."""
        first = {name: k + (name in over) for name, k in self.first.items()}
        return Lifetimes(first, self.last, over)


class Room:
    """Bytes alive at each step, and how many more may be without raising the peak.

    Counted twice: with inputs that stay (the caller holds them) and with inputs that end at their last use.
    """

    def __init__(self, graph: IRGraph, lives: Lifetimes, steps: int, kept: set[str], size: Callable[[Buffer], int]):
        held, freed = [0] * (steps + 1), [0] * (steps + 1)
        for name, end in lives.last.items():
            buffer = graph.buffers[name]
            after = steps if name in kept else end + 1
            if name in lives.first:
                for change in (held, freed):
                    change[lives.first[name]] += size(buffer)
                    change[after] -= size(buffer)
            elif buffer.kind == "input":
                freed[0] += size(buffer)
                freed[after] -= size(buffer)
        self.rows = [_running(held), _running(freed)]
        self.peaks = [max(row) for row in self.rows]
        self.steps = steps

    def gathered(self, arena: Arena) -> list[list[int]]:
        """The rows with an arena's members in the arena."""
        changes = [0] * (self.steps + 1)
        members = ((p.first, p.last, -p.alone) for p in arena.places)
        for start, last, size in ((arena.first, arena.last, arena.size), *members):
            changes[start] += size
            changes[last + 1] -= size
        return [[a + b for a, b in zip(row, _running(changes), strict=True)] for row in self.rows]

    def fits(self, arena: Arena) -> bool:
        """Whether no peak rises by an arena."""
        return all(max(row) <= peak for row, peak in zip(self.gathered(arena), self.peaks, strict=True))

    def take(self, start: int, end: int, size: int) -> bool:
        """Hold `size` bytes during the steps from `start` to before `end`, if no peak rises by it."""
        for row, peak in zip(self.rows, self.peaks, strict=True):
            if any(row[k] + size > peak for k in range(start, end)):
                return False
        for row in self.rows:
            for k in range(start, end):
                row[k] += size
        return True


def _running(changes: list[int]) -> list[int]:
    total, result = 0, []
    for change in changes:
        total += change
        result.append(total)
    return result


class Sizes:
    """Bytes that buffers of one graph take; `hint` gives typical numbers for symbolic sizes."""

    def __init__(self, hint: Callable[[Extent], int]) -> None:
        self._hint = hint
        self._known: dict[str, int] = {}

    def __call__(self, buffer: Buffer) -> int:
        found = self._known.get(buffer.name)
        if found is None:
            found = rounded(self._hint(buffer.extent) * buffer.dtype.itemsize, buffer.device)
            self._known[buffer.name] = found
        return found


def peaks(graph: IRGraph, usages: list[Usage], over: Mapping[str, str], size: Callable[[Buffer], int]) -> list[int]:
    """Bytes alive at the peaks of `Room`, if nothing is held for longer than it is used."""
    lives = Lifetimes.of(graph, usages).overwriting(over)
    return Room(graph, lives, len(usages), graph.returned, size).peaks


def plan(
    graph: IRGraph,
    usages: list[Usage],
    reuse: bool,
    hint: Callable[[Extent], int],
    arenas: bool = False,
    over: Mapping[str, str] | None = None,
) -> list[StepMemory]:
    """The memory plan of steps that use buffers as `usages` says; `hint` gives typical numbers for symbolic sizes.

    reuse: dead buffers may be taken over. arenas: buffers may be gathered. over: results that are written over operands
    that end there (`overwrite.py`).
    """
    lives = Lifetimes.of(graph, usages).overwriting(over or {})
    kept = graph.returned
    size = Sizes(hint)
    planner = _Planner(graph, usages, lives, kept, size)
    found = planner.gather() if arenas else []
    result = planner.separate(reuse)
    for arena in found:
        result[arena.first].opens.append(arena)
        result[arena.last].closes.append(arena)
        for place in arena.places:
            place.buffer.offset = place.offset // place.buffer.dtype.itemsize
            result[place.first - (place.over is not None)].places.append(place)
    return result


@dataclass
class _Planner:
    """What the plan is made of. `inside`: buffers that lie in arenas."""

    graph: IRGraph
    usages: list[Usage]
    lives: Lifetimes
    kept: set[str]
    size: Callable[[Buffer], int]
    inside: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.room = Room(self.graph, self.lives, len(self.usages), self.kept, self.size)

    def gather(self) -> list[Arena]:
        """An arena for each device where one pays; its members are planned."""
        rows = [list(row) for row in self.room.rows]
        fresh = {b.name for step in self.separate(True) for b, source in step.allocate if source is None}
        self.room.rows = rows  # what was held is not
        by_device: dict[Any, list[Place]] = {}
        apart = self._apart()
        for name, first in self.lives.first.items():
            buffer = self.graph.buffers[name]
            if name in apart:
                continue
            if buffer.kind == "temporary" and name not in self.kept and self._static(buffer):
                over = self.lives.over.get(name)
                place = Place(buffer, first, self.lives.last[name], self.size(buffer), over=over)
                by_device.setdefault(buffer.device, []).append(place)
        found = []
        for device, places in by_device.items():
            arena = gather(places, lambda names: len(names & fresh), self.room.fits, device)
            if arena is not None:
                self.room.rows = self.room.gathered(arena)
                self.inside |= {p.buffer.name for p in arena.places}
                found.append(arena)
        return found

    def _apart(self) -> set[str]:
        """Buffers that share memory with one that lies in no arena: with what others make, or what is returned."""
        chains: dict[str, list[str]] = {}  # buffer -> all that share its memory
        for name, operand in self.lives.over.items():  # in the order of the steps
            chain = chains.setdefault(operand, [operand])
            chain.append(name)
            chains[name] = chain
        outside = {n for n in chains if n in self.kept or self.graph.buffers[n].kind != "temporary"}
        return {name for name, chain in chains.items() if not outside.isdisjoint(chain)}

    def _static(self, buffer: Buffer) -> bool:
        return type(buffer.extent) is int and candidate(buffer, self.size(buffer))

    def separate(self, reuse: bool) -> list[StepMemory]:
        """The plan of the buffers that are allocated one by one."""
        graph, lives, kept = self.graph, self.lives, self.kept
        wanted = _allocations(graph, lives, self.inside | set(lives.over))
        takes: dict[str, Buffer] = {}  # buffer -> the dead one whose memory it takes over
        result = [StepMemory() for _ in self.usages]
        starting: dict[int, list[str]] = {}
        for name, k in lives.first.items():
            if graph.buffers[name].kind == "temporary" and name not in self.inside and name not in lives.over:
                starting.setdefault(k, []).append(name)
        for name, operand in lives.over.items():
            if name not in self.inside:
                result[lives.first[name] - 1].over.append((graph.buffers[name], graph.buffers[operand]))
        given = set(lives.over.values())
        for k, usage in enumerate(self.usages):
            result[k].allocate = [(graph.buffers[name], takes.get(name)) for name in starting.get(k, ())]
            for name in sorted(usage.touched - self.inside):
                buffer = graph.buffers[name]
                if lives.last[name] != k or name in kept:
                    continue
                heir = _heir(buffer, k, wanted, self.room, self.size) if reuse and name not in given else None
                if heir is None:
                    result[k].free.append(buffer)
                else:
                    takes[heir] = buffer
        return result


Wanted = dict[tuple[Any, ...], list[tuple[int, str]]]


def _allocations(graph: IRGraph, lives: Lifetimes, inside: set[str]) -> Wanted:
    """For each kind of buffer the allocations that may take over memory: (step, buffer), in order."""
    found: Wanted = {}
    for name, k in sorted(lives.first.items(), key=lambda item: item[1]):
        buffer = graph.buffers[name]
        if buffer.kind == "temporary" and not buffer.aliased and name not in inside:
            found.setdefault(buffer.form, []).append((k, name))
    return found


def _heir(buffer: Buffer, dead_after: int, wanted: Wanted, room: Room, size: Callable[[Buffer], int]) -> str | None:
    """The buffer that takes over the memory of one that is dead after a step; None where it is to be freed."""
    if buffer.kind != "temporary" or buffer.aliased:
        return None
    waiting = wanted.get(buffer.form, [])
    while waiting and waiting[0][0] <= dead_after:
        waiting.pop(0)
    if not waiting or waiting[0][0] > dead_after + HOLD:
        return None
    if not room.take(dead_after + 1, waiting[0][0], size(buffer)):
        return None
    return waiting.pop(0)[1]
