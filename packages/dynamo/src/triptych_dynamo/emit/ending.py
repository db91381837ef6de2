"""What a whole graph's function does after its graph, as data: rows that make the result and change objects.

In: the values at the end of a trace. Out: rows that run one after the other, each with a result that later rows name by
its number. They are made by the same `reconstruct` and `replay` of the families that write code (`emit.writer`), over a
writer that keeps rows in place of instructions.

A row is `("const", value)`, `("object", value)`, `("source", source)`, `("output", node name)`,
`("build", kind, rows)`, `("call", row, rows, keywords)`, `("attr", row, name)`, `("item", row, row)`, or a change:
`("store_attr", value row, row, name)`, `("delete_attr", row, name)`, `("store_item", value row, row, key row)`,
`("delete_item", row, key row)`. The last row's result is the function's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from triptych_dynamo.emit.writer import Writer
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.null import EMPTY

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value

Row = tuple[Any, ...]
Ending = list[Row]


class NoEnding(Exception):
    """What follows the graph is more than data; the text says why."""


def ending_of(trace: Trace, value: Value) -> Ending:
    """The rows of a frame that returns `value`.

    Raises:
        NoEnding: an object that only the program's code can make, a mode that stays changed.
    """
    if trace.final_modes:
        raise NoEnding("the program leaves a mode of torch changed")
    writer = RowWriter(trace)
    try:
        writer.finish(value)
    except Unsupported as error:
        raise NoEnding(str(error).partition("\n")[0]) from error
    return writer.rows


class RowWriter(Writer):
    """A writer whose instructions are rows: the stack holds their numbers."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, frozenset())
        self.rows: Ending = []
        self._stack: list[int] = []
        self._made: dict[Any, int] = {}

    def finish(self, value: Value) -> None:
        """All rows: changes in their order, the result last."""
        if self.trace.effects:
            self.replay_effects([value])
            self.load(value)
        else:
            self.load(value)
            self.replay_effects([])
        self.rows.append(("result", self._stack.pop()))

    # -- values ------------------------------------------------------------------------------------------------------
    def load(self, value: Value) -> None:
        if isinstance(value, ConstantValue):
            self.load_const(value.value)
        elif value in EMPTY:
            self.cannot_rebuild("rebuild", "a call that is not finished")
        elif self._collecting is not None:
            self._collecting[value] = None
            self.load_const(None)
        elif value in self._made:
            self._stack.append(self._made[value])
        elif value.source is not None:
            self.load_source(value.source)
            self._made[value] = self._stack[-1]
        else:
            self._rebuild(value)

    def _rebuild(self, value: Value) -> None:
        if value in self._building:
            self.cannot_rebuild("rebuild", f"{value!r} contains itself")
        self._building.add(value)
        value.reconstruct(self)
        self._building.discard(value)
        self._made[value] = self._stack[-1]

    def prepare(self, value: Value) -> None:
        self.load(value)
        self.pop()

    def _needs(self, item: Any) -> list[Value]:
        rows, self.rows = self.rows, []
        try:
            return super()._needs(item)
        finally:
            self.rows = rows

    def load_source(self, source: Source) -> None:
        if source in self._made and self._collecting is None:
            self._stack.append(self._made[source])
            return
        self._push("source", source)
        if self._collecting is None:
            self._made[source] = self._stack[-1]

    def load_graph_output(self, node: fx.Node) -> None:
        self._push("output", node.name)

    def load_suspended(self, frame: Frame, started: bool, finished: bool) -> None:
        self.cannot_rebuild("rebuild", "a generator that has begun")

    # -- instructions ------------------------------------------------------------------------------------------------
    def emit(self, code: Sequence[Any]) -> None:
        self.cannot_rebuild("rebuild", "an object that only code of this process makes")

    def _push(self, *row: Any) -> None:
        self.rows.append(row)
        self._stack.append(len(self.rows) - 1)

    def _take(self, count: int) -> list[int]:
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return taken

    def load_const(self, obj: Any) -> None:
        self._push("const", obj)

    def load_object(self, obj: Any) -> None:
        made = self.trace.made_classes
        if made and made.emit_object(self, obj):
            return
        self._push("object", obj)

    def load_attr(self, name: str) -> None:
        self._push("attr", *self._take(1), name)

    def store_attr(self, name: str) -> None:
        self.rows.append(("store_attr", *self._take(2), name))

    def delete_attr(self, name: str) -> None:
        self.rows.append(("delete_attr", *self._take(1), name))

    def subscr(self) -> None:
        self._push("item", *self._take(2))

    def store_subscr(self) -> None:
        self.rows.append(("store_item", *self._take(3)))

    def delete_subscr(self) -> None:
        self.rows.append(("delete_item", *self._take(2)))

    def build(self, kind: str, count: int) -> None:
        self._push("build", kind, self._take(2 * count if kind == "MAP" else count))

    def call(self, count: int, keywords: Sequence[str] = ()) -> None:
        args = self._take(count)
        self._push("call", *self._take(1), args, list(keywords))

    def call_ex(self, keywords: bool = False) -> None:
        self.cannot_rebuild("rebuild", "a call with unpacked arguments")

    def copy(self, depth: int = 1) -> None:
        self._stack.append(self._stack[-depth])

    def swap(self, depth: int = 2) -> None:
        self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]

    def pop(self, count: int = 1) -> None:
        self._take(count)


# -- running rows ------------------------------------------------------------------------------------------------------
_BUILDERS: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": tuple,
    "LIST": list,
    "SET": set,
    "MAP": lambda items: dict(zip(items[::2], items[1::2], strict=True)),
    "STRING": "".join,
    "SLICE": lambda items: slice(*items),
}


def run_ending(rows: Ending, outputs: dict[str, Any], read: Callable[[Any], Any]) -> Any:
    """Do what the rows say and give the result.

    Args:
        rows: of `ending_of`.
        outputs: what the graph was given and gave, by name.
        read: the object that a source has in this call.
    """
    made: list[Any] = []
    for row in rows:
        made.append(_run_row(row, made, outputs, read))
    return made[-1]


def _run_row(row: Row, made: list[Any], outputs: dict[str, Any], read: Callable[[Any], Any]) -> Any:
    kind, *rest = row
    if kind in ("const", "object"):
        return rest[0]
    if kind == "source":
        return read(rest[0])
    if kind in ("output", "brought"):
        return outputs[rest[0]]
    if kind == "build":
        return _BUILDERS[rest[0]]([made[number] for number in rest[1]])
    if kind == "call":
        args = [made[number] for number in rest[1]]
        first = len(args) - len(rest[2])
        return made[rest[0]](*args[:first], **dict(zip(rest[2], args[first:], strict=True)))
    return _CHANGES[kind](made, *rest)


_CHANGES: dict[str, Callable[..., Any]] = {
    "result": lambda made, value: made[value],
    "attr": lambda made, obj, name: getattr(made[obj], name),
    "item": lambda made, obj, key: made[obj][made[key]],
    "store_attr": lambda made, value, obj, name: setattr(made[obj], name, made[value]),
    "delete_attr": lambda made, obj, name: delattr(made[obj], name),
    "store_item": lambda made, value, obj, key: made[obj].__setitem__(made[key], made[value]),
    "delete_item": lambda made, obj, key: made[obj].__delitem__(made[key]),
}
