"""The same facts in plain Python: the twin of the C program, which can also say what it found.

>>> check([Guard("equals", LocalSource("n"), 3)], {"n": 4}, fn)
(Guard(...), "L['n'] == 3: it is 4")
"""

from __future__ import annotations

import math
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import CellType, MappingProxyType, ModuleType
from typing import Any

import torch

from triptych_dynamo._torch_compat import dispatch_keys
from triptych_dynamo.guards import modes
from triptych_dynamo.guards.facts import Guard, TensorFacts, object_text
from triptych_dynamo.guards.shape_program import as_function
from triptych_dynamo.sources import (
    AttrSource,
    CellSource,
    ComputedSource,
    ContentSource,
    DerivedSource,
    DictKeySource,
    GlobalSource,
    GradSource,
    InstanceDictSource,
    ItemSource,
    KeyedItemSource,
    LiteralSource,
    LocalSource,
    PinnedSource,
    Source,
    TensorOffsetSource,
    TensorSizeSource,
    TensorStrideSource,
    TypeSource,
)


class Unreadable(Exception):
    """The path of a source ends before its last step."""


class Reader:
    """Reads sources of one call, each step once.

    Args:
        variables: the parameters by name.
        fn: the function called, for its closure.
    """

    def __init__(self, variables: Mapping[str, Any], fn: Any) -> None:
        self.variables = variables
        self.fn = fn
        self.known: dict[Source, Any] = {}

    def __call__(self, source: Source) -> Any:
        """The value; raises `Unreadable`."""
        for step in source.path():
            if step not in self.known:
                base = None if step.base is None else self.known[step.base]
                try:
                    self.known[step] = _STEPS[type(step)](self, step, base)
                except Exception as error:
                    raise Unreadable(f"{step} cannot be read ({type(error).__name__}: {error})") from error
        return self.known[source]

    def pinned(self, value: Any) -> Any:
        """The object that a source holds on to."""
        return value

    def cell(self, name: str) -> CellType:
        """The closure's cell of a free variable."""
        return dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True))[name]


def _instance_dict(reader: Reader, step: Any, base: Any) -> Any:
    if isinstance(base, type):
        return type.__getattribute__(base, "__dict__")
    if isinstance(base, ModuleType):
        return ModuleType.__getattribute__(base, "__dict__")
    return object.__getattribute__(base, "__dict__")


def _item(reader: Reader, step: Any, base: Any) -> Any:
    if isinstance(base, dict):
        return dict.__getitem__(base, step.key)
    for kind in (list, tuple):
        if isinstance(base, kind):
            return kind.__getitem__(base, step.key)  # type: ignore[index]
    if isinstance(base, MappingProxyType) or container_length(base) is not None:
        return base[step.key]
    raise TypeError(f"{type(base).__name__} is no container of C")


_STEPS: dict[type, Callable[[Reader, Any, Any], Any]] = {
    LocalSource: lambda reader, step, base: reader.variables[step.name],
    CellSource: lambda reader, step, base: reader.cell(step.name),
    PinnedSource: lambda reader, step, base: reader.pinned(step.value),
    GlobalSource: lambda reader, step, base: base[step.name],
    AttrSource: lambda reader, step, base: getattr(base, step.name),
    GradSource: lambda reader, step, base: base.grad,
    InstanceDictSource: _instance_dict,
    ItemSource: _item,
    KeyedItemSource: lambda reader, step, base: dict.__getitem__(base, reader.known[step.key]),
    DictKeySource: lambda reader, step, base: list(base)[step.index],
    ContentSource: lambda reader, step, base: base.cell_contents,
    TypeSource: lambda reader, step, base: type(base),
    DerivedSource: lambda reader, step, base: step.function(base),
    TensorSizeSource: lambda reader, step, base: base.size(step.dim),
    TensorStrideSource: lambda reader, step, base: base.stride(step.dim),
    TensorOffsetSource: lambda reader, step, base: base.storage_offset(),
    LiteralSource: lambda reader, step, base: step.value,
    ComputedSource: lambda reader, step, base: step.function(*[reader.known[operand] for operand in step.operands]),
}


