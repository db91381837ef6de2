"""Scans as text: running results of a block, and what one block hands on to the next.

A row in one tile is one scan. Along a loop each block's results are joined to a carry, and the block's total moves the
carry on. Where programs share a row (`split_scans.py`), the carry starts from what the programs before have added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from triptych_inductor.codegen.triton import reductions
from triptych_inductor.codegen.triton.dtypes import text_of
from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.layout import Layout
from triptych_inductor.codegen.triton.nodes import NodeWriter
from triptych_inductor.codegen.triton.writer import HEAD, LOOP, KernelContext, Text
from triptych_inductor.loops.handlers import Value


@dataclass(frozen=True)
class ScanSpec:
    """One kind: components of its state ("value", "index"), their identities, and the library's total of a block."""

    parts: tuple[str, ...]
    start: tuple[str, ...]
    total: str


SCANS = {
    "sum": ScanSpec(("value",), ("0",), "reduce_sum"),
    "prod": ScanSpec(("value",), ("1",), "reduce_prod"),
    "logaddexp": ScanSpec(("value",), ("low",), "all_logaddexp"),
    "max": ScanSpec(("value", "index"), ("low", "-1"), "all_max"),
    "min": ScanSpec(("value", "index"), ("high", "-1"), "all_min"),
}
"""Every kind of `scan` of the vocabulary."""


def scans_of(stages: Sequence[StageFacts]) -> list[tuple[StageFacts, Value]]:
    """All scans of stages, in order."""
    return [(stage, node) for stage in stages for node in stage.nodes if node.op == "scan"]


class ScanWriter(NodeWriter):
    """A `NodeWriter` that knows scans. `carried`: workspaces with the state that a scan starts from, by number."""

    def __init__(self, context: KernelContext, layout: Layout) -> None:
        super().__init__(context, layout)
        self._carries = 0
        self.carried: dict[tuple[int, int], list[str]] = {}

    def scan_types(self, node: Value) -> list[torch.dtype]:
        """Dtypes of the components of a scan's state."""
        kind, dtype = node.attrs
        index = torch.int64 if self.layout.wide else torch.int32
        work = reductions.work_dtype(kind, dtype)
        return [index if part == "index" else work for part in SCANS[kind].parts]

    def on_scan(self, stage: StageFacts, node: Value) -> Any:
        kind, dtype = node.attrs
        types, block = self.scan_types(node), self.block_values(stage, node)
        axis = self._along().position
        running = self._named(f"lib.scan_{kind}({', '.join(block)}, {axis})", types)
        if self.loop is not None and not self.layout.row_programs:
            carry = self.start_carry(stage, node)
            running = self._joined(node, [*carry, *running])
            self.advance(node, carry, block)
        whole, place = self._whole(), self.place_of(self._whole())
        value = Text(running[0], types[0], whole, place)
        if types[0] is not dtype:
            value = self.assign(f"{value.name}.to({text_of(dtype)})", dtype, whole, place)
        if len(types) == 1:
            return value
        return value, self.assign(f"{running[1]}.to(tl.int64)", torch.int64, whole, place)

    def block_values(self, stage: StageFacts, node: Value) -> list[str]:
        """The components of a block's elements, over the whole tile and in the dtypes of the state."""
        types = self.scan_types(node)
        value = self.get(stage, node.args[0])
        text = value.name if value.dtype is types[0] else f"{value.name}.to({text_of(types[0])})"
        place = self.place_of(self._whole())
        spread = self.tile(Text(text, types[0], value.dims))
        found = [self.assign(spread, types[0], self._whole(), place).name if spread != text else text]
        if len(types) == 2:
            position = self.spread(self.address(self.context.row_major, {}), self._whole())
            found.append(self.assign(f"({position}).to({text_of(types[1])})", types[1], self._whole(), place).name)
        return found

    def start_carry(self, stage: StageFacts, node: Value) -> list[str]:
        """Names of the state that blocks hand on, set before the loop."""
        return self._start_state(node, frozenset(d.position for d in self.layout.outer), (stage.number, node.number))

    def _start_state(self, node: Value, dims: frozenset[int], key: tuple[int, int] | None = None) -> list[str]:
        shape, masks = self.layout.shape(dims), self.mask(dims)
        kept = None if key is None else self.carried.get(key)
        names = []
        for k, (word, part) in enumerate(zip(SCANS[node.attrs[0]].start, self.scan_types(node), strict=True)):
            names.append(f"carry{self._carries}")
            self._carries += 1
            text = f"tl.full({shape}, {reductions.identity_text(word, part, self.layout.wide)}, {text_of(part)})"
            if kept is not None:
                address = f"{self.use(kept[k])} + ({self.share_address()})"
                text = f"tl.load({', '.join([address, *([' & '.join(masks)] if masks else [])])})"
            self.head.append(f"{names[-1]} = {text}")
        return names

    def gather(self, stage: StageFacts, node: Value) -> list[str]:
        """Join the blocks of a loop element by element, where only the total of all is wanted (see `gathered`)."""
        state, types = self._start_state(node, self._whole()), self.scan_types(node)
        block = self.block_values(stage, node)
        for name, new, part in zip(state, self._joined(node, [*state, *block]), types, strict=True):
            self.line(f"{name} = {new}.to({text_of(part)})", LOOP)
        return state

    def gathered(self, node: Value, state: Sequence[str]) -> list[str]:
        """After the loop: the total of what was gathered, one each outer point."""
        total = f"lib.{SCANS[node.attrs[0]].total}({', '.join(state)}, {self._along().position})"
        return [f"{name}{self.layout.keep()}" for name in self._named(total, self.scan_types(node))]

    def _joined(self, node: Value, operands: Sequence[str]) -> list[str]:
        return self._named(f"lib.join_{node.attrs[0]}({', '.join(operands)})", self.scan_types(node))

    def advance(self, node: Value, carry: Sequence[str], block: Sequence[str]) -> None:
        """Take a block's total into the carry."""
        moved = self._joined(node, [*carry, *self.gathered(node, block)])
        for name, new, part in zip(carry, moved, self.scan_types(node), strict=True):
            self.line(f"{name} = {new}.to({text_of(part)})", LOOP)

    def share_address(self) -> str:
        """Text of the place of this program's share of an outer point in a workspace of split rows."""
        points = self.extent(_points(self.layout))
        return f"split * {points} + {self.flat()}"

    def flat(self) -> str:
        """Text of the number of an outer point, in the order of the tile's dimensions."""
        text = ""
        for dim in self.layout.outer:
            text = f"({text}) * {self.extent(dim.numel)} + {dim.letter}index" if text else f"{dim.letter}index"
        return text

    def _named(self, text: str, types: Sequence[torch.dtype]) -> list[str]:
        names = [f"t{self._count + k}" for k in range(len(types))]
        self._count += len(types)
        self.line(f"{', '.join(names)} = {text}", LOOP if self.loop is not None else HEAD)
        return names

    def _along(self) -> Any:
        reduction = self.layout.reduction
        assert reduction is not None
        return reduction

    def _whole(self) -> frozenset[int]:
        return frozenset(d.position for d in self.layout.dims)


def _points(layout: Layout) -> Any:
    result: Any = 1
    for dim in layout.outer:
        result = result * dim.numel
    return result
