"""Arenas: one allocation for the intermediates of a graph, each at an offset that is fixed when the graph is compiled.

A wrapper that allocates each intermediate spends up to a microsecond of host time on each. Here intermediates of static
sizes get an interval of steps (first to last use) and an offset, such that those alive at once never overlap; the
wrapper makes one allocation and a view for each distinct window of it, which later buffers of the same form share.

Buffers of one form share the fewest windows that their intervals allow (the left-edge algorithm of channel routing,
Hashimoto and Stevens, 1971). Windows get their offsets greedily by size, the largest first, each in the smallest gap
that fits between those alive with it (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
2020).

The arena is alive from its first buffer to its last; single buffers would come and go. It takes in the largest
buffers only if the bytes alive at any step stay under the peak of single buffers, else the smaller ones alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from triptych_inductor.ir.nodes import Buffer


@dataclass(frozen=True)
class Limits:
    """What an arena of a device may be. align: bytes that offsets are multiples of. grain: bytes that allocations are
    rounded to by themselves. largest, total: most bytes of a member, and of all (0: no limit). price: microseconds of
    host time that an allocation takes, its end included."""

    align: int
    grain: int = 1
    price: float = 0.5
    largest: int = 0
    total: int = 0


LIMITS: dict[str, Limits] = {
    "cpu": Limits(64, 1, 0.5, 256 * 1024, 8 * 1024 * 1024),  # large blocks come fresh from the system at each call
    "cuda": Limits(512, 512, 1.2),
}
"""Types of devices whose intermediates are gathered."""

MEMBERS = 4096  # at most
GAIN = 1.0  # microseconds that must be saved
_WINDOW, _VIEW = 0.33, 0.7  # microseconds that a window takes, and a view of the arena under another dtype
QUANTILES = (1.0, 0.75, 0.5, 0.25)  # sizes up to which buffers are tried, as a share of the distinct sizes


@dataclass(eq=False)
class Place:
    """A buffer's place: bytes from the arena's start; `twin` has the same window and its variable is taken.

    size: bytes in the arena; alone: bytes that the buffer takes outside. over: the buffer whose window it takes over as
    it is made, in the step before `first`.
    """

    buffer: Buffer
    first: int
    last: int
    alone: int
    size: int = 0
    offset: int = 0
    twin: Place | None = None
    over: str | None = None
    arena: Arena = field(init=False)

    @property
    def form(self) -> tuple[Any, ...]:
        """What two buffers that share a variable have in common, the offset apart."""
        return self.buffer.form

    def __post_init__(self) -> None:
        align = LIMITS[self.buffer.device.type].align
        self.size = -(-self.alone // align) * align


@dataclass(eq=False)
class Arena:
    """One allocation. `places`: its members in the order of their first steps."""

    name: str
    device: torch.device
    places: list[Place] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes."""
        return max(p.offset + p.size for p in self.places)

    def __post_init__(self) -> None:
        for place in self.places:
            place.arena = self

    first = property(lambda self: min(p.first for p in self.places))
    last = property(lambda self: max(p.last for p in self.places))

    @property
    def price(self) -> float:
        """Microseconds that a run spends on it: the allocation, a view for each dtype, the windows."""
        windows = sum(p.twin is None for p in self.places)
        return LIMITS[self.device.type].price + _VIEW * len({p.buffer.dtype for p in self.places}) + _WINDOW * windows

    def __str__(self) -> str:
        head = f"{self.name}: {self.size} bytes on {self.device}, steps {self.first} to {self.last}"
        rows = [
            f"  {p.offset:>10} {p.size:>10}  steps {p.first}-{p.last}  {p.buffer!r}"
            + (f" (as {p.twin.buffer.name})" if p.twin is not None else "")
            for p in self.places
        ]
        return "\n".join([head, *rows])