# -- comparisons -----------------------------------------------------------------------------------------------------
def equal_exactly(left: Any, right: Any) -> bool:
    """Equal and of one type, all the way down; floats by their bits, so that NaN is itself and -0.0 is not 0.0."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if type(left) is float:
        return struct.pack("d", left) == struct.pack("d", right)
    if type(left) is complex:
        return equal_exactly((left.real, left.imag), (right.real, right.imag))
    if type(left) is tuple:
        return len(left) == len(right) and all(map(equal_exactly, left, right))
    if type(left) in (set, frozenset):
        return left == right and _typed(left) == _typed(right)
    if isinstance(left, torch.Tensor):  # as the key of a dictionary: it is itself and nothing else
        return False
    return bool(left == right)


def _typed(items: Any) -> set[Any]:
    return {(type(item), item) for item in items}


def container_length(value: Any) -> int | None:
    """Length of a container whose class is written in C, without running code of subclasses; None for others."""
    for kind in (list, tuple, dict, set, frozenset, str, bytes):
        if isinstance(value, kind):
            return kind.__len__(value)  # type: ignore[arg-type]
    heap, immutable = 1 << 9, 1 << 8
    if type(value).__flags__ & heap and not type(value).__flags__ & immutable:
        return None
    try:
        return len(value)
    except TypeError:
        return None


def _truth(value: Any) -> bool:
    size = None if isinstance(value, int | float) else container_length(value)
    return bool(value) if size is None else size > 0


def _short(value: Any) -> str:
    text = object_text(value) if hasattr(type(value), "shape") else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# -- kinds: None when the fact holds, else what was found ------------------------------------------------------------
Found = str | None


def _found(holds: bool, text: Callable[[], str]) -> Found:
    return None if holds else text()


def _check_type(guard: Guard, value: Any) -> Found:
    return _found(type(value) is guard.value, lambda: f"its type is {type(value).__qualname__}")


def _check_identity(guard: Guard, value: Any) -> Found:
    return _found(value is guard.value, lambda: f"it is {_short(value)}")


def _check_weak_identity(guard: Guard, value: Any) -> Found:
    expected = guard.value() if isinstance(guard.value, weakref.ReferenceType) else guard.value
    gone = expected is None and guard.value is not None
    return _found(value is expected and not gone, lambda: "the object is gone" if gone else f"it is {_short(value)}")


def _check_equals(guard: Guard, value: Any) -> Found:
    return _found(equal_exactly(value, guard.value), lambda: f"it is {_short(value)}")


def _check_length(guard: Guard, value: Any) -> Found:
    size = container_length(value)
    return _found(size == guard.value, lambda: f"its length is {size}")


def _check_truth(guard: Guard, value: Any) -> Found:
    return _found(_truth(value) is bool(guard.value), lambda: f"it is {_short(value)}")


def _check_keys(guard: Guard, value: Any) -> Found:
    if not isinstance(value, dict):
        return f"it is no dictionary but {type(value).__qualname__}"
    return _found(equal_exactly(tuple(value), tuple(guard.value)), lambda: f"its keys are {_short(list(value))}")


def _contains(value: Any, key: Any) -> bool:
    try:
        hash(key)
    except Exception as error:
        raise Unreadable(f"it is asked for a key without a hash ({error})") from error
    if isinstance(value, dict):
        return dict.__contains__(value, key)
    if isinstance(value, set | frozenset | MappingProxyType):
        return key in value
    raise Unreadable(f"it has no keys: {type(value).__qualname__}")


def _check_has(guard: Guard, value: Any) -> Found:
    return _found(_contains(value, guard.value), lambda: f"it lacks {guard.value!r}")


def _check_lacks(guard: Guard, value: Any) -> Found:
    return _found(not _contains(value, guard.value), lambda: f"it has {guard.value!r}")


def _check_lacks_attr(guard: Guard, value: Any) -> Found:
    return _found(not hasattr(value, guard.value), lambda: f"it has {guard.value!r}")


def _check_empty(guard: Guard, value: Any) -> Found:
    if not isinstance(value, CellType):
        return f"it is no cell but {type(value).__qualname__}"
    try:
        return f"it holds {_short(value.cell_contents)}"
    except ValueError:
        return None


def _check_range(guard: Guard, value: Any) -> Found:
    same = isinstance(value, range) and all(
        getattr(value, part) == getattr(guard.value, part) for part in ("start", "stop", "step")
    )
    return _found(same, lambda: f"it is {_short(value)}")


def _check_set(guard: Guard, value: Any) -> Found:
    same = isinstance(value, set | frozenset) and equal_exactly(frozenset(value), guard.value)
    return _found(same, lambda: f"it is {_short(value)}")


def _check_bounds(guard: Guard, value: Any) -> Found:
    low, high = guard.value
    low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
    inside = type(value) is int and low <= value <= high and -(2**63) <= value < 2**63
    return _found(inside, lambda: f"it is {_short(value)}")


def _check_python(guard: Guard, *values: Any) -> Found:
    try:
        return _found(bool(guard.value.check(*values)), lambda: "the check says no")
    except Exception as error:
        return f"the check raised {type(error).__name__}: {error}"


def describe_tensor(facts: TensorFacts, value: Any) -> Found:
    """What differs between a tensor and the facts, or None."""
    cls: Any = type(value)
    if cls is not facts.cls:
        return f"its type is {cls.__qualname__}, expected {facts.cls.__qualname__}"
    rows: tuple[tuple[str, Any, Any], ...] = (
        ("rank", value.dim(), len(facts.sizes)),
        ("dtype", value.dtype, facts.dtype),
        ("device type", value.device.type, facts.device.type),
    )
    for name, actual, expected in rows:
        if actual != expected:
            return f"{name} mismatch: expected {expected}, got {actual}"
    if facts.device.index is not None and value.device.index != facts.device.index:
        return f"device mismatch: expected {facts.device}, got {value.device}"
    return _extent_mismatch(facts, value) or _flag_mismatch(facts, value)


def _extent_mismatch(facts: TensorFacts, value: Any) -> Found:
    for dim, (expected, actual) in enumerate(zip(facts.sizes, value.shape, strict=True)):
        if expected is not None and expected != actual:
            return f"size mismatch at dimension {dim}: expected {expected}, got {actual}"
    if facts.strides is None:
        return None
    if value.layout != torch.strided:
        return f"layout mismatch: {value.layout} has no strides"
    strides = value.stride()
    for dim, (expected, actual) in enumerate(zip(facts.strides, strides, strict=True)):
        if expected is not None and expected != actual:
            return f"stride mismatch at dimension {dim}: expected {expected}, got {actual}"
    return None


def _flag_mismatch(facts: TensorFacts, value: Any) -> Found:
    if facts.requires_grad is not None and bool(value.requires_grad) != facts.requires_grad:
        return f"requires_grad mismatch: expected {facts.requires_grad}, got {value.requires_grad}"
    if facts.dispatch_keys is not None and (facts.dispatch_keys ^ dispatch_keys(value)) & facts.key_mask:
        return f"dispatch key mismatch: got {dispatch_keys(value):#x}, expected {facts.dispatch_keys:#x}"
    return None


_OF_ONE: dict[str, Callable[[Guard, Any], Found]] = {
    "type_is": _check_type,
    "is": _check_identity,
    "is_weak": _check_weak_identity,
    "equals": _check_equals,
    "length": _check_length,
    "truth": _check_truth,
    "dict_keys": _check_keys,
    "dict_has": _check_has,
    "dict_lacks": _check_lacks,
    "lacks_attr": _check_lacks_attr,
    "cell_empty": _check_empty,
    "range_is": _check_range,
    "set_is": _check_set,
    "int_in": _check_bounds,
    "tensor": lambda guard, value: describe_tensor(guard.value, value),
}


# -- kinds that speak of several sources, or of none -----------------------------------------------------------------
def _same(guard: Guard, read: Reader) -> Found:
    return _found(read(guard.source) is read(guard.value), lambda: "they are two objects")  # type: ignore[arg-type]


def _not_same(guard: Guard, read: Reader) -> Found:
    return _found(read(guard.source) is not read(guard.value), lambda: "they are one object")  # type: ignore[arg-type]


def _has_at(guard: Guard, read: Reader) -> Found:
    inside = _contains(read(guard.source), read(guard.value))  # type: ignore[arg-type]
    return _found(inside, lambda: "it is no key")


def _lacks_at(guard: Guard, read: Reader) -> Found:
    inside = _contains(read(guard.source), read(guard.value))  # type: ignore[arg-type]
    return _found(not inside, lambda: "it is a key")


def _distinct(guard: Guard, read: Reader) -> Found:
    return _meeting(guard, lambda source: (id(read(source)), id(read(source)) + 1), "{} is {}")


def _meeting(guard: Guard, place: Callable[[Source], tuple[int, int]], text: str) -> Found:
    """The first pair of places (ranges) that meet."""
    others = [(place(source), source) for source in guard.value.others]
    for source in guard.value.sources:
        start, end = place(source)
        for (other_start, other_end), other in others:
            if source != other and start < other_end and other_start < end:
                return text.format(source, other)
    return None


def memory_range(value: Any) -> tuple[int, int]:
    """The addresses from a tensor's first element to its last; (0, 0) for an empty one."""
    if not isinstance(value, torch.Tensor):
        raise Unreadable(f"{_short(value)} is no tensor")
    sizes, strides, start = value.shape, value.stride(), value.data_ptr()
    if 0 in sizes:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return start, start + (last + 1) * value.element_size()


