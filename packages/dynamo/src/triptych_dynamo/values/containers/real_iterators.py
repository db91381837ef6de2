"""Iterators and views that existed before the frame: arguments, and those of loops that a graph break cut.

What a real iterator gives next is read without moving it, at a source of its own; after the graph it is moved as far as
the program moved it. An entry is for any place in the list: a loop over layers goes on in one piece of code behind the
break in each of them. Iterators that cannot be looked into (generators, files, `itertools` but `count`)
stay graph breaks.
"""

from __future__ import annotations

import gc
import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.runtime_iterators import (
    LEAVES,
    CountPart,
    GivesMore,
    HasParts,
    Part,
    Upcoming,
    Viewed,
    advance,
    is_strict,
    left,
)
from triptych_dynamo.sources import DerivedSource
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.containers.dict_methods import DictViewValue
from triptych_dynamo.values.containers.iterators import IteratorValue, MapIterator, ZipIterator
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import TupleValue
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


class RealIterator(IteratorValue):
    """Over a container; `taken` items were given so far, `moved` of them by moving this very iterator."""

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__()
        self.source, self.obj, self.cls = source, obj, type(obj)
        self.taken = self.moved = 0

    def step(self, tx: Frame) -> Value | None:
        return self.take(tx, True)

    def next_item(self, tx: Frame) -> Value | None:
        return None if self.exhausted else self.take(tx, True)

    def take(self, tx: Frame, moves: bool) -> Value | None:
        """The next item. moves: it is this iterator that the program moves, and not one around it."""
        if self._is_over_changed(tx):
            return tx.unsupported("iterate", "a list is changed while an iterator from outside runs over it")
        more = left(self.obj) > self.taken
        label = f"{self.source} gives {'more than' if more else 'no more than'} {self.taken}"
        tx.guard("python", self.source, PythonFact(GivesMore(self.taken, more), label))
        item = None
        if more:
            read = Upcoming(self.taken)
            assert self.source is not None
            item = tx.wrap(read(self.obj), DerivedSource(self.source, read))
        self.taken += 1
        self.exhausted = not more
        if moves:
            self.moved += 1
            tx.effects.mutated(self)
        return item

    def _is_over_changed(self, tx: Frame) -> bool:
        held = {id(obj) for obj in gc.get_referents(self.obj)}
        return any(id(obj) in held and value in tx.effects for obj, value in tx.trace.wrapped_values())

    def replay(self, cg: Writer) -> None:
        """Move the real one as far."""
        replay_moves(cg, self, self.moved)


class RealEnumerate(IteratorValue):
    """`enumerate` around another real iterator, which moves with it."""

    cls = enumerate

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__()
        self.source, self.obj = source, obj
        self.number = 0

    def step(self, tx: Frame) -> Value | None:
        return self.take(tx, True)

    def take(self, tx: Frame, moves: bool) -> Value | None:
        """See `RealIterator.take`."""
        inner, start = (part(tx, self, number) for number in (0, 1))
        if not isinstance(inner, (RealIterator, RealEnumerate, RealZip, RealMap)):
            return tx.unsupported("iterate", f"an enumerate from outside over a {inner.python_type().__name__}")
        item = inner.take(tx, False)
        if moves:
            self.moved += 1
            tx.effects.mutated(self)
        if item is None:
            return None
        self.number += 1
        index = tx.call(tx.wrap(_plus, None), [start, tx.constant(self.number - 1)], {}) if self.number > 1 else start
        return TupleValue([index, item])

    moved = 0

    def replay(self, cg: Writer) -> None:
        """Move the real one as far."""
        replay_moves(cg, self, self.moved)


def _plus(start: int, number: int) -> int:
    return start + number


def replay_moves(cg: Writer, value: Value, count: int) -> None:
    """Emit the moves of a real iterator."""
    cg.load_object(advance)
    cg.load(value)
    cg.load_const(count)
    cg.call(2)
    cg.pop()


def part(tx: Frame, value: Any, number: int) -> Value:
    """What a real iterator is made of."""
    read = Part(number)
    return tx.wrap(read(value.obj), DerivedSource(value.source, read))


