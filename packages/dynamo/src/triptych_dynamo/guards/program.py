"""Guards to a flat program for C: shared read paths, each step once, cheap checks first.

>>> program = compile_guards([Guard("type_is", LocalSource("x"), int)], fn.__code__)
>>> program.failed((1,), fn)          # None: all hold; otherwise the index of the violated guard
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch

from triptych_dynamo._eval_frame import GuardProgram
from triptych_dynamo.guards import modes
from triptych_dynamo.guards.facts import KINDS, Guard
from triptych_dynamo.guards.shape_program import INT64_MAX, INT64_MIN, as_function, compile_shape
from triptych_dynamo.guards.torch_facts import constant_of, dtype_code, ensure_bound
from triptych_dynamo.sources import (
    AttrSource,
    CellSource,
    ContentSource,
    DerivedSource,
    DictKeySource,
    GlobalSource,
    GradSource,
    InstanceDictSource,
    ItemSource,
    KeyedItemSource,
    LocalSource,
    PinnedSource,
    Source,
    TensorOffsetSource,
    TensorSizeSource,
    TensorStrideSource,
    TypeSource,
)

Operation = tuple[str, int, int, int, int, Any]  # name, slot, other, flag, guard, constant
INTEGER_KINDS: dict[type, int] = {TensorSizeSource: 0, TensorStrideSource: 1, TensorOffsetSource: 2}
PLAIN_INTEGER = 3
_INT32 = range(-(2**31), 2**31)
_IDENTIFYING = ("type_is", "is", "is_weak")
_SHALLOW = (
    3  # guards on paths up to this length go first: arguments tell entries apart, deep parts of modules hardly do
)


def _weakly(value: Any) -> Any:
    if isinstance(value, weakref.ReferenceType):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return None


class ProgramBuilder:
    """Operations in the making.

    Args:
        guards: the facts; operations refer to them by index.
        code: the code object whose parameters and free variables the sources name.
    """

    def __init__(self, guards: Sequence[Guard], code: CodeType) -> None:
        self.guards = guards
        self.locals = {name: index for index, name in enumerate(code.co_varnames)}
        self.free = {name: index for index, name in enumerate(code.co_freevars)}
        self.operations: list[Operation] = []
        self.slots: dict[Source, int] = {}
        self.slot_of: dict[int, int] = {}  # the same by identity, for hashing a long path takes time; guards hold them
        self.slot_count = 0
        self.done: set[int] = set()
        self.identifying: dict[Source, list[int]] = {}
        for index, guard in enumerate(guards):
            if guard.kind in _IDENTIFYING and guard.source is not None:
                self.identifying.setdefault(guard.source, []).append(index)

    # -- reads -------------------------------------------------------------------------------------------------------
    def emit(self, name: str, guard: int, slot: int = 0, other: int = 0, flag: int = 0, constant: Any = None) -> None:
        """Append one operation."""
        self.operations.append((name, slot, other, flag, guard, constant))

    def read(self, source: Source, guard: int) -> int:
        """The slot of `source`, with the operations that fill it appended where it is new."""
        slot = self.slot_of.get(id(source))
        if slot is None:
            slot = self.slots.get(source)
            if slot is None:
                slot = self._read_new(source, guard)
            self.slot_of[id(source)] = slot
        return slot

    def _read_new(self, source: Source, guard: int) -> int:
        base = 0 if source.base is None else self.read(source.base, guard)
        if isinstance(source, KeyedItemSource):
            self.read(source.key, guard)
        # these may run code of the object's class: make sure of it first
        if isinstance(source, AttrSource | GradSource | DerivedSource):
            for index in self.identifying.get(source.base, ()):  # type: ignore[arg-type]
                self.check(index)
        slot = self.slots[source] = self.slot_count
        self.slot_count += 1
        self._read_step(source, base, slot, guard)
        return slot

    def _read_step(self, step: Source, base: int, slot: int, guard: int) -> None:
        row = _READS.get(type(step))
        if row is None:
            raise TypeError(f"guards cannot read {step} ({type(step).__name__})")
        name, flag, constant = row(self, step)
        self.emit(name, guard, base, slot, flag, constant)

    def integer_input(self, source: Source, guard: int) -> tuple[int, int, int]:
        """How a shape operation reads an integer: (kind, slot, dimension)."""
        kind = INTEGER_KINDS.get(type(source))
        if kind is None:
            return PLAIN_INTEGER, self.read(source, guard), 0
        assert source.base is not None
        return kind, self.read(source.base, guard), getattr(source, "dim", 0)

    # -- checks ------------------------------------------------------------------------------------------------------
    def check(self, index: int) -> None:
        """Append guard `index`, once."""
        if index in self.done:
            return
        self.done.add(index)
        guard = self.guards[index]
        if type(guard.source) in INTEGER_KINDS:
            _check_integer(self, index, guard)
        else:
            _CHECKS[guard.kind](self, index, guard)

    @staticmethod
    def _is_deep(source: Source | None) -> bool:
        for _ in range(_SHALLOW):
            if source is None:
                return False
            source = source.base
        return source is not None

    def build(self) -> GuardProgram:
        """The program."""
        for index in sorted(range(len(self.guards)), key=self._rank):
            self.check(index)
        return GuardProgram(self.operations, max(1, self.slot_count), tuple(self.guards))

    def _rank(self, index: int) -> tuple[bool, int, int]:
        guard = self.guards[index]
        return self._is_deep(guard.source), KINDS[guard.kind].cost, index


# -- one step of a source: (operation, flag, constant) ---------------------------------------------------------------
def _read_item(builder: ProgramBuilder, source: Any) -> tuple[str, int, Any]:
    key = source.key
    if type(key) is int and key in _INT32:
        return "index", key, key
    known_dict = isinstance(source.base, InstanceDictSource)
    return "dict_item" if known_dict else "item", 0, key


def _read_pinned(builder: ProgramBuilder, source: Any) -> tuple[str, int, Any]:
    reference = _weakly(source.value) if source.weak else None
    return ("weak", 0, reference) if reference is not None else ("pinned", 0, source.value)


_READS: dict[type, Callable[[ProgramBuilder, Any], tuple[str, int, Any]]] = {
    LocalSource: lambda builder, source: ("local", builder.locals[source.name], None),
    CellSource: lambda builder, source: ("cell", builder.free[source.name], None),
    PinnedSource: _read_pinned,
    GlobalSource: lambda builder, source: ("dict_item", 0, source.name),
    AttrSource: lambda builder, source: ("attribute", 0, source.name),
    GradSource: lambda builder, source: ("attribute", 0, "grad"),
    InstanceDictSource: lambda builder, source: ("instance_dict", 0, None),
    ItemSource: _read_item,
    KeyedItemSource: lambda builder, source: ("dict_item_at", builder.slots[source.key], None),
    DictKeySource: lambda builder, source: ("dict_key", source.index, None),
    ContentSource: lambda builder, source: ("content", 0, None),
    TypeSource: lambda builder, source: ("type", 0, None),
    DerivedSource: lambda builder, source: ("derived", 0, source.function),
}


# -- checks by kind --------------------------------------------------------------------------------------------------
Check = Callable[[ProgramBuilder, int, Guard], None]


def _with_constant(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    builder.emit(guard.kind, index, builder.read(_source(guard), index), constant=guard.value)


def _with_flag(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    builder.emit(guard.kind, index, builder.read(_source(guard), index), flag=int(guard.value))


def _with_source(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    slot = builder.read(_source(guard), index)
    builder.emit(guard.kind, index, slot, other=builder.read(guard.value, index))


def _apart(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    ensure_bound()
    left, right = (dict.fromkeys(builder.read(source, index) for source in group) for group in _groups(guard))
    only_left = [slot for slot in left if slot not in right]
    both = [slot for slot in left if slot in right]
    slots = (*only_left, *both, *(slot for slot in right if slot not in left))
    constant = (slots, len(left), len(only_left))
    builder.emit(guard.kind, index, flag=int(guard.kind != "distinct"), constant=constant)


def _no_gradients(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    ensure_bound()
    slots = tuple(builder.read(source, index) for source in guard.value)
    builder.emit(guard.kind, index, constant=(torch.is_grad_enabled, slots))


def _groups(guard: Guard) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    return guard.value.sources, guard.value.others


def _is_weak(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    reference = _weakly(guard.value)
    slot = builder.read(_source(guard), index)
    if reference is None:
        builder.emit("is", index, slot, constant=guard.value)
    else:
        builder.emit("is_weak", index, slot, constant=reference)


def _int_in(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    low, high = _bounds(guard.value)
    builder.emit("int_in", index, builder.read(_source(guard), index), constant=(low, high))


def _bounds(value: tuple[Any, Any]) -> tuple[int, int]:
    low, high = value
    low = INT64_MIN if low is None or low <= INT64_MIN else int(low)
    high = INT64_MAX if high is None or high >= INT64_MAX else int(high)
    return low, high


def _tensor(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    ensure_bound()
    builder.emit("tensor", index, builder.read(_source(guard), index), constant=constant_of(guard.value))


def _mode(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    name, expected = guard.value
    read = modes.reader(name)
    if name in ("grad_mode", "inference_mode"):
        ensure_bound()
        constant = read if name == "grad_mode" else (read, expected)
        builder.emit(name, index, flag=int(expected), constant=constant)
    elif name == "default_dtype":
        ensure_bound()
        builder.emit(name, index, flag=dtype_code(expected), constant=(read, expected))
    elif modes.shows_in_dispatch_state(name, expected):
        _dispatch_modes(builder, index)
    else:
        builder.emit("mode", index, constant=(read, expected))


def _dispatch_modes(builder: ProgramBuilder, index: int) -> None:
    """One operation for all guards on modes that the thread's dispatch state tells of at once."""
    ensure_bound()
    pairs: list[Any] = []
    for other, guard in enumerate(builder.guards):
        if guard.kind == "mode" and modes.shows_in_dispatch_state(*guard.value):
            builder.done.add(other)
            pairs += [modes.reader(guard.value[0]), guard.value[1]]
    builder.emit("dispatch_modes", index, constant=tuple(pairs))