def rounded(size: int, device: torch.device) -> int:
    """Bytes that an allocation takes on a device."""
    grain = LIMITS[device.type].grain if device.type in LIMITS else 1
    return -(-size // grain) * grain


def candidate(buffer: Buffer, size: int) -> bool:
    """Whether a buffer of ours may lie in an arena: of static form, of nobody else's interest, and not too large."""
    limits = LIMITS.get(buffer.device.type)
    if limits is None or size == 0 or buffer.aliased or buffer.dtype.itemsize == 0 or buffer.dtype in ODD:
        return False
    return (not limits.largest or size <= limits.largest) and all(
        type(n) is int for n in (*buffer.size, *buffer.stride)
    )


ODD = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})
"""Dtypes that bytes cannot be viewed as."""


def gather(
    candidates: Iterable[Place],
    separate: Callable[[set[str]], int],
    fits: Callable[[Arena], bool],
    device: torch.device,
) -> Arena | None:
    """The arena of a device's candidates; None where it gains nothing.

    separate: the number of allocations that the named buffers take without it. fits: whether the peak stays.
    """
    limits = LIMITS[device.type]
    everything = sorted(candidates, key=lambda p: p.size)[:MEMBERS]
    sizes = sorted({p.size for p in everything})
    for most in dict.fromkeys(sizes[max(0, round(q * len(sizes)) - 1)] for q in QUANTILES) if sizes else ():
        arena = pack([p for p in everything if p.size <= most], f"arena_{str(device).replace(':', '_')}", device)
        if limits.total and arena.size > limits.total:
            continue
        if arena.price + GAIN > limits.price * separate({p.buffer.name for p in arena.places}):
            return None  # a smaller one gains less
        if fits(arena):
            return arena
    return None


@dataclass(eq=False)
class _Slot:
    """Buffers of one size, one after the other in the same bytes. `steps`: a bit for each at which one is alive."""

    size: int
    places: list[Place] = field(default_factory=list)
    steps: int = 0
    offset: int = 0

    def take(self, place: Place) -> None:
        self.places.append(place)
        self.steps |= (1 << place.last + 1) - (1 << place.first)


def pack(places: list[Place], name: str, device: torch.device) -> Arena:
    """The arena of places: in as few windows as may be, these at offsets that keep it small."""
    placed: list[_Slot] = []
    for slot in sorted(_slots(places), key=lambda s: (-s.size, s.places[0].first)):
        slot.offset = _gap([other for other in placed if other.steps & slot.steps], slot.size)
        bisect.insort(placed, slot, key=lambda s: s.offset)
        for place in slot.places:
            place.offset = slot.offset
            first = next(p for p in slot.places if p.form == place.form)
            place.twin = first if first is not place else None
    return Arena(name, device, sorted(places, key=lambda p: p.first))


def _slots(places: list[Place]) -> list[_Slot]:
    """Buffers of each form in the fewest windows: each takes the one that came free last, else a new one."""
    by_form: dict[tuple[Any, ...], list[_Slot]] = {}
    slot_of: dict[str, _Slot] = {}
    for place in sorted(places, key=lambda p: (p.first, p.over is None)):
        slots = by_form.setdefault(place.form, [])
        free = [s for s in slots if s.places[-1].last < place.first]
        if place.over is not None:
            slot = slot_of[place.over]
        elif free:
            slot = max(free, key=lambda s: s.places[-1].last)
        else:
            slot = _Slot(place.size)
            slots.append(slot)
        slot.take(place)
        slot_of[place.buffer.name] = slot
    return [slot for slots in by_form.values() for slot in slots]


def _gap(near: list[_Slot], size: int) -> int:
    """The offset of the smallest gap of at least `size` between windows (by offset), else their end."""
    best, least, top = -1, -1, 0
    for slot in near:
        room = slot.offset - top
        if room >= size and (best < 0 or room < least):
            best, least = top, room
        top = max(top, slot.offset + slot.size)
    return best if best >= 0 else top
