"""Bodies to C++: the values of a `Group` as vector statements.

`BodyWriter` first finds for each value which loop variables it depends on. Values that do not depend on the vector
variable are uniform: their index arithmetic is scalar and they are emitted outside the vector loop. The others are
emitted in it, in two versions: for a whole vector, and for the first k lanes at the end of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from triptych_inductor.codegen.cpp.groups import Group
from triptych_inductor.codegen.cpp.index import IndexPrinter, split_linear, static, symbols_of
from triptych_inductor.codegen.cpp.naming import c_name
from triptych_inductor.codegen.cpp.text import op_section, op_text
from triptych_inductor.codegen.cpp.types import TYPES, cast_text, literal
from triptych_inductor.loops.handlers import STORES, Value

FAILURE_CODES = {"index": 1, "gather": 3, "table": 4, "class": 5}
"""What an index out of range is: the codes of `Failure` in `header/support.h`."""

_NO_SYMBOLS: frozenset[sympy.Symbol] = frozenset()


@dataclass
class Place:
    """Where statements are emitted: `tail` is the count of lanes ("" for all), `slot` the subscript of per-point
    values."""

    tail: str = ""
    slot: str = ""
    mask: str = ""  # lanes that a surrounding masked region leaves


@dataclass
class Names:
    """C++ texts of what a body refers to."""

    dtypes: dict[str, torch.dtype]
    rows: dict[str, str] = field(default_factory=dict)  # local kept for each reduction point -> address expression
    sections: set[str] = field(default_factory=set)  # headers needed
    may_fail: bool = False


class BodyWriter:
    """Writes the statements of one group. `vector` is the variable whose neighbouring values share a vector."""

    def __init__(
        self, group: Group, names: Names, prefix: str, vector: sympy.Symbol | None, order: Sequence[sympy.Symbol]
    ) -> None:
        self.group = group
        self.names = names
        self.prefix = prefix
        self.vector = vector
        self.level_of = {symbol: k + 1 for k, symbol in enumerate(order)}
        self.outer = frozenset(group.recorded.outer)
        self.everything = self.outer | frozenset(group.recorded.reduction)
        self.symbol_of = {id(node): symbol for symbol, node in group.recorded.indirect.items()}
        self.written = {b for b, _ in group.recorded.stores()}
        self.depends: dict[int, frozenset[sympy.Symbol]] = {}
        self.text_of: dict[int, str] = {}
        self.printer = IndexPrinter({s: f"{prefix}at{n.number}" for s, n in group.recorded.indirect.items()})
        for node in group.recorded.block.nodes:
            self._find_dependencies(node)

    # Dependencies.

    def _index_dependencies(self, expr: Any) -> frozenset[sympy.Symbol]:
        found = _NO_SYMBOLS
        for symbol in symbols_of(expr):
            node = self.group.recorded.indirect.get(symbol)
            found |= self.depends[node.number] if node is not None else frozenset({symbol}) & self.everything
        return found

    def _find_dependencies(self, node: Value) -> frozenset[sympy.Symbol]:
        found = frozenset().union(*(self.depends[a.number] for a in node.args))
        if node.region is not None:
            found = found.union(*(self._find_dependencies(n) for n in node.region.nodes))
        if node.op in ("load", *STORES):
            found |= self._index_dependencies(node.attrs[1])
            if node.op == "load" and node.attrs[0] in self.written:
                found |= self._loop_variables()
        elif node.op in ("index_expr", "indirect"):
            found |= self._index_dependencies(node.attrs[0])
        elif node.op == "local_get":
            found |= self._loop_variables() if node.attrs[0] in self.names.rows else self.outer
        elif node.op == "reduce":
            found = self.outer
        elif node.op == "scan":
            found = self._loop_variables()
        if node.op in STORES or node.op == "local_set":
            found |= self._loop_variables() if node.number not in self.group.after else self.outer
        self.depends[node.number] = found
        return found

    def _loop_variables(self) -> frozenset[sympy.Symbol]:
        return self.everything if self.group.reduced else self.outer

    def level(self, node: Value) -> int:
        """How deep in the nest of loops a value belongs: 0 outside of all."""
        return max((self.level_of.get(s, 0) for s in self.depends[node.number]), default=0)

    def uniform(self, node: Value) -> bool:
        """Whether a value is the same in all lanes."""
        return self.vector is None or self.vector not in self.depends[node.number]

    # Statements.

    def statements(self, nodes: Sequence[Value], place: Place) -> list[str]:
        """C++ statements that evaluate `nodes` in order."""
        lines: list[str] = []
        for node in nodes:
            lines += self.statement(node, place)
        return lines

    def statement(self, node: Value, place: Place) -> list[str]:
        writer = getattr(self, "_write_" + node.op, None)
        if writer is not None:
            return writer(node, place)
        dtype = node.args[-1].dtype
        operands = [self.text_of[a.number] for a in node.args]
        text = op_text(node.op, dtype, operands, self.active(node, place))  # type: ignore[arg-type]
        self.names.sections.add(op_section(node.op, dtype))  # type: ignore[arg-type]
        self.names.may_fail |= "bad" in text
        return [self._define(node, text)]

    def _define(self, node: Value, text: str) -> str:
        name = f"{self.prefix}{node.number}"
        self.text_of[node.number] = name
        assert node.dtype is not None
        return f"const {TYPES[node.dtype].vector} {name} = {text};"

    def active(self, node: Value, place: Place) -> str:
        """The mask of lanes that count where `node` is evaluated."""
        if place.mask:
            return place.mask
        return f"first({place.tail})" if place.tail and not self.uniform(node) else "splat(true)"

    def _count(self, place: Place) -> str:
        return place.tail or "N"

    def _write_constant(self, node: Value, place: Place) -> list[str]:
        return [self._define(node, f"splat({literal(node.attrs[0], node.dtype)})")]  # type: ignore[arg-type]

    def _write_cast(self, node: Value, place: Place) -> list[str]:
        source = node.args[0]
        return [self._define(node, cast_text(self.text_of[source.number], source.dtype, node.dtype))]  # type: ignore[arg-type]

    def _write_bitcast(self, node: Value, place: Place) -> list[str]:
        source = node.args[0]
        from_, to = TYPES[source.dtype], TYPES[node.dtype]  # type: ignore[index]
        if from_.size != to.size:
            raise TypeError(f"bitcast from {source.dtype} to {node.dtype}: the widths differ")
        text = f"load(({to.memory} *)memory({self.text_of[source.number]}, ({from_.memory} *)0).data)"
        return [self._define(node, text)]

    def _write_index_expr(self, node: Value, place: Place) -> list[str]:
        expr = node.attrs[0]
        dtype = node.dtype
        assert dtype is not None
        wide = torch.int32 if dtype is torch.int32 else torch.int64
        scalar = TYPES[wide].scalar
        linear = None if self.uniform(node) else self._linear(expr)
        if self.uniform(node):
            text = f"splat(({scalar})({self.printer(expr)}))"
        elif linear is not None:
            start, step = self.printer(expr), self.printer(linear[0])
            text = f"iota(({scalar})({start}), ({scalar})({step}))"
        else:
            lanes = f"{self.prefix}lanes{node.number}"
            lines = [f"long {lanes}[N];", f"for (long l = 0; l < N; l++) {lanes}[l] = {self._lane_index(expr)};"]
            text = f"load((const long *){lanes})"
            return [*lines, self._define(node, cast_text(text, torch.int64, dtype))]
        return [self._define(node, cast_text(text, wide, dtype))]

    def _write_indirect(self, node: Value, place: Place) -> list[str]:
        size, check = node.attrs
        value = node.args[0]
        name = f"{self.prefix}at{node.number}"
        index = cast_text(self.text_of[value.number], value.dtype, torch.int64)  # type: ignore[arg-type]
        function = "checked" if check else "wrapped"
        code = f"<{FAILURE_CODES[check[0]]}, {check[1]}>" if check else ""
        last = ", failure" if check else ""
        if self.uniform(node):
            return [f"const long {name} = {function}_index{code}(lane0({index}), {self.printer(size)}{last});"]
        mask = self.active(node, place)
        return [f"long {name}[N];", f"{function}_indices{code}({name}, {index}, {self.printer(size)}, {mask}{last});"]

    # Memory.

    def _linear(self, expr: Any) -> tuple[Any, Any] | None:
        """(step, rest) in the vector variable, None where lanes need an index of their own."""
        if self.vector is None:
            return 0, expr
        for symbol in symbols_of(expr):
            node = self.group.recorded.indirect.get(symbol)
            if node is not None and not self.uniform(node):
                return None
        return split_linear(expr, self.vector)

    def _lane_index(self, expr: Any) -> str:
        """Index of lane l."""
        names = dict(self.printer.names)
        for symbol in symbols_of(expr):
            node = self.group.recorded.indirect.get(symbol)
            if node is not None and not self.uniform(node):
                names[symbol] = f"{self.prefix}at{node.number}[l]"
        if self.vector is not None:
            names[self.vector] = f"({self.vector.name} + l)"
        return IndexPrinter(names)(expr)

    def _write_load(self, node: Value, place: Place) -> list[str]:
        buffer, expr = node.attrs
        pointer = c_name(buffer)
        if self.uniform(node):
            return [self._define(node, f"splat(value_of({pointer}[{self.printer(expr)}]))")]
        linear = self._linear(expr)
        if linear is None:
            return self._gather(node, pointer, expr, place)
        step = static(linear[0])
        address = f"{pointer} + {self.printer.atom(expr) if step == 1 else self.printer(expr)}"
        count = f", {place.tail}" if place.tail else ""
        if place.mask:
            return [self._define(node, f"load_where({address}, {self.printer(linear[0])}, {place.mask})")]
        if step == 1:
            return [self._define(node, f"load({address}{count})")]
        return [self._define(node, f"load_step({address}, {self.printer(linear[0])}{count})")]

    def _gather(self, node: Value, pointer: str, expr: Any, place: Place) -> list[str]:
        assert node.dtype is not None
        memory, lanes = TYPES[node.dtype].memory, f"{self.prefix}lanes{node.number}"
        partial = place.tail or place.mask
        guard = f"if ({place.mask}[l]) " if place.mask else ""
        return [
            f"{memory} {lanes}[N]{' = {}' if partial else ''};",
            f"for (long l = 0; l < {self._count(place)}; l++) {guard}{lanes}[l] = {pointer}[{self._lane_index(expr)}];",
            self._define(node, f"load((const {memory} *){lanes})"),
        ]

    def _write_store(self, node: Value, place: Place) -> list[str]:
        buffer, expr = node.attrs
        pointer, value = c_name(buffer), self._stored(node)
        if self.vector is None or self.vector not in self.depends[node.number]:
            return [f"store({pointer} + {self.printer.atom(expr)}, {value}, 1);"]
        linear = self._linear(expr)
        count = f", {place.tail}" if place.tail else ""
        if linear is not None and static(linear[0]) == 1:
            return [f"store({pointer} + {self.printer.atom(expr)}, {value}{count});"]
        if linear is not None and static(linear[0]) != 0:
            step = self.printer(linear[0])
            return [f"store_step({pointer} + {self.printer(expr)}, {step}, {value}, {self._count(place)});"]
        return self._scatter(node, pointer, expr, place, f"{pointer}[{self._lane_index(expr)}] = {{}};")

    _write_store_reduction = _write_store

    def _stored(self, node: Value) -> str:
        """The value to store. Of a cast to a half type the operand is taken: the store itself rounds."""
        value = node.args[0]
        if value.op == "cast" and TYPES[value.dtype].half and TYPES[value.args[0].dtype].vector == "f32":  # type: ignore[index]
            if value.args[0].dtype is torch.float32:
                value = value.args[0]
        return self.text_of[value.number]

    def _scatter(self, node: Value, pointer: str, expr: Any, place: Place, assignment: str) -> list[str]:
        memory = TYPES[self.names.dtypes[node.attrs[0]]].memory
        lanes = f"{self.prefix}lanes{node.number}"
        return [
            f"{memory} {lanes}[N];",
            f"store({lanes}, {self.text_of[node.args[0].number]});",
            f"for (long l = 0; l < {self._count(place)}; l++) " + assignment.format(f"{lanes}[l]"),
        ]

    def _write_store_atomic_add(self, node: Value, place: Place) -> list[str]:
        # The plan gives each thread its own addresses, or runs on one thread: plain additions suffice.
        buffer, expr = node.attrs
        pointer, value = c_name(buffer), self.text_of[node.args[0].number]
        uniform = self.vector is None or self.vector not in self.depends[node.number]
        linear = None if uniform else self._linear(expr)
        if linear is not None and static(linear[0]) == 1:
            address, count = f"{pointer} + {self.printer.atom(expr)}", f", {place.tail}" if place.tail else ""
            total = op_text("add", self.names.dtypes[buffer], [f"load({address}{count})", value], "")
            return [f"store({address}, {total}{count});"]
        inner = Place("1") if uniform else place
        return self._scatter(node, pointer, expr, inner, f"add_into({pointer} + {self._lane_index(expr)}, {{}});")

    # Locals and reductions.

    def _write_local_get(self, node: Value, place: Place) -> list[str]:
        name = node.attrs[0]
        count = f", {place.tail}" if place.tail else ""
        if name in self.names.rows:
            return [self._define(node, f"load({self.names.rows[name]}{count})")]
        self.text_of[node.number] = f"local_{c_name(name)}{place.slot}"
        return []

    def _write_local_set(self, node: Value, place: Place) -> list[str]:
        name, value = node.attrs[0], self.text_of[node.args[0].number]
        count = f", {place.tail}" if place.tail else ""
        if name in self.names.rows:
            return [f"store({self.names.rows[name]}, {value}{count});"]
        return [f"local_{c_name(name)}{place.slot} = {value};"]

    def _write_project(self, node: Value, place: Place) -> list[str]:
        fields = ("value", "where") if node.args[0].op == "scan" else ("mean", "m2", "count")
        field_name = fields[node.attrs[0]]
        return [self._define(node, f"{self.text_of[node.args[0].number]}.{field_name}")]

    def scan_state(self, node: Value) -> str:
        """The name of a scan's state, which is declared before the loops."""
        return f"{self.prefix}scan{node.number}"

    def _write_scan(self, node: Value, place: Place) -> list[str]:
        """A step of a running result: from lane to lane, or in each lane for itself."""
        self.names.sections.add("scans")
        along = self.vector is not None and self.vector not in self.outer
        count = f", {place.tail}" if place.tail and along else ""
        value, name = self.text_of[node.args[0].number], f"{self.prefix}{node.number}"
        self.text_of[node.number] = name
        state = f"{self.scan_state(node)}{place.slot or '[0]'}"
        return [f"const auto {name} = {state}.{'along' if along else 'across'}({value}{count});"]

    def _write_masked(self, node: Value, place: Place) -> list[str]:
        assert node.region is not None and node.region.result is not None and node.dtype is not None
        name = f"{self.prefix}{node.number}"
        mask = self.text_of[node.args[0].number]
        around = self.active(node, place)
        lanes = mask if around == "splat(true)" else f"{mask} & {around}"
        other = f"splat({literal(node.attrs[0], node.dtype)})"
        inner_mask = f"{self.prefix}mask{node.number}"
        inner = Place(place.tail, place.slot, inner_mask)
        lines = [f"{TYPES[node.dtype].vector} {name} = {other};", f"const mask {inner_mask} = {lanes};"]
        lines.append(f"if (any({inner_mask})) {{")
        lines += ["  " + line for line in self.statements(node.region.nodes, inner)]
        lines.append(f"  {name} = sel({inner_mask}, {self.text_of[node.region.result.number]}, {name});")
        lines.append("}")
        self.text_of[node.number] = name
        return lines