def _shape(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    ensure_bound()
    symbols = [symbol for symbol, _ in guard.value.symbols]
    inputs = tuple(builder.integer_input(source, index) for _, source in guard.value.symbols)
    steps = compile_shape(guard.value.expr, symbols)
    if steps is not None:
        builder.emit("shape", index, constant=(steps, inputs))
    else:
        builder.emit("shape_python", index, constant=(as_function(guard.value.expr, symbols), inputs))


def _check_integer(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    """A guard on a size, stride or offset itself."""
    ensure_bound()
    inputs = (builder.integer_input(_source(guard), index),)
    if guard.kind == "equals":
        steps: tuple[tuple[str, int], ...] = (("input", 0), ("const", int(guard.value)), ("eq", 0))
    elif guard.kind == "int_in":
        low, high = _bounds(guard.value)
        steps = (("input", 0), ("const", low), ("ge", 0), ("input", 0), ("const", high), ("le", 0), ("and", 0))
    else:
        raise TypeError(f"no guard {guard.kind!r} on {guard.source}")
    builder.emit("shape", index, constant=(steps, inputs))


def _python(builder: ProgramBuilder, index: int, guard: Guard) -> None:
    sources = guard.value.sources or (_source(guard),)
    slots = tuple(builder.read(source, index) for source in sources)
    builder.emit("python", index, constant=(guard.value.check, slots))


def _source(guard: Guard) -> Source:
    if guard.source is None:
        raise TypeError(f"a guard of kind {guard.kind!r} needs a source")
    return guard.source


_CHECKS: dict[str, Check] = {
    "type_is": _with_constant,
    "is": _with_constant,
    "is_weak": _is_weak,
    "same_as": _with_source,
    "not_same_as": _with_source,
    "distinct": _apart,
    "equals": _with_constant,
    "length": _with_flag,
    "truth": _with_flag,
    "dict_keys": _with_constant,
    "dict_has": _with_constant,
    "dict_lacks": _with_constant,
    "dict_has_at": _with_source,
    "dict_lacks_at": _with_source,
    "lacks_attr": _with_constant,
    "cell_empty": _with_constant,
    "range_is": _with_constant,
    "set_is": _with_constant,
    "int_in": _int_in,
    "tensor": _tensor,
    "no_overlap": _apart,
    "overlap": _apart,
    "mode": _mode,
    "no_gradients": _no_gradients,
    "shape": _shape,
    "python": _python,
}


def compile_guards(guards: Sequence[Guard], code: CodeType) -> GuardProgram:
    """The program that checks `guards` on a call of `code`.

    Args:
        guards: any order; indices that the program reports refer to this sequence.
        code: names the parameters (`LocalSource`) and free variables (`CellSource`).

    Raises:
        TypeError: a source or guard that C cannot check.
        KeyError: a name that `code` does not have, or an unknown mode.
    """
    return ProgramBuilder(guards, code).build()
