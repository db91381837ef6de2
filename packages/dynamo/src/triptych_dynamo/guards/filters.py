"""What users see of guards, and filters that drop some: `Options.guard_filter_fn` and ready-made ones.

A filter takes the `GuardEntry` of each guard of a finished frame and answers with a list of bools: whether to keep it.
What is dropped is not checked: a change of that fact goes unnoticed and gives the old result, hence the names in
`_unsafe`.

    >>> optimize(backend, options=Options(guard_filter_fn=skip_guard_on_globals_unsafe))(fn)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.python_check import Reader, Unreadable
from triptych_dynamo.sources import GlobalSource, Source

# kind -> the name under which filters written for torch.compile know such a guard.
GUARD_TYPES: dict[str, str] = {
    "type_is": "TYPE_MATCH",
    "is": "ID_MATCH",
    "is_weak": "ID_MATCH",
    "same_as": "DUPLICATE_INPUT",
    "not_same_as": "NOT_DUPLICATE_INPUT",
    "distinct": "OBJECT_ALIASING",
    "equals": "EQUALS_MATCH",
    "length": "SEQUENCE_LENGTH",
    "truth": "BOOL_MATCH",
    "dict_keys": "DICT_KEYS_MATCH",
    "dict_has": "DICT_CONTAINS",
    "dict_lacks": "DICT_NOT_CONTAINS",
    "dict_has_at": "DICT_CONTAINS",
    "dict_lacks_at": "DICT_NOT_CONTAINS",
    "lacks_attr": "HASATTR",
    "cell_empty": "EMPTY_CELL",
    "range_is": "EQUALS_MATCH",
    "set_is": "SET_MATCH",
    "int_in": "SHAPE_ENV",
    "tensor": "TENSOR_MATCH",
    "no_overlap": "STORAGE_OVERLAPPING",
    "overlap": "STORAGE_OVERLAPPING",
    "no_gradients": "GRAD_MODE",
    "mode": "GLOBAL_STATE",
    "shape": "SHAPE_ENV",
    "python": "LAMBDA_GUARD",
}
_MODE_TYPES = {
    "grad_mode": "GRAD_MODE",
    "deterministic": "DETERMINISTIC_ALGORITHMS",
    "default_device": "DEFAULT_DEVICE",
}
_PORTABLE = frozenset({"TENSOR_MATCH", "SHAPE_ENV", "GLOBAL_STATE", *_MODE_TYPES.values()})


@dataclass(frozen=True)
class GuardEntry:
    """One guard as filters see it.

    Attributes:
        guard_type: `GUARD_TYPES` of its kind.
        name: where the value is read, such as `L['x']` ("" for guards of no one source).
        value: the object that was there when the frame was compiled (None without a source; see `has_value`).
        is_global: the path begins at a global variable.
        is_parameter: the value is an `nn.Parameter`.
        module_types: classes of the `nn.Module`s on the path, outermost first, the value itself included.
        orig_guard: the guard: `kind`, `source`, `value` (what is expected), `user_line`.
    """

    guard_type: str
    name: str
    value: Any
    has_value: bool
    is_global: bool
    is_parameter: bool
    module_types: tuple[type, ...]
    orig_guard: Guard

    @property
    def source(self) -> Source | None:
        """The guard's source."""
        return self.orig_guard.source

    @property
    def user_line(self) -> str:
        """'file:line' of the user's code that made the fact matter."""
        return self.orig_guard.user_line

    def __str__(self) -> str:
        return f"{self.guard_type} {self.orig_guard} ({self.user_line})"


GuardFilter = Callable[[Sequence[GuardEntry]], Sequence[bool]]


def guard_type(guard: Guard) -> str:
    """The public name of the guard's kind."""
    if guard.kind == "mode":
        return _MODE_TYPES.get(guard.value[0], GUARD_TYPES["mode"])
    return GUARD_TYPES[guard.kind]


def guard_entries(guards: Sequence[Guard], variables: Mapping[str, Any], fn: Any = None) -> list[GuardEntry]:
    """The entries of `guards`, with the values that a call has.

    Args:
        guards: the facts of a frame.
        variables: its parameters by name.
        fn: the function called, for its closure.
    """
    read = Reader(variables, fn)
    return [_entry(guard, read) for guard in guards]


def _entry(guard: Guard, read: Reader) -> GuardEntry:
    source, values = guard.source, []
    steps = [] if source is None else list(source.path())
    for step in steps:
        try:
            values.append(read(step))
        except Unreadable:  # a fact about something that is not there
            break
    complete = len(values) == len(steps) > 0
    value = values[-1] if complete else None
    return GuardEntry(
        guard_type(guard),
        "" if source is None else str(source),
        value,
        complete,
        any(isinstance(step, GlobalSource) for step in steps),
        isinstance(value, torch.nn.Parameter),
        tuple(type(item) for item in values if isinstance(item, torch.nn.Module)),
        guard,
    )


def filtered(
    guards: list[Guard], keep: GuardFilter | None, variables: Mapping[str, Any], fn: Any = None
) -> list[Guard]:
    """The guards that the filter keeps.

    Raises:
        TypeError, ValueError: its answer is not one bool for each guard.
    """
    if keep is None:
        return guards
    given: Any = keep(guard_entries(guards, variables, fn))
    answer = list(given) if isinstance(given, Iterable) else [given]
    if not (isinstance(given, Iterable) and all(isinstance(item, bool) for item in answer)):
        raise TypeError(f"guard_filter_fn must give a list of bools, not {given!r}")
    if len(answer) != len(guards):
        raise ValueError(f"guard_filter_fn gave {len(answer)} answers for {len(guards)} guards: one bool for each")
    return [guard for guard, kept in zip(guards, answer, strict=True) if kept]


# -- ready-made filters ------------------------------------------------------------------------------------------------
def skip_all_guards_unsafe(entries: Sequence[GuardEntry]) -> list[bool]:
    """Keep none: the first graph serves every call."""
    return [False] * len(entries)


def skip_guard_on_globals_unsafe(entries: Sequence[GuardEntry]) -> list[bool]:
    """Drop guards on what is read through global variables."""
    return [not entry.is_global for entry in entries]


def skip_guard_on_all_nn_modules_unsafe(entries: Sequence[GuardEntry]) -> list[bool]:
    """Drop guards on modules and on all that is read through them: they are taken not to change."""
    return [not entry.module_types for entry in entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(entries: Sequence[GuardEntry]) -> list[bool]:
    """Drop guards on modules that torch itself defines, and on what they own."""
    return [not (entry.module_types and _is_inbuilt(entry.module_types[-1])) for entry in entries]


def _is_inbuilt(cls: type) -> bool:
    return cls.__module__.startswith(("torch.nn.", "torch.ao.nn."))


def keep_tensor_guards_unsafe(entries: Sequence[GuardEntry], keep_parameters: bool = False) -> list[bool]:
    """Keep guards on tensors alone; those on parameters only with `keep_parameters`."""
    return [entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not entry.is_parameter) for entry in entries]


def keep_portable_guards_unsafe(entries: Sequence[GuardEntry]) -> list[bool]:
    """Keep what can be checked without the Python objects of this process: tensors, sizes and modes."""
    return [entry.guard_type in _PORTABLE for entry in entries]
