"""From one `Kernel` to one C++ function with its loops, and the entry that shares them among threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triptych_inductor.codegen.cpp.body import BodyWriter, Names, Place
from triptych_inductor.codegen.cpp.emit import Code
from triptych_inductor.codegen.cpp.groups import Group, buffers_and_locals, group_stages
from triptych_inductor.codegen.cpp.index import IndexPrinter, static
from triptych_inductor.codegen.cpp.naming import c_name
from triptych_inductor.codegen.cpp.plan import Plan, loop_axes, make_plan
from triptych_inductor.codegen.cpp.reduce import ReductionLoops
from triptych_inductor.codegen.cpp.types import TYPES
from triptych_inductor.loops.kernel import Kernel, TensorArg


@dataclass(frozen=True)
class KernelText:
    """A generated function: its entry's name, the order of its arguments, the text, and the headers that it needs."""

    name: str
    arguments: tuple[str, ...]
    text: str
    sections: frozenset[str]
    plan: str


def kernel_arguments(kernel: Kernel) -> list[str]:
    """Names of what the compiled kernel is called with, in order: inputs, outputs that are not inputs, size symbols."""
    names = [a.name for a in kernel.inputs]
    names += [a.name for a in kernel.outputs if a.name not in names]
    return names + [str(s) for s in kernel.sizes]


def write_kernel(kernel: Kernel, lanes: int) -> KernelText:
    """C++ for `kernel` on vectors of `lanes` 32-bit numbers.

    Raises `TypeError` for what has no C++ form: an unsupported dtype or index expression.
    """
    for arg in buffers_and_locals(kernel):
        if arg.dtype not in TYPES:
            raise TypeError(f"{arg.name}: {arg.dtype} has no C++ form")
    groups = group_stages(kernel)
    plan = make_plan(kernel, groups, lanes)
    writer = KernelWriter(kernel, groups, plan)
    text = writer.write()
    return KernelText(kernel.name, tuple(kernel_arguments(kernel)), text, frozenset(writer.names.sections), str(plan))


SHARES = ("points", "width", "blocks", "tiles")
"""How the outer space is cut into shares: other axes' points, lanes of a block, blocks, tiles; computed once a call."""


