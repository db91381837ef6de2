"""Sections of a function: the loop over the reduction axes, what follows it, and reductions under each layout.

`run` writes the values that a set of roots needs, stage by stage in program order, each once. A section is one such
run: the
loop of a group of stages, or the points after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from triptych_inductor.codegen.triton import reductions
from triptych_inductor.codegen.triton.dtypes import text_of
from triptych_inductor.codegen.triton.facts import StageFacts, operands
from triptych_inductor.codegen.triton.groups import closure
from triptych_inductor.codegen.triton.layout import Layout
from triptych_inductor.codegen.triton.scans import ScanWriter
from triptych_inductor.codegen.triton.writer import HEAD, LOOP, KernelContext, Text
from triptych_inductor.loops.handlers import Value

Root = tuple[StageFacts, Value]
_MOST_TOGETHER = 3  # sums of rows that are made in one step (`lib.reduce_sums2`, `lib.reduce_sums3`)


class SectionWriter(ScanWriter):
    """Writes sections. In a loop, reductions only take their step; `finish` makes their results."""

    def __init__(self, context: KernelContext, layout: Layout) -> None:
        super().__init__(context, layout)
        self._pending: list[tuple[StageFacts, Value, list[str]]] = []
        self._states = 0
        self._online_pending: list[tuple[StageFacts, Value, str, str]] = []
        self._finals: dict[str, list[Text]] = {}  # reduced states by the text of their final step
        self.spilled: dict[tuple[int, int], tuple[str, torch.dtype]] = {}  # values kept in a workspace, by number
        self.group: frozenset[int] = frozenset()  # stages of the loop that is being written
        self._together: dict[int, list[Root]] = {}  # sums (by id) that others are made with
        self.online: dict[int, Root] = {}  # maxima (by id) that a sum of exponentials runs along with, and that sum

    # Which nodes a set of roots needs.

    def needed(self, roots: Iterable[Root]) -> dict[int, set[int]]:
        """Numbers of the values to write, by stage number; values written before are not followed."""
        found: dict[int, set[int]] = {}
        todo = list(roots)
        while todo:
            stage, node = todo.pop()
            mine = found.setdefault(stage.number, set())
            if node.number in mine or (stage.number, node.number) in self.values:
                continue
            mine.add(node.number)
            if self._is_spilled(stage, node):
                continue
            if node.op == "local_get":
                made = self.context.definitions[(stage.number, node.number)]
                todo.append((made.stage, made.value))
            if node.region is not None:
                todo += [(d.stage, d.value) for d in self._locals_inside(stage, node)]
            todo += [(stage, n) for n in operands(node, stage)]
        return found

    def _locals_inside(self, stage: StageFacts, node: Value) -> list[Any]:
        assert node.region is not None
        table = self.context.definitions
        found = []
        for inner in node.region.walk():
            if inner.op == "local_get":
                found.append(table[(stage.number, inner.number)])
        return found

    def run(self, roots: Sequence[Root]) -> None:
        """Write `roots` and what they need, in program order."""
        wanted = self.needed(roots)
        self._together = self._sums_together(wanted)
        for stage in self.context.stages:
            numbers = wanted.get(stage.number)
            if not numbers:
                continue
            self.comment(stage)
            for node in stage.nodes:
                if node.number in numbers:
                    self.write(stage, node)

    def comment(self, stage: StageFacts) -> None:
        """The user's lines that a stage comes from."""
        for origin in stage.stage.origin:
            for text in str(origin).splitlines():
                self.line(f"# {text}", LOOP if self.loop is not None and stage.stage.reduced else HEAD)

    # Values that pass from loop to loop through memory.

    def _is_spilled(self, stage: StageFacts, node: Value) -> bool:
        return (stage.number, node.number) in self.spilled and stage.number not in self.group

    def write(self, stage: StageFacts, node: Value) -> None:
        """As in the base; a value that an earlier loop kept in memory is read back."""
        key = (stage.number, node.number)
        if key not in self.values and self._is_spilled(stage, node):
            name, dtype = self.spilled[key]
            whole = frozenset(d.position for d in self.layout.dims)
            self._barrier(name, LOOP)
            self.values[key] = self.assign(self._load_text(name, self._everywhere(), whole), dtype, whole, LOOP)
            return
        super().write(stage, node)

    def keep(self, stage: StageFacts, node: Value) -> None:
        """Store a value of the open loop in its workspace."""
        name, _ = self.spilled[(stage.number, node.number)]
        value = self.values[(stage.number, node.number)]
        whole = frozenset(d.position for d in self.layout.dims)
        masks = self.mask(whole)
        suffix = f", {' & '.join(masks)}" if masks else ""
        self.line(f"tl.store({self.use(name)} + ({self._everywhere().name}), {self.tile(value)}{suffix})", LOOP)
        self._wrote(name)

    def _everywhere(self) -> Text:
        """The number of every (outer, reduction) point."""
        reduction = self.layout.reduction
        assert reduction is not None
        whole = frozenset(d.position for d in self.layout.dims)
        text = f"({self.flat()}) * {self.extent(reduction.numel)} + {reduction.letter}index"
        return Text(text, torch.int64, whole, LOOP)

    # Reductions.

    def on_reduce(self, stage: StageFacts, node: Value) -> Any:
        kind, dtype = node.attrs
        value = self.get(stage, node.args[0])
        if self.loop is None or self.layout.row_programs:
            others = self._together.get(id(node), ())
            return self._sums_at_once(stage, node, others) if others else self._at_once(kind, dtype, value)
        if id(node) in self.online:
            return self._online(stage, node, value)
        state = self._start(kind, dtype)
        self._step(kind, dtype, state, self._prepared(kind, dtype, value))
        self._pending.append((stage, node, state))
        return None

    def _prepared(self, kind: str, dtype: torch.dtype, value: Text) -> str:
        """The reduced value in the work dtype, over the whole tile."""
        work = reductions.work_dtype(kind, dtype)
        text = value.name
        if kind in ("any", "all"):
            text = f"({text} != 0).to(tl.int32)" if value.dtype is not torch.bool else f"{text}.to(tl.int32)"
        elif work is not value.dtype:
            text = f"{text}.to({text_of(work)})"
        return self.tile(Text(text, work, value.dims))

    def _row_mask(self) -> str:
        reduction = self.layout.reduction
        assert reduction is not None
        return f"{reduction.letter}mask" if self.layout.needs_mask(reduction) else ""

    def _position(self) -> str:
        """The position of each element in the row-major order of the reduction axes, over the whole tile."""
        whole = frozenset(d.position for d in self.layout.dims)
        return self.spread(self.address(self.context.row_major, {}), whole)

    def _at_once(self, kind: str, dtype: torch.dtype, value: Text) -> Any:
        """Results of a reduction whose axes fit into the tile."""
        reduction = self.layout.reduction
        assert reduction is not None
        work = reductions.work_dtype(kind, dtype)
        prepared = self._prepared(kind, dtype, value)
        if kind == "welford":
            return self._moments(prepared, work, dtype)
        if kind in reductions.EXTREMES:
            return self._extreme_position(kind, dtype, prepared)
        spec = reductions.spec(kind)
        mask = self._row_mask()
        if mask:
            start = reductions.identity_text(spec.start[0], work, self.layout.wide)
            prepared = f"tl.where({mask}, {prepared}, {start}).to({text_of(work)})"
        return self.results(kind, dtype, reductions.final_text(kind, [prepared], reduction.position))

    def _sums_together(self, wanted: dict[int, set[int]]) -> dict[int, list[Root]]:
        """For the first of several sums of rows that need none of the others: those others.

        One step along the axis for all costs about as much as for one: threads wait for each other once.
        """
        sums = [
            (stage, node)
            for stage in self.context.stages
            for node in stage.reductions
            if node.number in wanted.get(stage.number, ()) and node.attrs[0] == "sum"
        ]
        found: dict[int, list[Root]] = {}
        taken: set[int] = set()
        for k, (stage, node) in enumerate(sums):
            if id(node) in taken:
                continue
            first = (stage.number, node.number)
            for other in sums[k + 1 :]:
                same = other[1].attrs == node.attrs and id(other[1]) not in taken
                if same and first not in closure([(other[0], other[1].args[0])], self.context.definitions):
                    found.setdefault(id(node), []).append(other)
                    taken.add(id(other[1]))
                    if len(found[id(node)]) == _MOST_TOGETHER - 1:
                        break
        return found

    def _sums_at_once(self, stage: StageFacts, node: Value, others: Sequence[Root]) -> Text:
        """Several sums of rows in one step; the others' results are remembered for when their turn comes."""
        kind, dtype = node.attrs
        roots: list[Root] = [(stage, node), *others]
        for other_stage, other in others:
            numbers = self.needed([(other_stage, other.args[0])])
            for earlier in self.context.stages:
                for value in earlier.nodes:
                    if value.number in numbers.get(earlier.number, ()):
                        self.write(earlier, value)
        work, mask = reductions.work_dtype(kind, dtype), self._row_mask()
        texts = []
        for root_stage, root in roots:
            text = self._prepared(kind, dtype, self.get(root_stage, root.args[0]))
            texts.append(f"tl.where({mask}, {text}, 0).to({text_of(work)})" if mask else text)
        reduction = self.layout.reduction
        assert reduction is not None
        names = [f"t{self._count + k}" for k in range(len(roots))]
        self._count += len(roots)
        final = f"lib.reduce_sums{len(roots)}({', '.join(texts)}, {reduction.position})"
        self.line(f"{', '.join(names)} = {final}", self.result_place)
        outer, keep = frozenset(d.position for d in self.layout.outer), self.layout.keep()
        for name, (root_stage, root) in zip(names, roots, strict=True):
            part = self.assign(f"{name}{keep}", work, outer, self.result_place)
            self.values[(root_stage.number, root.number)] = self.conclude(kind, dtype, [part])
        return self.values[(stage.number, node.number)]

    def _extreme_position(self, kind: str, dtype: torch.dtype, prepared: str) -> Text:
        """Position of an extreme in two cheap reductions: the value (shared with a `max` or `min` of the same), then
        the
        lowest position that has it."""
        reduction = self.layout.reduction
        assert reduction is not None
        work = reductions.work_dtype(kind, dtype)
        value_kind = reductions.EXTREMES[kind]
        mask = self._row_mask()
        if mask:
            start = reductions.identity_text(reductions.spec(value_kind).start[0], work, self.layout.wide)
            prepared = f"tl.where({mask}, {prepared}, {start}).to({text_of(work)})"
        final = reductions.final_text(value_kind, [prepared], reduction.position)
        (extreme,) = self.state(value_kind, dtype, final)
        whole = frozenset(d.position for d in self.layout.dims)
        value = self.assign(prepared, work, whole, self.result_place)
        found = f"({value.name} == {extreme.name})"
        if work.is_floating_point:
            found += f" | ({value.name} != {value.name})"
        index = torch.int64 if self.layout.wide else torch.int32
        top = reductions.identity_text("top", index, self.layout.wide)
        places = f"tl.where({found}, {self._position()}, {top}).to({text_of(index)})"
        place = self.assign(
            f"lib.reduce_min({places}, {reduction.position}){self.layout.keep()}",
            index,
            extreme.dims,
            self.result_place,
        )
        return self.assign(f"{place.name}.to(tl.int64)", torch.int64, place.dims, self.result_place)

    def _moments(self, value: str, work: torch.dtype, dtype: torch.dtype) -> tuple[Text, ...]:
        """Mean, sum of squared deviations and count of a whole row, in two passes over the tile."""
        reduction = self.layout.reduction
        assert reduction is not None
        axis, keep, mask = reduction.position, self.layout.keep(), self._row_mask()
        count = f"tl.full([], {self.extent(reduction.numel)}, {text_of(work)})"
        full = f"tl.where({mask}, {value}, 0.0)" if mask else value
        outer = frozenset(d.position for d in self.layout.outer)
        mean = self.assign(f"tl.sum({full}, {axis}){keep} / {count}", work, outer, self.result_place)
        deviation = f"{value} - {mean.name}"
        deviation = f"tl.where({mask}, {deviation}, 0.0)" if mask else deviation
        whole = frozenset(d.position for d in self.layout.dims)
        spread = self.assign(deviation, work, whole, self.result_place)
        m2 = self.assign(f"tl.sum({spread.name} * {spread.name}, {axis}){keep}", work, outer, self.result_place)
        return tuple(self._rounded(t, work, dtype) for t in (mean, m2, Text(count, work, frozenset())))

    def _rounded(self, value: Text, work: torch.dtype, dtype: torch.dtype) -> Text:
        if work is dtype:
            return value
        return self.assign(f"{value.name}.to({text_of(dtype)})", dtype, value.dims, value.place)

    def results(self, kind: str, dtype: torch.dtype, final: str) -> Any:
        """The value of a `reduce` node from its final step: a text, or three for `welford`."""
        return self.conclude(kind, dtype, self.state(kind, dtype, final))

    def state(self, kind: str, dtype: torch.dtype, final: str) -> list[Text]:
        """Name the parts of a reduced state, one each outer point."""
        if final in self._finals:
            return self._finals[final]
        types = reductions.part_dtypes(kind, dtype, self.layout.wide)
        names = [f"t{self._count + k}" for k in range(len(types))]
        self._count += len(types)
        self.line(f"{', '.join(names)} = {final}", self.result_place)
        outer = frozenset(d.position for d in self.layout.outer)
        keep = self.layout.keep()
        made = [self.assign(f"{n}{keep}", t, outer, self.result_place) for n, t in zip(names, types, strict=True)]
        self._finals[final] = made
        return made

    def conclude(self, kind: str, dtype: torch.dtype, parts: list[Text]) -> Any:
        """From the parts of a reduced state to the node's value."""
        if kind in ("any", "all"):
            return self.assign(f"{parts[0].name} != 0", torch.bool, parts[0].dims, self.result_place)
        if kind in ("argmax", "argmin"):
            return self.assign(f"{parts[1].name}.to(tl.int64)", torch.int64, parts[1].dims, self.result_place)
        work = reductions.work_dtype(kind, dtype)
        if kind == "welford":
            return tuple(self._rounded(p, work, dtype) for p in parts)
        if dtype is torch.bool:
            return self.assign(f"{parts[0].name} != 0", torch.bool, parts[0].dims, self.result_place)
        return self._rounded(parts[0], work, dtype)

    def _start(self, kind: str, dtype: torch.dtype) -> list[str]:
        """Accumulators of one reduction, set to the identity before the loop."""
        types = reductions.part_dtypes(kind, dtype, self.layout.wide)
        whole = self.layout.shape(frozenset(d.position for d in self.layout.dims))
        names = []
        for word, part in zip(reductions.spec(kind).start, types, strict=True):
            names.append(f"acc{self._states}")
            self._states += 1
            start = reductions.identity_text(word, part, self.layout.wide)
            self.head.append(f"{names[-1]} = tl.full({whole}, {start}, {text_of(part)})")
        return names

    def _step(self, kind: str, dtype: torch.dtype, state: list[str], value: str) -> None:
        """Take one block into the accumulators; elements past the end leave them as they are."""
        reduction = self.layout.reduction
        assert reduction is not None
        mask = self._row_mask()
        types = reductions.part_dtypes(kind, dtype, self.layout.wide)
        position = self._position() if len(state) == 2 else ""
        rising = self.context.rising(reduction)
        shown = mask or "True"
        if kind == "welford":
            inside = self.tile(Text(shown, torch.bool, self.moving)) if mask else self._always()
            text = reductions.step_text(kind, dtype, state, value, position, inside)
            self.line(f"{', '.join(state)} = {text}", LOOP)
            return
        text = reductions.step_text(kind, dtype, state, value, position, shown, rising)
        if len(state) == 1:
            new = f"tl.where({mask}, {text}, {state[0]})" if mask else text
            self.line(f"{state[0]} = ({new}).to({text_of(types[0])})", LOOP)
            return
        fresh = [f"{name}_new" for name in state]
        self.line(f"{', '.join(fresh)} = {text}", LOOP)
        for old, new in zip(state, fresh, strict=True):
            self.line(f"{old} = tl.where({mask}, {new}, {old})" if mask else f"{old} = {new}", LOOP)

    def _online(self, stage: StageFacts, node: Value, value: Text) -> None:
        """A step of a row's maximum and of the sum of exponentials below it (see `online.py`)."""
        reduction = self.layout.reduction
        assert reduction is not None
        kind, dtype = node.attrs
        work, outer = reductions.work_dtype(kind, dtype), frozenset(d.position for d in self.layout.outer)
        top, total = f"top{self._states}", f"below{self._states}"
        self._states += 1
        whole, kept = frozenset(d.position for d in self.layout.dims), text_of(work)
        self.head.append(f"{top} = tl.full({self.layout.shape(outer)}, float('-inf'), {kept})")
        self.head.append(f"{total} = tl.full({self.layout.shape(whole)}, 0.0, {kept})")
        block = self.assign(self._prepared(kind, dtype, value), work, whole, LOOP).name
        mask = self._row_mask()
        if mask:
            block = self.assign(f"tl.where({mask}, {block}, float('-inf'))", work, whole, LOOP).name
        largest = f"lib.reduce_max({block}, {reduction.position}){self.layout.keep()}"
        new = self.assign(f"lib.maximum({top}, {largest})", work, outer, LOOP).name
        # Nothing but -inf so far: a difference of infinities would be NaN.
        shift = self.assign(f"tl.where({new} == float('-inf'), 0.0, {new})", work, outer, LOOP).name
        # Nothing but the sum sees these exponentials, and their error falls with their size: the fast one will do.
        exp = "tl.exp" if work is torch.float32 else "libdevice.exp"
        self.line(f"{total} = {total} * {exp}({top} - {shift}) + {exp}({block} - {shift})", LOOP)
        self.line(f"{top} = {new}", LOOP)
        self._online_pending.append((stage, node, top, total))

    def _finish_online(self) -> None:
        """After the loop: results of maxima and of the sums that ran along."""
        reduction = self.layout.reduction
        assert reduction is not None
        outer = frozenset(d.position for d in self.layout.outer)
        for stage, node, top, total in self._online_pending:
            kind, dtype = node.attrs
            work = reductions.work_dtype(kind, dtype)
            self.values[(stage.number, node.number)] = Text(top, work, outer)
            sum_stage, sum_node = self.online[id(node)]
            text = f"lib.reduce_sum({total}, {reduction.position}){self.layout.keep()}"
            # exp(-inf - -inf) is NaN for every element.
            text = f"tl.where({top} == float('-inf'), float('nan'), {text})"
            self.values[(sum_stage.number, sum_node.number)] = self.assign(text, work, outer, HEAD)
        self._online_pending.clear()

    def _always(self) -> str:
        whole = self.layout.shape(frozenset(d.position for d in self.layout.dims))
        return f"tl.full({whole}, 1, tl.int1)"

    def finish(self) -> None:
        """After the loop: reduce the accumulators along the axis."""
        self._finish_online()
        for stage, node, parts in self.partial_results():
            self.values[(stage.number, node.number)] = self.conclude(node.attrs[0], node.attrs[1], parts)

    def partial_results(self) -> list[tuple[StageFacts, Value, list[Text]]]:
        """After the loop: the reduced state of each of its reductions, in the work dtypes."""
        reduction = self.layout.reduction
        assert reduction is not None
        done = []
        for stage, node, state in self._pending:
            kind, dtype = node.attrs
            done.append((stage, node, self.state(kind, dtype, reductions.final_text(kind, state, reduction.position))))
        self._pending.clear()
        return done
