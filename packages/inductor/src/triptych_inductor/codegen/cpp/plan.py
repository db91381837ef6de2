"""Planning: which axis is the vector, how wide loops are unrolled, what threads share.

In: a kernel and its groups. Out: a `Plan`, printable. Three shapes of loops:
- points: no reductions; the vector runs along an outer axis.
- inner: the vector runs along a reduction axis; each outer point reduces its lanes at the end.
- outer: lanes are neighbouring outer points; reduction loops are scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from triptych_inductor.codegen.cpp.groups import Group
from triptych_inductor.codegen.cpp.index import split_linear, static
from triptych_inductor.loops.handlers import STORES, Block
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.loops.table import OPS

TYPICAL = 64  # assumed extent of a symbolic axis, for choices only
TILE = 16  # rows of a tile in which two axes are contiguous for different buffers


@dataclass
class Plan:
    """Decisions for one kernel. Axes are numbered as in `Kernel.outer` and `Kernel.reduction`."""

    shape: str  # "points", "inner" or "outer"
    vector: int | None  # axis of the vector, outer (points, outer) or reduction (inner); None: a single point
    tile: int | None  # points only: second axis, walked in tiles inside the vector loop
    unroll: int  # inner: the most vectors in flight, each with its own accumulator; outer: the most vectors of a tile
    threads: str  # "outer" or "none"; "axis k" where only that outer axis may be shared
    cost: int  # of one point of the innermost loop
    few: bool = False  # outer: the tile is the whole axis, of so few vectors that accumulators stay in registers
    split: int | None = None  # reduction axis of which threads may take pieces where outer points are few

    def __str__(self) -> str:
        pieces = "" if self.split is None else f" or pieces of reduction axis {self.split}"
        return (
            f"{self.shape}: vector axis {self.vector}, tile axis {self.tile}, unroll {self.unroll}, "
            f"threads share {self.threads}{pieces}, cost {self.cost}"
        )


def make_plan(kernel: Kernel, groups: list[Group], lanes: int) -> Plan:
    """Choose loops for `kernel` on vectors of `lanes` 32-bit numbers."""
    cost = max((_cost(g.recorded.block) for g in groups), default=1)
    atomic = any(n.op == "store_atomic_add" for g in groups for n in g.recorded.walk())
    outer = loop_axes("i", kernel.outer)
    scores = [axis_score(groups, symbol, extent, lanes) for symbol, extent in zip(outer, kernel.outer, strict=True)]
    best = _best(scores)
    if not any(g.reduced for g in groups):
        if atomic:
            return _atomic_plan(kernel, groups, outer, best, cost)
        tile = _tile_axis(groups, outer, kernel.outer, best)
        return Plan("points", best, tile, 1, "outer", cost)
    reduced = [g for g in groups if g.reduced]
    inner = loop_axes("r", kernel.reduction)
    inner_scores = [axis_score(reduced, s, e, lanes) for s, e in zip(inner, kernel.reduction, strict=True)]
    scans = any(g.scans for g in groups)
    # Running results go from lane to lane of the last axis; other reduction axes are loops around it.
    best_inner = len(inner) - 1 if scans and inner else _best(inner_scores)
    use_outer = best is not None and (best_inner is None or scores[best] > inner_scores[best_inner])
    shape, vector = ("outer", best) if use_outer else ("inner", best_inner)
    along = kernel.outer if use_outer else kernel.reduction
    extent = 1 if vector is None else along[vector]
    rows = any(not local.per_point for local in kernel.local)
    unroll = _tile_vectors(extent, lanes, rows) if use_outer else _unroll(extent, lanes)
    few = use_outer and static(extent) is not None and -(-size_of(extent) // lanes) <= min(unroll, 4)
    plan = Plan(shape, vector, None, unroll, "none" if atomic else "outer", cost, few)
    plan.split = None if atomic or rows or scans else _split_axis(kernel, groups, plan, lanes)
    return plan


def loop_axes(prefix: str, extents: Sequence[Any]) -> tuple[sympy.Symbol, ...]:
    """The loop variables of recorded bodies."""
    return tuple(sympy.Symbol(f"{prefix}{k}", integer=True, nonnegative=True) for k in range(len(extents)))


def size_of(extent: Any) -> int:
    """An extent as a number, for choices only."""
    known = static(extent)
    return TYPICAL if known is None else known


def _best(scores: list[float]) -> int | None:
    """The axis of the highest score, the last among equals."""
    return max(range(len(scores)), key=lambda k: (scores[k], k)) if scores else None


def axis_score(groups: list[Group], symbol: sympy.Symbol, extent: Any, lanes: int) -> float:
    """How well accesses run along an axis: contiguous is best, the same address good, strides and gathers bad."""
    score = 0.0
    for group in groups:
        for node in group.recorded.walk():
            if node.op != "load" and node.op not in STORES:
                continue
            linear = split_linear(node.attrs[1], symbol)
            step = None if linear is None else static(linear[0])
            score += {0: 0.5, 1: 4.0}.get(step, -1.0) if step is not None else -1.0
    used = min(1.0, size_of(extent) / lanes)
    return score * used if score > 0 else score - (1 - used)


def _tile_axis(
    groups: list[Group], outer: Sequence[sympy.Symbol], extents: Sequence[Any], vector: int | None
) -> int | None:
    """Another axis along which some access is contiguous that is strided along the vector axis."""
    if vector is None:
        return None
    for axis in range(len(outer)):
        if axis == vector or size_of(extents[axis]) < TILE or size_of(extents[vector]) < TILE:
            continue
        for group in groups:
            for node in group.recorded.walk():
                if node.op != "load" and node.op not in STORES:
                    continue
                along = split_linear(node.attrs[1], outer[axis])
                across = split_linear(node.attrs[1], outer[vector])
                if along and across and static(along[0]) == 1 and static(across[0]) not in (0, 1):
                    return axis
    return None


def unrolled(group: Group, most: int) -> int:
    """Vectors in flight of one loop along a reduction axis: enough to hide the latency of an addition, at most `most`.

    A longer body hides it by itself; there more accumulators would only make more code.
    """
    if not group.reductions or group.scans:
        return 1
    cost = _cost(group.recorded.block)
    return min(most, 4 if cost <= 6 else 2 if cost <= 14 else 1)


def _unroll(extent: Any, lanes: int) -> int:
    """The most vectors in flight: no more than the axis has."""
    vectors = max(1, size_of(extent) // lanes) if static(extent) is not None else 4
    return 4 if vectors >= 4 else 2 if vectors >= 2 else 1


def _tile_vectors(extent: Any, lanes: int, rows: bool) -> int:
    """The most vectors of a tile of outer points: memory is read in its order, but accumulators must stay in cache."""
    most = 2 if rows else 32
    known = static(extent)
    return most if known is None else max(1, min(most, -(-known // lanes)))


def _split_axis(kernel: Kernel, groups: list[Group], plan: Plan, lanes: int) -> int | None:
    """The reduction axis that threads may cut into pieces: with few outer points and many reduction points."""
    if not groups[0].reductions or any(static(e) is None for e in kernel.outer):
        return None
    shares, length = 1, 1
    for axis, extent in enumerate(kernel.outer):
        along = plan.shape == "outer" and axis == plan.vector
        shares *= (1 if plan.few else -(-size_of(extent) // (4 * lanes))) if along else size_of(extent)
    for extent in kernel.reduction:
        length *= max(size_of(extent), 1) if static(extent) is not None else 1 << 16
    if shares > 16 or length < 1 << 12:
        return None
    scalar = [k for k in range(len(kernel.reduction)) if plan.shape == "outer" or k != plan.vector]
    longest = max(scalar, key=lambda k: size_of(kernel.reduction[k]), default=None)
    return (
        longest
        if longest is not None and size_of(kernel.reduction[longest]) >= 32
        else plan.vector
        if plan.shape == "inner"
        else longest
    )


def _cost(block: Block) -> int:
    total = 0
    for node in block.walk():
        row = OPS.get(node.op)
        total += row.cost if row is not None else 0 if node.op == "constant" else 1
    return max(total, 1)


def _atomic_plan(
    kernel: Kernel, groups: list[Group], outer: Sequence[sympy.Symbol], best: int | None, cost: int
) -> Plan:
    """Additions that may collide: threads share an axis along which every address differs, else one thread does all."""
    for axis in range(len(outer)):
        if all(
            _separates(n.attrs[1], outer[axis], kernel.outer[axis])
            for g in groups
            for n in g.recorded.walk()
            if n.op in STORES
        ):
            return Plan("points", axis, None, 1, f"axis {axis}", cost)
    return Plan("points", best, None, 1, "none", cost)


def _separates(index: Any, symbol: sympy.Symbol, extent: Any) -> bool:
    """Whether different values of `symbol` can never give one address."""
    linear = split_linear(index, symbol)
    if linear is None or static(linear[0]) != 1:
        return False
    rest = sympy.sympify(linear[1])
    size = sympy.sympify(extent)
    for term in rest.args if rest.is_Add else (rest,):
        if term == 0:
            continue
        ratio = term / size
        if not (ratio.is_integer or (size.is_Integer and term.as_coeff_Mul()[0] % size == 0)):
            return False
    return True