class KernelWriter:
    """Writes the functions of one kernel."""

    def __init__(self, kernel: Kernel, groups: list[Group], plan: Plan) -> None:
        self.kernel = kernel
        self.groups = groups
        self.plan = plan
        self.code = Code()
        self.print = IndexPrinter()
        self.outer = loop_axes("i", kernel.outer)
        self.reduction = loop_axes("r", kernel.reduction)
        self.names = Names({a.name: a.dtype for a in buffers_and_locals(kernel)})
        self.read_later = set().union(*(g.reads for g in groups))
        self.reductions = ReductionLoops(self)

    @property
    def name(self) -> str:
        return c_name(self.kernel.name)

    def write(self) -> str:
        kernel, code = self.kernel, self.code
        for line in (kernel.description, *self._origins(), f"loops: {self.plan}"):
            if line:
                code.line("// " + line.replace("\n", " "))
        if self.plan.split is not None:
            self.reductions.declare_state()
        with code.block(f"static void {self.name}_part(const long *a, long begin, long end, long thread)"):
            self._unpack()
            if self.plan.shape == "points":
                self._points()
            else:
                self.reductions.write()
        self._entry()
        return code.text()

    def _origins(self) -> list[str]:
        return list(dict.fromkeys(o for g in self.groups for o in g.origin))

    # Arguments.

    def _pointers(self) -> list[tuple[TensorArg, bool]]:
        """Buffers in the order of arguments, each with whether it is written."""
        written = {a.name for a in self.kernel.outputs}
        inputs = {a.name for a in self.kernel.inputs}
        found = [(a, a.name in written) for a in self.kernel.inputs]
        return found + [(a, True) for a in self.kernel.outputs if a.name not in inputs]

    def _unpack(self) -> None:
        pointers = self._pointers()
        for k, (arg, written) in enumerate(pointers):
            const = "" if written else "const "
            memory = TYPES[arg.dtype].memory
            self.code.line(f"{const}{memory} *{c_name(arg.name)} = ({const}{memory} *)a[{k}];")
        self._unpack_sizes(len(pointers))
        count = len(pointers) + len(self.kernel.sizes)
        self.code.line(f"Failure *failure = (Failure *)a[{count}];")
        for k, name in enumerate(self._shared_names(), count + 1):
            self.code.line(f"const long {name} = a[{k}];")
        self.code.line("int bad = 0;")

    def _unpack_sizes(self, start: int) -> None:
        for k, symbol in enumerate(self.kernel.sizes):
            self.code.line(f"const long {self.print(symbol)} = a[{start + k}];")

    def _entry(self) -> None:
        """The function called from outside: sizes to the number of shares and threads."""
        code = self.code
        with code.block(f"static void {self.name}(const long *given, Failure *failure)"):
            count = len(kernel_arguments(self.kernel))
            for k, symbol in enumerate(self.kernel.sizes, count - len(self.kernel.sizes)):
                code.line(f"const long {self.print(symbol)} = given[{k}];")
            factors = [*self.kernel.outer, *self.kernel.reduction, self.plan.cost]
            code.line(f"const long work = {self._product(factors)};")
            self._shares()
            names = self._shared_names()
            if self.plan.split is not None:
                code.line(
                    f"const long splits = pieces(work, total, {self.print(self.kernel.reduction[self.plan.split])});"
                )
                code.line("long phase = 0, states = 0;")
            code.line(f"long a[{count + 1 + len(names)}] = {{}};")
            code.line(f"for (int k = 0; k < {count}; k++) a[k] = given[k];")
            code.line(f"a[{count}] = (long)failure;")
            for k, name in enumerate(names, count + 1):
                code.line(f"a[{k}] = {name};")
            if self.plan.split is not None:
                self._split_run(count + 1 + len(names))
            code.line(f"parallel({self.name}_part, a, total, threads);")
            if self.plan.split is not None:
                code.line("__builtin_free((void *)states);")

    def _split_run(self, count: int) -> None:
        """The first of two runs where threads take pieces of a reduction: states of the pieces go to memory."""
        with self.code.block("if (splits > 1)"):
            self.code.line(f"states = (long)aligned_alloc(64, total * splits * sizeof({self.name}_state));")
            self.code.line(f"a[{count - 1}] = states;")
            self.code.line(f"parallel({self.name}_part, a, total * splits, threads_for(work, total * splits));")
            self.code.line(f"a[{count - 2}] = 1;")

    def _shared_names(self) -> tuple[str, ...]:
        return SHARES if self.plan.split is None else (*SHARES, "splits", "phase", "states")

    def _product(self, factors: Sequence[Any]) -> str:
        texts = [self.print.atom(f) for f in factors if static(f) != 1]
        return "*".join(["1l", *texts])

    def _other_axes(self) -> list[int]:
        taken = {self.plan.vector if self.plan.shape != "inner" else None, self.plan.tile}
        return [k for k in range(len(self.outer)) if k not in taken]

    def _shares(self) -> None:
        """Declare `total`, the number of shares of the outer space, `threads`, and the variables of `SHARES`."""
        plan, kernel, code = self.plan, self.kernel, self.code
        code.line(f"const long points = {self._product([kernel.outer[k] for k in self._other_axes()])};")
        known = "1" if plan.threads == "none" else ""
        if plan.shape == "inner" or plan.vector is None:
            code.line("const long width = 1, blocks = 1, tiles = 1, total = points;")
            code.line(f"const long threads = {known or 'threads_for(work, total)'};")
            return
        extent = self.print(kernel.outer[plan.vector])
        tiles = "1" if plan.tile is None else f"({self.print(kernel.outer[plan.tile])} + 15) / 16"
        if plan.shape == "outer":
            most = f"points * (({extent} + N - 1) / N)"
            code.line(f"const long threads = {known or f'threads_for(work, {most})'};")
            tile = f"{plan.unroll} * N"
            if not plan.few:
                tile = f"tile_width({extent}, {tile}, (threads + points - 1) / points)"
            code.line(f"const long width = {tile};")
        else:
            width = f"(points >= 64 ? max_of({extent}, 1) : 2048)"
            if plan.threads.startswith("axis"):
                width = "4 * N"
            code.line(f"const long width = {width if plan.tile is None else '64'};")
        code.line(f"const long blocks = ({extent} + width - 1) / width, tiles = {tiles};")
        total = "blocks" if plan.threads.startswith("axis") else "points * tiles * blocks"
        code.line(f"const long total = {total};")
        if plan.shape != "outer":
            code.line(f"const long threads = {known or 'threads_for(work, total)'};")

    def decode(self) -> None:
        """Inside a loop over shares `t`: the block of the vector axis and the values of the other outer axes."""
        code, plan = self.code, self.plan
        if plan.split is None:
            code.line("long q = t;")
        else:
            code.line("const bool apart = splits > 1 && !phase;  // this share is one piece of a reduction")
            code.line("const long share = apart ? t / splits : t, piece = apart ? t % splits : 0;")
            code.line("long q = share;")
        if plan.shape != "inner" and plan.vector is not None:
            code.line("const long first_lane = q % blocks * width;")
            code.line(
                f"const long last_lane = min_of(first_lane + width, {self.print(self.kernel.outer[plan.vector])});"
            )
            code.line("q /= blocks;")
            if plan.tile is not None:
                code.line("const long first_row = q % tiles * 16;")
                code.line(f"const long last_row = min_of(first_row + 16, {self.print(self.kernel.outer[plan.tile])});")
                code.line("q /= tiles;")
        self.split_index("q", [(self.outer[k].name, self.kernel.outer[k]) for k in self._other_axes()])

    def split_index(self, text: str, axes: list[tuple[str, Any]]) -> None:
        """Row-major position `text` (a variable, which is used up) to one value for each axis."""
        for position, (name, extent) in enumerate(reversed(axes)):
            if position == len(axes) - 1:
                self.code.line(f"const long {name} = {text};")
            elif static(extent) == 1:
                self.code.line(f"const long {name} = 0;")
            else:
                size = self.print.atom(extent)
                self.code.line(f"const long {name} = {text} % {size};")
                self.code.line(f"{text} /= {size};")

    # Loops without reductions.

    def _points(self) -> None:
        plan, code = self.plan, self.code
        vector = None if plan.vector is None else self.outer[plan.vector]
        order = [self.outer[k] for k in self._other_axes()]
        order += [] if plan.tile is None else [self.outer[plan.tile]]
        writers = [
            BodyWriter(g, self.names, f"v{n}_", vector, order + ([vector] if vector else []))
            for n, g in enumerate(self.groups)
        ]
        outside = [[n for n in w.group.recorded.block.nodes if w.uniform(n) and w.level(n) == 0] for w in writers]
        for writer, nodes in zip(writers, outside, strict=True):
            code.extend(writer.statements(nodes, Place()))
        if plan.threads.startswith("axis"):
            with code.block("for (long s = begin; s < end; s++) for (long p = 0; p < points; p++)"):
                code.line("const long t = p * blocks + s;")
                self._point_body(writers, outside)
        else:
            with code.block("for (long t = begin; t < end; t++)"):
                self._point_body(writers, outside)
        self.report_failure()

    def report_failure(self) -> None:
        if self.names.may_fail:
            self.code.line("if (bad) failure->code = 2;")

    def _point_body(self, writers: list[BodyWriter], outside: list[list[Any]]) -> None:
        """One share: what is uniform along the vector axis, then the vectors."""
        plan, code = self.plan, self.code
        self.decode()
        if plan.vector is None:
            self._declare_locals("")
            for writer, done in zip(writers, outside, strict=True):
                rest = [n for n in writer.group.recorded.block.nodes if n not in done]
                code.extend(writer.statements(rest, Place("1")))
            return
        depth = len(self._other_axes())
        inner = []
        for writer, done in zip(writers, outside, strict=True):
            nodes = [n for n in writer.group.recorded.block.nodes if n not in done]
            hoisted = [n for n in nodes if writer.uniform(n) and writer.level(n) <= depth]
            code.extend(writer.statements(hoisted, Place()))
            inner.append([n for n in nodes if n not in hoisted])
        name = self.outer[plan.vector].name
        row = "" if plan.tile is None else self.outer[plan.tile].name
        rows = f"for (long {row} = first_row; {row} < last_row; {row}++)" if row else ""
        code.line(f"long {name} = first_lane;")
        with code.block(f"for (; {name} + N <= last_lane; {name} += N) {rows}".rstrip()):
            self._vector(writers, inner, Place())
        extent = static(self.kernel.outer[plan.vector])
        if extent is not None and extent % 16 == 0:
            return  # every vector is whole, whatever the width
        with code.block(f"if ({name} < last_lane) {rows}".rstrip()):
            code.line(f"const long k = last_lane - {name};")
            self._vector(writers, inner, Place("k"))

    def _vector(self, writers: list[BodyWriter], inner: list[list[Any]], place: Place) -> None:
        self._declare_locals("")
        for writer, nodes in zip(writers, inner, strict=True):
            self.code.extend(writer.statements(nodes, place))

    def _declare_locals(self, slots: str) -> None:
        for local in self.kernel.local:
            if local.name in self.read_later and local.name not in self.names.rows:
                self.code.line(f"{TYPES[local.dtype].vector} local_{c_name(local.name)}{slots};")
