"""The order pass: steps beside each other change places where that lowers the peak of memory.

In: steps in an order that respects their needs, and what each writes that reaches memory. Out: the same steps in such
an order. A product that ends a large operand goes before one that makes a large result, for instance: the gradient of
a layer's weight before that of its input. Away from the peak the order of the program stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from triptych_inductor.ir.nodes import Buffer, ExternNode, IRGraph
from triptych_inductor.schedule.fuse import Step

# Steps are moved where the bytes alive are at least this share of the peak.
NEAR = 0.9
# Times that the steps are gone through.
PASSES = 4


@dataclass
class _Traffic:
    """What a step touches in memory, and bytes: of what it makes, of what ends with it where it is the last to touch
    it."""

    touched: set[str]
    made: int = 0
    ends: dict[str, int] = field(default_factory=dict)

    def ended(self, spared: Collection[str] = ()) -> int:
        """Bytes that end with the step if a later one still touches `spared`."""
        return sum(size for name, size in self.ends.items() if name not in spared)


def lower_peak(
    steps: Sequence[Step], graph: IRGraph, outside: Sequence[set[str]], size: Callable[[Buffer], int]
) -> list[int]:
    """Positions of the steps in their new order.

    outside: for each step the buffers it writes that must reach memory. size: bytes of a buffer.
    """
    traffic = _traffic(steps, graph, outside, size)
    order = list(range(len(steps)))
    for _ in range(PASSES):
        if not _one_pass(order, steps, traffic, _start(graph, traffic, size)):
            break
    return order


def _traffic(
    steps: Sequence[Step], graph: IRGraph, outside: Sequence[set[str]], size: Callable[[Buffer], int]
) -> list[_Traffic]:
    found: list[_Traffic] = []
    seen: set[str] = set()
    last: dict[str, int] = {}
    for k, step in enumerate(steps):
        content = step.content
        names = content.read_names | (content.write_names if isinstance(content, ExternNode) else outside[k])
        names = {n for n in names if n in graph.buffers and (n in seen or n in outside[k] or _lasts(graph, n, content))}
        own = _Traffic(names)
        for name in names:
            buffer = graph.buffers[name]
            if name not in seen and buffer.kind in ("temporary", "extern"):
                own.made += size(buffer)
            last[name] = k
        seen |= names
        found.append(own)
    for name, k in last.items():
        buffer = graph.buffers[name]
        if name not in graph.returned and buffer.kind != "constant":
            found[k].ends[name] = size(buffer)
    return found


def _lasts(graph: IRGraph, name: str, content: object) -> bool:
    """Whether a buffer that nobody wrote yet is memory at this step: an input, or what an extern call makes."""
    return isinstance(content, ExternNode) or graph.buffers[name].kind in ("input", "constant")


def _start(graph: IRGraph, traffic: Sequence[_Traffic], size: Callable[[Buffer], int]) -> int:
    """Bytes alive before the first step: the inputs that some step ends."""
    ending = {name for step in traffic for name in step.ends}
    return sum(size(graph.buffers[n]) for n in ending if graph.buffers[n].kind == "input")


def _one_pass(order: list[int], steps: Sequence[Step], traffic: list[_Traffic], start: int) -> bool:
    """Let neighbours change places once along the order; whether any did."""
    limit = NEAR * _peak(order, traffic, start)
    changed, alive = False, start
    for at in range(len(order) - 1):
        a, b = (traffic[k] for k in order[at : at + 2])
        if order[at] not in steps[order[at + 1]].needs:
            now = max(alive + a.made, alive + a.made - a.ended() + b.made)
            then = max(alive + b.made, alive + b.made - b.ended(a.touched) + a.made)
            if then < now and now >= limit:
                _pass_on(a, b)
                order[at], order[at + 1] = order[at + 1], order[at]
                a, changed = b, True
        alive += a.made - a.ended()
    return changed


def _pass_on(first: _Traffic, second: _Traffic) -> None:
    """The second step is to go first: what both touch ends with the other one now."""
    for name in [n for n in second.ends if n in first.touched]:
        first.ends[name] = second.ends.pop(name)


def _peak(order: Sequence[int], traffic: Sequence[_Traffic], start: int) -> int:
    alive = peak = start
    for k in order:
        peak = max(peak, alive + traffic[k].made)
        alive += traffic[k].made - traffic[k].ended()
    return peak
