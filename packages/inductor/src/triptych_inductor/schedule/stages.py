"""From a group to a `Kernel`: members into stages, values handed on by register, local or memory, canonical names.

A stage is one loop body. Members that exchange values point to point share a stage; a member that needs a reduction's
result, or stands in another place (outer / point), goes to a later one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from triptych_inductor.ir.extents import hint, product
from triptych_inductor.ir.index import Index, Indirect, Quotient, Var
from triptych_inductor.ir.nodes import Buffer, IRGraph, walk
from triptych_inductor.ir.record import IndexRecorder, Replayer
from triptych_inductor.loops.handlers import Value, current
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triptych_inductor.schedule.groups import Group, Member


@dataclass
class KernelCall:
    """A kernel and the buffers and sizes of one call, in the order of its arguments."""

    kernel: Kernel
    inputs: list[str]  # buffers read, those updated in place last
    outputs: list[str]
    sizes: list[Any]
    key: str
    origin: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Buffers in calling order: inputs, then outputs that are not inputs."""
        return [*self.inputs, *[n for n in self.outputs if n not in self.inputs]]


@dataclass
class _StageDraft:
    place: str  # "outer" or "reduced"
    members: list[Member] = field(default_factory=list)
    recorder: IndexRecorder | None = None


def _draft(group: Group) -> tuple[list[_StageDraft], dict[str, int]]:
    """Members in stages, and the stage in which each buffer is written."""
    drafts: list[_StageDraft] = []
    written_in: dict[str, int] = {}
    read_in: dict[str, int] = {}
    late: dict[str, bool] = {}  # buffer -> its value exists only after its stage's loop
    reduces = bool(group.reduction)
    for member in group.members:
        place = "reduced" if reduces and member.place != "outer" else "outer"
        earliest = 0
        for name in member.node.read_names | member.node.write_names:
            if name in written_in:
                k = written_in[name]
                apart = late[name] or drafts[k].place != place
                earliest = max(earliest, k + 1 if apart else k)
        for name in member.node.write_names:
            if name in read_in:  # overwritten after it was read
                apart = drafts[read_in[name]].place != place or member.place == "reduction"
                earliest = max(earliest, read_in[name] + apart)
        stage = next((k for k in range(earliest, len(drafts)) if drafts[k].place == place), None)
        if stage is None:
            drafts.append(_StageDraft(place))
            stage = len(drafts) - 1
        drafts[stage].members.append(member)
        for name in member.node.read_names:
            read_in[name] = max(read_in.get(name, 0), stage)
        for name in member.node.write_names:
            written_in[name] = stage
            late[name] = member.place == "reduction"
    return drafts, written_in


class _Merge(Replayer):
    """Replays one member into a stage's recorder: addresses over the group's axes, values forwarded inside the
    kernel."""

    def __init__(self, build: KernelBuilder, recorder: IndexRecorder, member: Member, stage: int) -> None:
        super().__init__(recorder, dict(member.mapping))
        self.build, self.member, self.stage = build, member, stage

    def index(self, index: Any) -> Any:
        if not isinstance(index, Index):
            return index
        return index.map_atoms(self.symbols.get)

    def _load(self, node: Value) -> Any:
        name, index = node.attrs
        found = self.build.forwarded.get(name)
        if found is not None and found[0] == self.stage:
            return found[1]
        if name in self.build.locals:
            return self.handler.local_get(name)
        return self.handler.load(name, self.index(index))

    def _store(self, node: Value, args: list[Any]) -> Any:
        name, index = node.attrs
        if name in self.build.locals:
            self.handler.local_set(name, args[0])
        if name in self.build.kept:
            getattr(self.handler, node.op)(name, self.index(index), args[0])
        if node.op == "store":
            self.build.forwarded[name] = (self.stage, args[0])
        return None

    def evaluate(self, node: Value) -> Any:
        if node.op == "load":
            return self._load(node)
        if node.op in ("store", "store_reduction"):
            return self._store(node, [self.values[a.number] for a in node.args])
        return super().evaluate(node)


