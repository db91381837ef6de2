"""Loops of kernels with reductions, in both shapes: lanes along a reduction axis, or lanes along an outer axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy

from triptych_inductor.codegen.cpp.accumulators import (
    accumulator_type,
    needs_flush,
    needs_position,
    result_text,
    scan_type,
    stepped,
)
from triptych_inductor.codegen.cpp.body import BodyWriter, Place
from triptych_inductor.codegen.cpp.groups import Group
from triptych_inductor.codegen.cpp.index import static
from triptych_inductor.codegen.cpp.naming import c_name
from triptych_inductor.codegen.cpp.plan import unrolled
from triptych_inductor.codegen.cpp.types import TYPES
from triptych_inductor.loops.handlers import Value

if TYPE_CHECKING:
    from triptych_inductor.codegen.cpp.kernel import KernelWriter

BLOCK = 16  # steps that an accumulator of floating-point numbers takes between two flushes
ROW_ON_STACK = 16384  # bytes of a local row that may lie on the stack


class ReductionLoops:
    """Writes the part function of a kernel whose plan is "inner" or "outer"."""

    def __init__(self, owner: KernelWriter) -> None:
        self.owner = owner
        self.plan = owner.plan
        self.code = owner.code
        self.kernel = owner.kernel

    def write(self) -> None:
        code = self.code
        rows = self._declare_rows()
        with code.block("for (long t = begin; t < end; t++)"):
            self.owner.decode()
            if self.plan.shape == "inner":
                self._tile()
            else:
                self._outer_tiles()
        code.extend(f"__builtin_free({name});" for name in rows)
        self.owner.report_failure()

    # Locals that hold a whole row.

    def _declare_rows(self) -> list[str]:
        """Memory for locals with a value at each reduction point; the names of what must be freed."""
        heap = []
        lanes = "" if self.plan.shape == "inner" else f"*{self.plan.unroll}*N"
        for local in self.kernel.local:
            if local.per_point or local.name not in self.owner.read_later:
                continue
            ctype = TYPES[local.dtype]
            name = f"row_{c_name(local.name)}"
            known = [static(e) for e in self.kernel.reduction]
            count = self.owner._product(self.kernel.reduction) + lanes
            bytes_ = ctype.size * (16 * self.plan.unroll if lanes else 1)
            for extent in known:
                bytes_ = bytes_ * extent if extent is not None else ROW_ON_STACK + 1
            if bytes_ <= ROW_ON_STACK:
                self.code.line(f"alignas(64) {ctype.memory} {name}[{count}];")
            else:
                self.code.line(
                    f"{ctype.memory} *{name} = ({ctype.memory} *)__builtin_malloc(({count}) * sizeof({ctype.memory}));"
                )
                heap.append(name)
            self.owner.names.rows[local.name] = f"{name} + {self._row_index(lanes)}"
        return heap

    def _row_index(self, lanes: str) -> str:
        """Where a row has the value of a reduction point: lanes lie side by side."""
        axes = list(range(len(self.kernel.reduction)))
        if not lanes and self.plan.vector is not None:
            axes = [k for k in axes if k != self.plan.vector] + [self.plan.vector]
        index = self._position(axes)
        return f"(({index})*{self.plan.unroll} + u)*N" if lanes else index

    def _position(self, axes: list[int] | None = None) -> str:
        """Position of the reduction point, row-major in the order of `axes` (default: the kernel's)."""
        text = ""
        for k in range(len(self.kernel.reduction)) if axes is None else axes:
            name = self.owner.reduction[k].name
            text = f"({text})*{self.owner.print.atom(self.kernel.reduction[k])} + {name}" if text else name
        return text or "0"

    # Tiles of outer points.

    def _outer_tiles(self) -> None:
        """Whole vectors of the tile at hand, and the lanes of a last partial one."""
        extent = self.owner.print(self.kernel.outer[self.plan.vector])  # type: ignore[index]
        if self.plan.few:
            self.code.line(f"constexpr long whole = {extent} / N, k = {extent} % N;")
        else:
            self.code.line("const long whole = (last_lane - first_lane) / N, k = (last_lane - first_lane) % N;")
        self._tile()

    def declare_state(self) -> None:
        """The accumulators of the first group, as they lie in memory when threads take pieces of a reduction."""
        group = self.owner.groups[0]
        slots = self._slots() or "[1]"
        with self.code.block(f"struct {self.owner.name}_state"):
            for node in group.reductions:
                self.code.line(f"{accumulator_type(node)} v0_sum{node.number}{slots};")
        self.code.lines[-1] += ";"

    def _pieces(self, group: Group, writer: BodyWriter, count: str) -> None:
        """After the loops of a group of which threads may have taken pieces: leave the state, or gather all states."""
        if not self._is_split(group):
            return
        state = f"{self.owner.name}_state"
        code, names = self.code, [self._accumulator(writer, n) for n in group.reductions]
        with code.block("if (splits > 1)"):
            code.line(f"{state} *all = ({state} *)states + share * splits;")
            with code.block("if (apart)"):
                for name in names:
                    code.line("#pragma GCC unroll 4")
                    with code.block(f"for (long u = 0; u < {count}; u++)"):
                        code.extend([f"{name}[u].flush();", f"all[piece].{name}[u] = {name}[u];"])
                code.line("continue;")
            for name in names:
                with code.block("for (long s = 0; s < splits; s++)"):
                    code.line("#pragma GCC unroll 4")
                    code.line(f"for (long u = 0; u < {count}; u++) {name}[u].merge(all[s].{name}[u]);")

    def _is_split(self, group: Group) -> bool:
        return self.plan.split is not None and group is self.owner.groups[0]

    def _range(self, group: Group, axis: int) -> tuple[str, str]:
        """Where the loop over a reduction axis begins and ends."""
        extent = self.kernel.reduction[axis]
        if not self._is_split(group) or axis != self.plan.split:
            return "0", self.owner.print(extent)
        return "piece_begin", "piece_end"

    def _declare_range(self, group: Group, step: str) -> None:
        if self._is_split(group):
            extent = self.owner.print(self.kernel.reduction[self.plan.split])  # type: ignore[index]
            for name, piece in (("begin", "piece"), ("end", "piece + 1")):
                start = f"piece_start({extent}, {piece}, splits, {step})"
                self.code.line(f"const long piece_{name} = splits > 1 && phase ? {extent} : {start};")

    def _tile(self) -> None:
        """All groups for the outer point (inner) or the vectors of outer points (outer) at hand."""
        self.owner._declare_locals(self._slots())
        for number, group in enumerate(self.owner.groups):
            writer = self._writer(group, f"v{number}_")
            with self.code.block(""):
                if not group.reduced:
                    self._outer_points(writer, group.recorded.block.nodes)
                elif self.plan.shape == "inner":
                    self._inner_group(group, writer)
                else:
                    self._outer_group(group, writer)

    def _slots(self) -> str:
        return f"[{self.plan.unroll}]" if self.plan.shape == "outer" else ""

    def _partial(self) -> bool:
        """Whether a tile may end with a partial vector."""
        extent = static(self.kernel.outer[self.plan.vector])  # type: ignore[index]
        return extent is None or extent % 16 != 0

    def _each_vector(self, writer: BodyWriter, write: Callable[[Place], None]) -> None:
        """Loops over the tile's vectors: `write` for whole ones, and once more for the lanes of a partial one."""
        name, code = writer.vector.name, self.code  # type: ignore[union-attr]
        if self.plan.few:
            code.line("#pragma GCC unroll 4")
        with code.block("for (long u = 0; u < whole; u++)"):
            code.line(f"const long {name} = first_lane + u*N;")
            write(Place("", "[u]"))
        if self._partial():
            with code.block("if (k)"):
                code.line(f"const long u = whole, {name} = first_lane + u*N;")
                write(Place("k", "[u]"))

    def _writer(self, group: Group, prefix: str) -> BodyWriter:
        outer, reduction = self.owner.outer, self.owner.reduction if group.reduced else ()
        vector: sympy.Symbol | None
        if self.plan.shape == "inner":
            vector = reduction[self.plan.vector] if reduction and self.plan.vector is not None else None
            order = [*outer, *(r for r in reduction if r is not vector), *([vector] if vector else [])]
        else:
            vector = outer[self.plan.vector]  # type: ignore[index]
            order = [*(o for o in outer if o is not vector), *reduction, vector]
        return BodyWriter(group, self.owner.names, prefix, vector, order)

    def _outer_points(self, writer: BodyWriter, nodes: list[Value]) -> None:
        """Statements at outer points."""
        if self.plan.shape == "inner":
            self.code.extend(writer.statements(nodes, Place()))
        else:
            self._each_vector(writer, lambda place: self.code.extend(writer.statements(nodes, place)))

    # Lanes along a reduction axis.

    def _inner_group(self, group: Group, writer: BodyWriter) -> None:
        reductions, unroll, code = group.reductions, unrolled(group, self.plan.unroll), self.code
        for node in reductions:
            code.line(f"{accumulator_type(node)} {self._accumulator(writer, node)}[{unroll}];")
        for node in group.scans:
            code.line(f"{scan_type(node)} {writer.scan_state(node)}[1];")
        outer_depth = len(self.owner.outer)
        body = group.body()
        early = [n for n in body if writer.uniform(n) and writer.level(n) <= outer_depth]
        code.extend(writer.statements(early, Place()))
        axes = [k for k in range(len(self.kernel.reduction)) if k != self.plan.vector]
        self._declare_range(group, f"({unroll}*N)" if self.plan.split == self.plan.vector else "1")
        self._nest(
            writer, axes, [n for n in body if n not in early], lambda rest: self._inner_vectors(writer, rest, unroll)
        )
        for node in reductions:
            name = self._accumulator(writer, node)
            code.line(f"{name}[0].flush();")
            if unroll > 1:
                code.line(f"#pragma GCC unroll {unroll}")
                code.line(f"for (int u = 1; u < {unroll}; u++) {{ {name}[u].flush(); {name}[0].merge({name}[u]); }}")
        if reductions:
            self._pieces(group, writer, "1")
        for node in reductions:
            name = self._accumulator(writer, node)
            code.line(f"{name}[0].across();")
            self._define_result(writer, node, f"{name}[0]")
        code.extend(writer.statements(group.epilogue(), Place()))

    def _inner_vectors(self, writer: BodyWriter, nodes: list[Value], unroll: int) -> None:
        """The loop along the vector axis: `unroll` vectors at a time, then one by one with the last one partial."""
        code, group = self.code, writer.group
        if self.plan.vector is None:
            self._step_all(writer, nodes, Place("1"), "[0]")
            return
        name = writer.vector.name  # type: ignore[union-attr]
        extent = self.kernel.reduction[self.plan.vector]
        begin, size = self._range(group, self.plan.vector)
        known = static(extent)
        flush = [n for n in group.reductions if needs_flush(n)]
        blocked = bool(flush) and (known is None or known > BLOCK * unroll * 16)
        code.line(f"long {name} = {begin};")
        step = f"{unroll}*N" if unroll > 1 else "N"
        head = f"for (; {name} + {step} <= {size}; {name} += {step})"
        if blocked:
            code.line(f"for (long stop = 0; {name} + {step} <= {size};) {{")
            code.line(f"stop = min_of({size}, {name} + {BLOCK}*{step});")
            head = f"for (; {name} + {step} <= stop; {name} += {step})"
        with code.block(head):
            if unroll == 1:
                self._step_all(writer, nodes, Place(), "[0]")
            else:
                code.line(f"const long at = {name};")
                code.line(f"#pragma GCC unroll {unroll}")
                with code.block(f"for (int u = 0; u < {unroll}; u++)"):
                    code.line(f"const long {name} = at + u*N;")
                    self._step_all(writer, nodes, Place(), "[u]")
        if blocked:
            for node in flush:
                code.line(f"#pragma GCC unroll {unroll}")
                code.line(f"for (int u = 0; u < {unroll}; u++) {self._accumulator(writer, node)}[u].flush();")
            code.line("}")
        if known is None or known % (16 * unroll) != 0:
            with code.block(f"for (; {name} < {size}; {name} += N)"):
                code.line(f"const long k = min_of(N, {size} - {name});")
                self._step_all(writer, nodes, Place("k"), "[0]")

    # Lanes along an outer axis.

    def _outer_group(self, group: Group, writer: BodyWriter) -> None:
        """Scalar loops over the reduction axes; in them every vector of the tile: memory is read in its order."""
        code = self.code
        for node in group.reductions:
            code.line(f"{accumulator_type(node)} {self._accumulator(writer, node)}{self._slots()};")
        for node in group.scans:
            code.line(f"{scan_type(node)} {writer.scan_state(node)}{self._slots()};")
        body = group.body()
        depth = len(self.owner.outer) - 1
        early = [n for n in body if writer.uniform(n) and writer.level(n) <= depth]
        code.extend(writer.statements(early, Place()))
        rest = [n for n in body if n not in early]

        def innermost(nodes: list[Value]) -> None:
            self._each_vector(writer, lambda place: self._step_all(writer, nodes, place, "[u]"))

        self._declare_range(group, "1")
        self._nest(writer, list(range(len(self.kernel.reduction))), rest, innermost)
        self._pieces(group, writer, "whole + (k > 0)")
        if group.reductions or group.epilogue():
            self._each_vector(writer, lambda place: self._finish(group, writer, place))

    def _finish(self, group: Group, writer: BodyWriter, place: Place) -> None:
        """Results of the reductions of one vector of outer points, and what is made of them."""
        for node in group.reductions:
            self.code.line(f"{self._accumulator(writer, node)}[u].flush();")
            self._define_result(writer, node, f"{self._accumulator(writer, node)}[u]")
        again = [n for n in group.support() if not writer.uniform(n)]
        self.code.extend(writer.statements([*again, *group.epilogue()], place))

    # Common to both.

    def _nest(self, writer: BodyWriter, axes: list[int], nodes: list[Value], innermost: Any) -> None:
        """Scalar loops over `axes`, with the values that belong to each depth; `innermost` writes the rest."""
        if not axes:
            innermost(nodes)
            return
        axis, code = axes[0], self.code
        symbol = self.owner.reduction[axis]
        name, (begin, size) = symbol.name, self._range(writer.group, axis)
        depth = writer.level_of[symbol]
        with code.block(f"for (long {name} = {begin}; {name} < {size}; {name}++)"):
            here = [n for n in nodes if writer.uniform(n) and writer.level(n) <= depth]
            code.extend(writer.statements(here, Place()))
            self._nest(writer, axes[1:], [n for n in nodes if n not in here], innermost)
            self._flush_at(writer, axis, axes[1:])

    def _flush_at(self, writer: BodyWriter, axis: int, inside: list[int]) -> None:
        """Flush accumulators so that about `BLOCK` steps lie between two flushes."""
        flush = [n for n in writer.group.reductions if needs_flush(n)]
        if not flush:
            return
        steps: int | None = 1
        unroll = unrolled(writer.group, self.plan.unroll)
        for k in inside:
            extent = static(self.kernel.reduction[k])
            steps = None if extent is None or steps is None else steps * extent
        if self.plan.shape == "inner" and self.plan.vector is not None:
            extent = static(self.kernel.reduction[self.plan.vector])
            steps = None if extent is None or steps is None else steps * max(1, extent // (16 * unroll))
        every = 1 if steps is None else max(1, BLOCK // steps)
        name = self.owner.reduction[axis].name
        guard = "" if every == 1 else f"if ({name} % {every} == {every - 1})"
        for node in flush:
            limit = unroll if self.plan.shape == "inner" else f"whole + {'(k > 0)' if self._partial() else '0'}"
            with self.code.block(guard):
                if self.plan.few or self.plan.shape == "inner":
                    self.code.line("#pragma GCC unroll 4")
                self.code.line(f"for (long u = 0; u < {limit}; u++) {self._accumulator(writer, node)}[u].flush();")

    def _accumulator(self, writer: BodyWriter, node: Value) -> str:
        return f"{writer.prefix}sum{node.number}"

    def _define_result(self, writer: BodyWriter, node: Value, accumulator: str) -> None:
        if node.attrs[0] == "welford":
            writer.text_of[node.number] = accumulator
            return
        self.code.line(writer._define(node, result_text(node, accumulator)))

    def _step_all(self, writer: BodyWriter, nodes: list[Value], place: Place, slot: str) -> None:
        """The values of one vector, then a step of every reduction."""
        self.code.extend(writer.statements(nodes, place))
        for node in writer.group.reductions:
            position = ""
            if needs_position(node):
                step = self._vector_step()
                position = f"iota({self._position()}, {step})" if step else f"splat((long)({self._position()}))"
            value = stepped(node, writer.text_of[node.args[0].number], position)
            count = f", {place.tail}" if place.tail and self.plan.shape == "inner" else ""
            self.code.line(f"{self._accumulator(writer, node)}{slot}.step({value}{count});")

    def _vector_step(self) -> str:
        """How far the row-major reduction position moves from lane to lane; "" when it does not."""
        if self.plan.shape == "outer" or self.plan.vector is None:
            return ""
        return self.owner._product(self.kernel.reduction[self.plan.vector + 1 :])
