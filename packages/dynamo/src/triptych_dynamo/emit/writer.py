"""`Writer`: emits the code that runs after the graph: rebuilding values, reading sources, replaying effects.

The code of one frame is written twice with the same calls: a counting pass finds which values and read paths are used
more than once and which nodes the graph must return; the second pass keeps what is shared in locals.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from torch import fx

from triptych_dynamo.bytecode import Instruction, build
from triptych_dynamo.emit.read_paths import read_path
from triptych_dynamo.emit.suspended import load_generator
from triptych_dynamo.errors import Unsupported
from triptych_dynamo.logs import logger
from triptych_dynamo.sources import LocalSource, PinnedSource, Source
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.null import EMPTY, NULL

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.trace import Trace

_SIDE_EFFECTS = logger("side_effects")


@dataclass
class Usage:
    """What the counting pass found."""

    values: dict[Value, int] = field(default_factory=dict)
    sources: dict[Source, int] = field(default_factory=dict)
    outputs: dict[fx.Node, int] = field(default_factory=dict)


class Writer:
    """Emits instructions for one frame's exit.

    Args:
        trace: the trace whose values are rebuilt.
        cells: names of cell and free variables of the emitted code.
        usage: the counting pass's result, None in the counting pass itself.
    """

    def __init__(self, trace: Trace, cells: frozenset[str], usage: Usage | None = None) -> None:
        self.trace = trace
        self.cells = cells
        self.code: list[Instruction] = []
        self.usage = Usage()
        self._known = usage
        self._temps: dict[Value, str] = {}
        self._source_temps: dict[Source, str] = {}
        self._bound: dict[Value, list[Instruction]] = {}
        self._building: set[Value] = set()
        self._later: dict[Any, None] = {}
        self._last: dict[Any, None] = {}
        self._collecting: dict[Value, None] | None = None
        self._names = 0

    # -- plumbing ----------------------------------------------------------------------------------------------------
    def emit(self, code: Sequence[Instruction]) -> None:
        """Append instructions."""
        self.code.extend(code)

    def new_name(self, stem: str) -> str:
        """A local of the emitted code that the program does not have."""
        self._names += 1
        return f"__triptych_{stem}_{self._names}"

    def bind(self, value: Value, code: list[Instruction]) -> None:
        """Say how `value` is loaded in this code (a cell of the frame itself)."""
        self._bound[value] = code

    # -- values ------------------------------------------------------------------------------------------------------
    def load(self, value: Value) -> None:
        """Push the object of `value`: from its source, a local that holds it already, or rebuilt."""
        if isinstance(value, ConstantValue) and not value.is_computed:
            self.load_const(value.value)
            return
        if value is NULL:
            self.emit([build.one("PUSH_NULL")])
            return
        if self._collecting is not None:
            self._collecting[value] = None
            self.load_const(None)
            return
        temp = self._temps.get(value)
        self.usage.values[value] = self.usage.values.get(value, 0) + 1
        if temp is not None:
            self.emit(build.load_set_fast(temp))
        elif value in self._bound:
            self.emit([Instruction(row.opname, row.arg, row.argval) for row in self._bound[value]])
        elif value.source is not None:
            self.load_source(value.source)
        else:
            self._rebuild(value)

    def _rebuild(self, value: Value) -> None:
        if value in self._building:
            self.cannot_rebuild("rebuild", f"{value!r} contains itself")
        self._building.add(value)
        before = len(self.code)
        value.reconstruct(self)
        self._building.discard(value)
        single = len(self.code) == before + 1 and self.code[-1].opname == "LOAD_FAST"
        shared = self._known is None or self._known.values.get(value, 0) > 1
        if value in self._later or value in self._last or (shared and not single):
            self._keep(value)

    def _keep(self, value: Value) -> None:
        name = self._temps[value] = self.new_name("value")
        self.emit([*build.copy(), *build.store_fast(name)])

    def prepare(self, value: Value) -> None:
        """Bring `value` into a local now, before effects change what its source gives."""
        if value in EMPTY or value in self._temps or value in self._bound:
            return
        if isinstance(value, ConstantValue) and not value.is_computed:
            return
        self.load(value)
        if value in self._temps:
            self.pop()
            return
        name = self._temps[value] = self.new_name("value")
        self.emit(build.store_fast(name))

    def load_source(self, source: Source) -> None:
        """Push what the program finds at `source`."""
        temp = self._source_temps.get(source)
        if temp is not None:
            self.emit(build.load_set_fast(temp))
            return
        seen = self.usage.sources.get(source, 0)
        self.usage.sources[source] = seen + 1
        if seen and self._known is None:  # the counting pass counts what leads there once
            self.load_const(None)
            return
        read_path(self, source)
        is_cheap = isinstance(source, (LocalSource, PinnedSource))
        if not is_cheap and self._known is not None and self._known.sources.get(source, 0) > 1:
            name = self._source_temps[source] = self.new_name("path")
            self.emit([*build.copy(), *build.store_fast(name)])

    def load_graph_output(self, node: fx.Node) -> None:
        """Push the run-time result of a graph node."""
        index = self.usage.outputs.setdefault(node, len(self.usage.outputs))
        self.emit(build.load_set_fast(output_name(index)))

    def load_suspended(self, frame: Frame, started: bool, finished: bool) -> None:
        """Push a generator in the state of `frame`."""
        load_generator(self, frame, started, finished)

    def later(self, value: Value) -> None:
        """`value.replay(cg)` is called once everything is rebuilt: for objects whose content may lead back to them."""
        self._later[value] = None

    def last(self, value: Value) -> None:
        """As `later`, behind all effects: for iterators at a place of a container that the effects fill."""
        self._last[value] = None

    def cannot_rebuild(self, kind: str, text: str) -> NoReturn:
        """A value that code cannot build again."""
        raise Unsupported(kind, text)

    def forget_temps(self) -> None:
        """The locals that this code made let go of what they hold."""
        outputs = [output_name(index) for index in range(len(self.usage.outputs))]
        for name in (*self._temps.values(), *self._source_temps.values(), *outputs):
            self.emit([*build.load_const(None), *build.store_fast(name)])

    # -- effects -----------------------------------------------------------------------------------------------------
    def replay_effects(self, finals: list[Value]) -> None:
        """Evaluate `finals` and all that the effects need, then replay the effects."""
        for value in finals:
            self.prepare(value)
        done: dict[Any, None] = {}
        while True:
            waiting = [*self.trace.effects.changed(), *self._later, *self._last]
            todo = [item for item in waiting if item not in done]
            if not todo:
                break
            for item in todo:
                done[item] = None
                for needed in self._needs(item):
                    self.prepare(needed)
        changed = [item for item in done if item not in self._later and item not in self._last]
        for item in [*self._later, *changed, *self._last]:  # keys are hashed by fields
            if self._known is not None and _SIDE_EFFECTS.isEnabledFor(logging.INFO):
                _SIDE_EFFECTS.info("replayed: %s", item)
            item.replay(self)

    def _needs(self, item: Any) -> list[Value]:
        """The values that `item.replay` loads: a dry run whose code is thrown away."""
        code, self.code = self.code, []
        self._collecting = {}
        try:
            item.replay(self)
            return list(self._collecting)
        finally:
            self._collecting = None
            self.code = code

    @property
    def has_later(self) -> bool:
        """Whether a rebuilt value waits for its content."""
        return bool(self._later or self._last)

    # -- instructions that values use --------------------------------------------------------------------------------
    def load_const(self, obj: Any) -> None:
        """Push a constant."""
        self.emit(build.load_const(obj))

    def load_object(self, obj: Any) -> None:
        """Push any object, kept alive by the code; a class that the trace made is made again."""
        made = self.trace.made_classes
        if not made or not made.emit_object(self, obj):
            self.emit(build.load_const(obj))

    def load_attr(self, name: str) -> None:
        """`object -> object.name`."""
        self.emit(build.load_attr(name))

    def store_attr(self, name: str) -> None:
        """`value object ->`."""
        self.emit(build.store_attr(name))

    def delete_attr(self, name: str) -> None:
        """`object ->`."""
        self.emit(build.delete_attr(name))

    def subscr(self) -> None:
        """`container key -> item`."""
        self.emit(build.subscr())

    def store_subscr(self) -> None:
        """`value container key ->`."""
        self.emit(build.store_subscr())

    def delete_subscr(self) -> None:
        """`container key ->`."""
        self.emit(build.delete_subscr())

    def build(self, kind: str, count: int) -> None:
        """`v1 ... vn -> container`: kind TUPLE, LIST, SET, MAP (n pairs), STRING, SLICE."""
        self.emit(build.build(kind, count))

    def call(self, count: int, keywords: Sequence[str] = ()) -> None:
        """`callable a1 ... an -> result`."""
        self.emit(build.call(count, keywords))

    def call_ex(self, keywords: bool = False) -> None:
        """`callable tuple [dict] -> result`."""
        self.emit(build.call_ex(keywords))

    def copy(self, depth: int = 1) -> None:
        """Duplicate the `depth`-th item."""
        self.emit(build.copy(depth))

    def swap(self, depth: int = 2) -> None:
        """Exchange the top and the `depth`-th item."""
        self.emit(build.swap(depth))

    def pop(self, count: int = 1) -> None:
        """Drop items."""
        self.emit(build.pop(count))


def output_name(index: int) -> str:
    """The local that holds output `index` of the graph."""
    return f"__triptych_out_{index}"