class KernelBuilder:
    """Builds the kernel of one group. `kept`: buffers that someone outside reads; others stay inside the kernel."""

    def __init__(self, group: Group, graph: IRGraph, kept: set[str]) -> None:
        self.group = group
        self.graph = graph
        self.drafts, self.written_in = _draft(group)
        self.kept = kept
        self.locals: dict[str, LocalArg] = {}
        self.forwarded: dict[str, tuple[int, Value]] = {}
        self._choose_locals()

    def _choose_locals(self) -> None:
        """Buffers that a later stage reads travel in locals: always scalars, rows only when nobody else stores them."""
        for k, draft in enumerate(self.drafts):
            for member in draft.members:
                for name in dict.fromkeys([name for name, _ in member.node.reads]):
                    source = self.written_in.get(name)
                    if source is None or source >= k:
                        continue
                    writer = self.group.written[name]
                    if writer.per_point and name in self.kept:
                        continue
                    self.locals[name] = LocalArg(name, self.graph.buffers[name].dtype, not writer.per_point)

    def build(self, name: str) -> KernelCall:
        dtypes = self.graph.dtypes
        for k, draft in enumerate(self.drafts):
            draft.recorder = IndexRecorder({**dtypes})
            with_recorder = draft.recorder
            for member in draft.members:
                _Merge(self, with_recorder, member, k).run(member.node.values)
        bodies = [draft.recorder.block.nodes for draft in self.drafts]  # type: ignore[union-attr]
        bodies = [_without_dead(body) for body in bodies]
        return _finish(name, self, bodies)


def _without_dead(body: list[Value]) -> list[Value]:
    """The body without values that nothing with an effect needs."""
    needed: set[int] = set()
    kept: list[Value] = []
    for value in reversed(body):
        if value.dtype is None or value.op == "indirect" or value.number in needed:
            kept.append(value)
            _mark(value, needed)
    return kept[::-1]


def _mark(value: Value, needed: set[int]) -> None:
    needed.update([a.number for a in value.args])
    for attribute in value.attrs:
        if isinstance(attribute, Index):
            needed.update([a.number for a in attribute.atoms() if isinstance(a, Indirect)])
    if value.region is not None:
        for inner in value.region.nodes:
            _mark(inner, needed)


class _Names:
    """Canonical argument names (in0, out0, tmp0) in order of appearance, so that equal kernels are equal records."""

    def __init__(self, builder: KernelBuilder, bodies: list[list[Value]]) -> None:
        self.names: dict[str, str] = {}
        self.read: list[str] = []
        self.written: list[str] = []
        for body in bodies:
            for value in walk(body):
                if value.op == "load" and value.attrs[0] not in self.read:
                    self.read.append(value.attrs[0])
                elif (
                    value.op in ("store", "store_reduction", "store_atomic_add") and value.attrs[0] not in self.written
                ):
                    self.written.append(value.attrs[0])
        for k, name in enumerate(self.written):
            self.names[name] = f"out{k}"
        for k, name in enumerate([n for n in self.read if n not in self.written]):
            self.names[name] = f"in{k}"
        for k, name in enumerate(builder.locals):
            self.names.setdefault("local:" + name, f"tmp{k}")


class _StageBody:
    """The define-by-run body of a stage: replays its record with the code generator's loop variables."""

    def __init__(
        self, values: list[Value], outer: Sequence[Var], reduction: Sequence[Var], names: dict[str, str]
    ) -> None:
        self.values, self.outer, self.reduction, self.names = values, tuple(outer), tuple(reduction), names

    def __call__(self, outer: Sequence[Any], reduction: Sequence[Any]) -> None:
        symbols = dict(zip(self.outer, outer, strict=True))
        if self.reduction:
            symbols.update(zip(self.reduction, reduction, strict=False))
        _NamedReplay(current(), symbols, self.names).run(self.values)


class _NamedReplay(Replayer):
    """A replay that gives buffers and locals their canonical names."""

    def __init__(self, handler: Any, symbols: dict[Any, Any], names: dict[str, str]) -> None:
        super().__init__(handler, symbols)
        self.names = names

    def evaluate(self, node: Value) -> Any:
        if node.op in ("load", "store", "store_reduction", "store_atomic_add"):
            args = [self.values[a.number] for a in node.args]
            return getattr(self.handler, node.op)(self.names[node.attrs[0]], self.index(node.attrs[1]), *args)
        if node.op in ("local_set", "local_get"):
            args = [self.values[a.number] for a in node.args]
            return getattr(self.handler, node.op)(self.names["local:" + node.attrs[0]], *args)
        return super().evaluate(node)


def _tensor_arg(name: str, buffer: Buffer) -> TensorArg:
    return TensorArg(name, buffer.dtype, buffer.extent)