def _no_overlap(guard: Guard, read: Reader) -> Found:
    return _meeting(guard, lambda source: memory_range(read(source)), "{} and {} share memory")


def _overlap(guard: Guard, read: Reader) -> Found:
    return _found(_no_overlap(guard, read) is not None, lambda: "they do not")


def _no_gradients(guard: Guard, read: Reader) -> Found:
    if not torch.is_grad_enabled():
        return None
    asking = next((source for source in guard.value if getattr(read(source), "requires_grad", True)), None)
    return _found(asking is None, lambda: f"{asking} requires one, and gradients are on")


def _mode(guard: Guard, read: Reader) -> Found:
    name, expected = guard.value
    actual = modes.reader(name)()
    return _found(equal_exactly(actual, expected), lambda: f"{name} is {actual}")


def _shape(guard: Guard, read: Reader) -> Found:
    values = [read(source) for _, source in guard.value.symbols]
    if not all(type(value) is int for value in values):
        return "a symbol is no integer"
    holds = as_function(guard.value.expr, [symbol for symbol, _ in guard.value.symbols])(*values)
    pairs = zip(guard.value.symbols, values, strict=True)
    return _found(holds, lambda: ", ".join(f"{source} is {value}" for (_, source), value in pairs))


def _python(guard: Guard, read: Reader) -> Found:
    sources: tuple[Any, ...] = guard.value.sources or (guard.source,)
    return _check_python(guard, *(read(source) for source in sources))