class _Composed(IteratorValue):
    """It has no state of its own: what it is made of moves."""

    parts: list[Value]

    def take(self, tx: Frame, moves: bool) -> Value | None:
        """See `RealIterator.take`."""
        before = [(mover, mover.moved) for mover in _movers(tx, self)]
        item = self.next_item(tx)
        if not moves:
            for mover, moved in before:
                mover.moved = moved
        return item


def _movers(tx: Frame, value: Value) -> list[Any]:
    """The iterators that a step of `value` moves."""
    if isinstance(value, (RealIterator, RealEnumerate)):
        return [value]
    if not isinstance(value, _Composed):
        return tx.unsupported("iterate", f"an enumerate from outside over a {value.python_type().__name__}")
    return [mover for inner in value.parts for mover in _movers(tx, inner)]


class RealZip(_Composed, ZipIterator):
    """`zip` around real iterators."""

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__([], is_strict(obj), TupleValue)
        self.source, self.obj = source, obj


class RealMap(_Composed, MapIterator):
    """`map` around real iterators."""

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(ConstantValue(None), [])
        self.source, self.obj = source, obj


class RealCount(IteratorValue):
    """`itertools.count` that counts already: numbers of this call, which change from call to call."""

    cls = itertools.count

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__()
        self.source, self.obj = source, obj
        self.upcoming: Value | None = None
        self.moved = 0

    def step(self, tx: Frame) -> Value:
        first, step = (self._part(tx, number) for number in (0, 1))
        item = first if self.upcoming is None else self.upcoming
        self.upcoming = operators.binary(tx, "+", item, step)
        self.moved += 1
        tx.effects.mutated(self)
        return item

    def _part(self, tx: Frame, number: int) -> Value:
        read = CountPart(number)
        assert self.source is not None
        try:
            found = read(self.obj)
        except (ValueError, SyntaxError):
            return tx.unsupported("iterate", f"{self.obj!r} from outside")
        return tx.wrap(found, DerivedSource(self.source, read))

    def replay(self, cg: Writer) -> None:
        """Move the real one as far."""
        replay_moves(cg, self, self.moved)


def _known(tx: Frame, obj: Any, source: Source | None, kind: Any) -> Any:
    if source is None:
        return tx.unsupported("iterate", f"a {type(obj).__name__} that was made while tracing")
    tx.guard("type_is", source, type(obj))
    value = kind(obj, source)
    tx.trace.remember(obj, value)
    return value


@wraps(*LEAVES)
def _leaf(tx: Frame, obj: Any, source: Source | None) -> Value:
    return _known(tx, obj, source, RealIterator)  # type: ignore[no-any-return]


@wraps(itertools.count)
def _count(tx: Frame, obj: Any, source: Source | None) -> Value:
    return _known(tx, obj, source, RealCount)  # type: ignore[no-any-return]


@wraps(enumerate)
def _enumerate(tx: Frame, obj: Any, source: Source | None) -> Value:
    return _known(tx, obj, source, RealEnumerate)  # type: ignore[no-any-return]


@wraps(zip, map)
def _composed(tx: Frame, obj: Any, source: Source | None) -> Value:
    value = _known(tx, obj, source, RealZip if type(obj) is zip else RealMap)
    count = len(obj.__reduce__()[1])
    tx.guard("python", source, PythonFact(HasParts(count, is_strict(obj)), f"{source} has {count} parts"))
    value.parts = [part(tx, value, number) for number in range(count)]
    if isinstance(value, RealMap):
        value.function = value.parts.pop(0)
    return value  # type: ignore[no-any-return]


_VIEWS: dict[type, str] = {
    type(getattr(mapping, kind)()): kind
    for mapping in (dict[str, int](), OrderedDict[str, int]())
    for kind in ("keys", "values", "items")
}


@wraps(*_VIEWS)
def _view(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A view of a dictionary that was made before the frame."""
    tx.guard("type_is", source, type(obj))
    read = Viewed()
    mapping = tx.wrap(read(obj), DerivedSource(source, read) if source is not None else None)
    if not isinstance(mapping, DictValue):
        return tx.unsupported("iterate", f"a view of a {mapping.python_type().__name__}")
    view = DictViewValue(mapping, _VIEWS[type(obj)])
    view.source = source
    return view