def _finish(name: str, builder: KernelBuilder, bodies: list[list[Value]]) -> KernelCall:
    group, graph = builder.group, builder.graph
    naming = _Names(builder, bodies)
    names = naming.names
    stages = []
    for draft, body in zip(builder.drafts, bodies, strict=True):
        origin = tuple(dict.fromkeys(line for m in draft.members for line in m.node.origin))
        reduced = draft.place == "reduced"
        stages.append(Stage(_StageBody(body, group.axes, group.reduction if reduced else (), names), reduced, origin))
    inputs = [n for n in naming.read if n not in naming.written]
    updated = [n for n in naming.read if n in naming.written]
    sizes = _size_symbols(group, bodies, [graph.buffers[n] for n in (*naming.read, *naming.written)])
    kernel = Kernel(
        name=name,
        device=group.members[0].node.device,
        outer=tuple([v.extent for v in group.axes]),
        reduction=tuple([v.extent for v in group.reduction]),
        stages=stages,
        inputs=[_tensor_arg(names[n], graph.buffers[n]) for n in (*inputs, *updated)],
        outputs=[_tensor_arg(names[n], graph.buffers[n]) for n in naming.written],
        local=[LocalArg(names["local:" + n], a.dtype, a.per_point) for n, a in builder.locals.items()],
        sizes=sizes,
        typical=tuple([hint(size, graph.hints) for size in sizes]),
        description=f"{product([v.extent for v in group.axes])} x {product([v.extent for v in group.reduction])}",
    )
    origin = tuple(dict.fromkeys(line for stage in stages for line in stage.origin))
    return KernelCall(kernel, [*inputs, *updated], naming.written, sizes, _key(kernel, bodies, group, names), origin)


def _size_symbols(group: Group, bodies: list[list[Value]], buffers: list[Buffer]) -> list[Any]:
    """All size symbols that the kernel's text will mention, in a stable order."""
    found: set[Any] = set()

    def visit(item: Any) -> None:
        if isinstance(item, Index):
            visit(item.const)
            for atom, coefficient in item.terms.items():
                visit(coefficient)
                if isinstance(atom, Quotient):
                    visit(atom.divisor)
                    visit(atom.inner)
                elif isinstance(atom, Indirect):
                    visit(atom.extent)
        elif hasattr(item, "free_symbols"):
            found.update(item.free_symbols)

    for var in (*group.axes, *group.reduction):
        visit(var.extent)
    for buffer in buffers:
        visit(buffer.extent)
    for body in bodies:
        for value in walk(body):
            for attribute in value.attrs:
                visit(attribute)
    return sorted(found, key=str)


def _key(kernel: Kernel, bodies: list[list[Value]], group: Group, names: dict[str, str]) -> str:
    """A content key: two kernels with the same key compute the same function of their arguments."""
    labels = {v: f"i{k}" for k, v in enumerate(group.axes)} | {v: f"r{k}" for k, v in enumerate(group.reduction)}
    parts: list[str] = [str(kernel.device.type), str(kernel.outer), str(kernel.reduction), str(kernel.sizes)]
    parts += [f"{a.name}:{a.dtype}:{a.numel}" for a in (*kernel.inputs, *kernel.outputs)]
    parts += [f"{a.name}:{a.dtype}:{a.per_point}" for a in kernel.local]
    for stage, body in zip(kernel.stages, bodies, strict=True):
        parts.append(f"stage {stage.reduced}")
        numbers: dict[int, int] = {}
        parts.append(_text(body, labels, names, numbers))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _text(body: list[Value], labels: dict[Var, str], names: dict[str, str], numbers: dict[int, int]) -> str:
    lines = []
    for value in body:
        inner = "" if value.region is None else "{" + _text(value.region.nodes, labels, names, numbers) + "}"
        numbers[value.number] = len(numbers)
        attrs = [_label(a, labels, names, numbers, value.op) for a in value.attrs]
        lines.append(f"{value.op} {[numbers[a.number] for a in value.args]} {attrs} {value.dtype} {inner}")
    return ";".join(lines)


def _label(item: Any, labels: dict[Var, str], names: dict[str, str], numbers: dict[int, int], op: str) -> str:
    if isinstance(item, Index):
        terms = sorted(f"{c}*{_label(a, labels, names, numbers, op)}" for a, c in item.terms.items())
        return "+".join([*terms, str(item.const)])
    if isinstance(item, Var):
        return labels[item]
    if isinstance(item, Quotient):
        return f"({_label(item.inner, labels, names, numbers, op)} {'%' if item.remainder else '//'} {item.divisor})"
    if isinstance(item, Indirect):
        return f"x{numbers.get(item.number, item.number)}"
    if isinstance(item, str):
        return names.get(item) or names.get("local:" + item) or item
    return repr(item)