_OF_MANY: dict[str, Callable[[Guard, Reader], Found]] = {
    "same_as": _same,
    "not_same_as": _not_same,
    "dict_has_at": _has_at,
    "dict_lacks_at": _lacks_at,
    "distinct": _distinct,
    "no_overlap": _no_overlap,
    "overlap": _overlap,
    "no_gradients": _no_gradients,
    "mode": _mode,
    "shape": _shape,
    "python": _python,
}


def violation(guard: Guard, read: Reader) -> str | None:
    """Why `guard` does not hold, or None."""
    try:
        if guard.kind in _OF_MANY:
            return _OF_MANY[guard.kind](guard, read)
        assert guard.source is not None
        return _OF_ONE[guard.kind](guard, read(guard.source))
    except Unreadable as error:
        return str(error)


def check(guards: Sequence[Guard], variables: Mapping[str, Any], fn: Any = None) -> tuple[Guard, str] | None:
    """The first violated guard in the given order, with a sentence that names the fact and what was found, or None.

    Args:
        guards: the facts.
        variables: the parameters of the call by name (`*args` a tuple, `**kwargs` a dictionary).
        fn: the function called, where guards speak of its closure.
    """
    read = Reader(variables, fn)
    for guard in guards:
        found = violation(guard, read)
        if found is not None:
            return guard, f"{guard}: {found}"
    return None
