"""Loops of kernels with reductions, in both shapes: lanes along a reduction axis, or lanes along an outer axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy

from triptych_inductor.codegen.cpp.accumulators import (
    accumulator_type,
    needs_flush,
    needs_position,
    result_text,
    stepped,
)
from triptych_inductor.codegen.cpp.body import BodyWriter, Place
from triptych_inductor.codegen.cpp.groups import Group
from triptych_inductor.codegen.cpp.index import static
from triptych_inductor.codegen.cpp.naming import c_name
from triptych_inductor.codegen.cpp.types import TYPES
from triptych_inductor.loops.handlers import Value

if TYPE_CHECKING:
    from triptych_inductor.codegen.cpp.kernel import KernelWriter

BLOCK = 64  # steps that an accumulator of floating-point numbers takes between two flushes
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
        self.owner._shares()
        rows = self._declare_rows()
        with code.block("for (long t = begin; t < end; t++)"):
            self.owner.decode()
            if self.plan.shape == "inner":
                self._tile(1, "")
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
        name = self.owner.outer[self.plan.vector].name  # type: ignore[index]
        code, unroll = self.code, self.plan.unroll
        extent = static(self.kernel.outer[self.plan.vector])  # type: ignore[index]
        if extent is None or extent >= unroll * 4:
            with code.block(f"if (last_lane - first_lane == {unroll}*N)"):
                self._tile(unroll, "")
            head = "else for (long base = first_lane; base < last_lane; base += N)"
        else:
            head = "for (long base = first_lane; base < last_lane; base += N)"
        with code.block(head):
            code.line("const long k = min_of(N, last_lane - base);")
            code.line("const long first_lane = base;")
            self._tile(1, "k")
        del name

    def _tile(self, unroll: int, tail: str) -> None:
        """All groups for the outer point (inner) or the `unroll` vectors of outer points (outer) at hand."""
        slots = f"[{unroll}]" if self.plan.shape == "outer" else ""
        self.owner._declare_locals(slots)
        for number, group in enumerate(self.owner.groups):
            writer = self._writer(group, f"v{number}_")
            with self.code.block(""):
                if not group.reduced:
                    self._each_vector(writer, group.recorded.block.nodes, unroll, tail)
                elif self.plan.shape == "inner":
                    self._inner_group(group, writer)
                else:
                    self._outer_group(group, writer, unroll, tail)

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

    def _each_vector(self, writer: BodyWriter, nodes: list[Value], unroll: int, tail: str) -> None:
        """Statements at outer points."""
        if self.plan.shape == "inner":
            self.code.extend(writer.statements(nodes, Place()))
            return
        with self.code.block(f"for (int u = 0; u < {unroll}; u++)"):
            self.code.line(f"const long {writer.vector.name} = first_lane + u*N;")  # type: ignore[union-attr]
            self.code.extend(writer.statements(nodes, Place(tail, "[u]")))

    # Lanes along a reduction axis.

    def _inner_group(self, group: Group, writer: BodyWriter) -> None:
        reductions, unroll, code = group.reductions, self.plan.unroll if group.reductions else 1, self.code
        for node in reductions:
            code.line(f"{accumulator_type(node)} {self._accumulator(writer, node)}[{unroll}];")
        outer_depth = len(self.owner.outer)
        body = group.body()
        early = [n for n in body if writer.uniform(n) and writer.level(n) <= outer_depth]
        code.extend(writer.statements(early, Place()))
        axes = [k for k in range(len(self.kernel.reduction)) if k != self.plan.vector]
        self._nest(
            writer, axes, [n for n in body if n not in early], lambda rest: self._inner_vectors(writer, rest, unroll)
        )
        for node in reductions:
            name = self._accumulator(writer, node)
            code.line(f"{name}[0].flush();")
            if unroll > 1:
                code.line(f"for (int u = 1; u < {unroll}; u++) {{ {name}[u].flush(); {name}[0].merge({name}[u]); }}")
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
        size, known = self.owner.print(extent), static(extent)
        flush = [n for n in group.reductions if needs_flush(n)]
        blocked = bool(flush) and (known is None or known > BLOCK * unroll * 4)
        code.line(f"long {name} = 0;")
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
                code.line(f"for (int u = 0; u < {unroll}; u++) {self._accumulator(writer, node)}[u].flush();")
            code.line("}")
        if known is None or known % (16 * unroll) != 0:
            with code.block(f"for (; {name} < {size}; {name} += N)"):
                code.line(f"const long k = min_of(N, {size} - {name});")
                self._step_all(writer, nodes, Place("k"), "[0]")

    # Lanes along an outer axis.

    def _outer_group(self, group: Group, writer: BodyWriter, unroll: int, tail: str) -> None:
        code = self.code
        for node in group.reductions:
            code.line(f"{accumulator_type(node)} {self._accumulator(writer, node)}[{unroll}];")
        body = group.body()
        depth = len(self.owner.outer) - 1
        early = [n for n in body if writer.uniform(n) and writer.level(n) <= depth]
        code.extend(writer.statements(early, Place()))
        rest = [n for n in body if n not in early]

        def innermost(nodes: list[Value]) -> None:
            code.line(f"#pragma GCC unroll {unroll}")
            with code.block(f"for (int u = 0; u < {unroll}; u++)"):
                code.line(f"const long {writer.vector.name} = first_lane + u*N;")  # type: ignore[union-attr]
                self._step_all(writer, nodes, Place(tail, "[u]"), "[u]")

        self._nest(writer, list(range(len(self.kernel.reduction))), rest, innermost)
        if group.reductions or group.epilogue():
            with code.block(f"for (int u = 0; u < {unroll}; u++)"):
                code.line(f"const long {writer.vector.name} = first_lane + u*N;")  # type: ignore[union-attr]
                for node in group.reductions:
                    code.line(f"{self._accumulator(writer, node)}[u].flush();")
                    self._define_result(writer, node, f"{self._accumulator(writer, node)}[u]")
                code.extend(writer.statements(group.epilogue(), Place(tail, "[u]")))

    # Common to both.

    def _nest(self, writer: BodyWriter, axes: list[int], nodes: list[Value], innermost: Any) -> None:
        """Scalar loops over `axes`, with the values that belong to each depth; `innermost` writes the rest."""
        if not axes:
            innermost(nodes)
            return
        axis, code = axes[0], self.code
        symbol, extent = self.owner.reduction[axis], self.kernel.reduction[axis]
        name, size = symbol.name, self.owner.print(extent)
        depth = writer.level_of[symbol]
        with code.block(f"for (long {name} = 0; {name} < {size}; {name}++)"):
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
        unroll = self.plan.unroll
        for k in inside:
            extent = static(self.kernel.reduction[k])
            steps = None if extent is None or steps is None else steps * extent
        if self.plan.shape == "inner" and self.plan.vector is not None:
            extent = static(self.kernel.reduction[self.plan.vector])
            steps = None if extent is None or steps is None else steps * max(1, extent // (16 * unroll))
        count = self.plan.unroll
        every = 1 if steps is None else max(1, BLOCK // steps)
        name = self.owner.reduction[axis].name
        guard = "" if every == 1 else f"if ({name} % {every} == {every - 1}) "
        slots = "sizeof({0})/sizeof({0}[0])"
        for node in flush:
            accumulator = self._accumulator(writer, node)
            limit = slots.format(accumulator) if count > 1 else "1"
            self.code.line(f"{guard}for (unsigned u = 0; u < {limit}; u++) {accumulator}[u].flush();")

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
