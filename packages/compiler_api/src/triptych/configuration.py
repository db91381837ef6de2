"""Defaults of `triptych.compile` as one table of typed rows, and how their values are found.

A value comes from, first that has one: the keyword of the `compile` call; the innermost `patch` around it; an
assignment `triptych.compiler.config.name = value` (process-wide); the environment variable; the default. It is taken
when `compile` is called, so that a compiled callable does not change afterwards.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import os
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from triptych.errors import ConfigError, suggestion

OFF = ("", "0", "false", "no", "off")
ON = ("1", "true", "yes", "on")


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in (*OFF, *ON):
        raise ValueError("it is 1 or 0")
    return lowered in ON


def _optional_boolean(text: str) -> bool | None:
    return None if text.strip().lower() in ("", "none", "auto") else _boolean(text)


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError("it is a positive integer")
    return number


def integers_of(text: str) -> tuple[int, ...]:
    """The integers of a list with commas between. Raises ValueError."""
    return tuple(int(part) for part in text.split(",") if part.strip())


def _integers(text: str) -> str:
    try:
        integers_of(text)
    except ValueError:
        raise ValueError("it is a list of integers with commas between") from None
    return text


def _is_integers(value: Any) -> bool:
    try:
        return isinstance(value, str) and integers_of(value) is not None
    except ValueError:
        return False


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _boolean,
    "bool | None": _optional_boolean,
    "int": _positive,
    "str": str,
    "integers": _integers,
}
CHECKS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda v: isinstance(v, bool),
    "bool | None": lambda v: v is None or isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0,
    "str": lambda v: isinstance(v, str),
    "integers": _is_integers,
}

MEANINGS = {
    "bool": "True or False",
    "bool | None": "True, False or None",
    "int": "a positive integer",
    "str": "text",
    "integers": "text: integers with commas between",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One setting. kind: a key of `PARSERS`; variables: environment variables, the first that is set counts; choices:

    the values it may have, where they are few; peer: what it is called in `torch.compiler.config` and its like.
    """

    kind: str
    default: Any
    variables: tuple[str, ...]
    text: str
    choices: tuple[str, ...] = ()
    peer: str = ""


TABLE: dict[str, Row] = {
    "disable": Row(
        "bool",
        False,
        ("TRIPTYCH_DISABLE", "TRIPTYCH_COMPILE_DISABLE", "TORCH_COMPILE_DISABLE"),
        "`compile` gives its argument back unchanged",
        peer="TORCH_COMPILE_DISABLE",
    ),
    "dynamic": Row(
        "bool | None",
        None,
        ("TRIPTYCH_DYNAMIC",),
        "whether sizes are symbolic: from the first call, never, or (None) once they changed",
        peer="assume_static_by_default, automatic_dynamic_shapes",
    ),
    "recompile_limit": Row(
        "int", 8, ("TRIPTYCH_RECOMPILE_LIMIT",), "versions kept of one piece of code", peer="recompile_limit"
    ),
    "on_recompile_limit": Row(
        "str",
        "generalise",
        ("TRIPTYCH_ON_RECOMPILE_LIMIT",),
        "what happens at that limit: what differed becomes symbolic, an error, or the code runs eagerly",
        choices=("generalise", "error", "eager"),
        peer="fail_on_recompile_limit_hit",
    ),
    "on_error": Row(
        "str",
        "raise",
        ("TRIPTYCH_ON_ERROR",),
        "what a failure of the compiler itself does: it is shown, or the graph runs eagerly with a warning",
        choices=("raise", "eager"),
        peer="suppress_errors",
    ),
    "force_disable_caches": Row(
        "bool",
        False,
        ("TRIPTYCH_FORCE_DISABLE_CACHES",),
        "nothing is looked for or kept on disk",
        peer="force_disable_caches",
    ),
    "cache_key_tag": Row(
        "str",
        "",
        ("TRIPTYCH_CACHE_KEY_TAG",),
        "part of the key of every graph on disk: other tags, other graphs",
        peer="cache_key_tag",
    ),
    "job_id": Row(
        "str",
        "",
        ("TRIPTYCH_JOB_ID", "TORCH_COMPILE_JOB_ID"),
        "sizes and numbers that varied are kept on disk under this name, and vary from the first call on in the next "
        "process with it",
        peer="job_id",
    ),
    "profile_read_key": Row(
        "str",
        "",
        ("TRIPTYCH_PROFILE_READ_KEY",),
        "another such name, of which the profiles are read too",
        peer="pgo_extra_read_key",
    ),
    "profile_write_key": Row(
        "str",
        "",
        ("TRIPTYCH_PROFILE_WRITE_KEY",),
        "another such name, under which the profiles are written too",
        peer="pgo_extra_write_key",
    ),
    "dynamic_sources": Row(
        "str",
        "",
        ("TRIPTYCH_DYNAMIC_SOURCES", "TORCH_COMPILE_DYNAMIC_SOURCES"),
        "sizes and numbers that vary from the first call on, by source: `L['x'],L['y']:0` or regular expressions",
        peer="dynamic_sources",
    ),
    "dynamic_values": Row(
        "integers",
        "",
        ("TRIPTYCH_DYNAMIC_VALUES", "TORCH_COMPILE_DYNAMIC_VALUES"),
        "sizes and integers that vary where they are one of these, such as 1111: values to warm a program up with "
        "where breaks hide what sizes come from; those of modules are left out",
        peer="dynamic_values",
    ),
    "unbacked_sources": Row(
        "str",
        "",
        ("TRIPTYCH_UNBACKED_SOURCES", "TORCH_COMPILE_UNBACKED_SOURCES"),
        "sizes on which no decision may depend, by source",
        peer="unbacked_sources",
    ),
    "debug_directory": Row(
        "str",
        "",
        ("TRIPTYCH_DEBUG",),
        "folder that gets one folder per compiled graph: readable graphs of each stage, generated code that runs "
        "alone; 1 means ./triptych_debug",
        peer="TORCH_COMPILE_DEBUG",
    ),
    "profiler_regions": Row(
        "bool",
        True,
        ("TRIPTYCH_PROFILER_REGIONS",),
        "compiled graphs appear by name in torch.profiler",
        peer="TORCHINDUCTOR_PROFILE",
    ),
    "freezing": Row(
        "bool",
        False,
        ("TRIPTYCH_FREEZING",),
        "in evaluation without gradients, parameters become constants, as with the option of that name",
        peer="TORCHINDUCTOR_FREEZING",
    ),
    "progress": Row(
        "bool", True, ("TRIPTYCH_PROGRESS",), "a line on the terminal while a compilation takes over two seconds"
    ),
    "override_backends": Row(
        "str",
        "",
        ("TRIPTYCH_OVERRIDE_BACKENDS",),
        "backends by number of the graph, to find the one that fails: `0-3:eager;>7:aot_eager`",
        peer="TORCH_COMPILE_OVERRIDE_BACKENDS",
    ),
    "override_options": Row(
        "str",
        "",
        ("TRIPTYCH_OVERRIDE_OPTIONS",),
        "options of the code generator by number of the graph: `0:fusion=0,exact=1;>4:fusion=0`",
        peer="TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS",
    ),
}

_assigned_lock = threading.Lock()
_assigned: dict[str, Any] = {}
_patched: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "triptych_config", default=types.MappingProxyType({})
)


def row_of(name: str) -> Row:
    """The row of a setting. Raises `ConfigError` for an unknown name."""
    if name not in TABLE:
        raise ConfigError(f"unknown setting {name!r}: {suggestion(name, TABLE)} (docs/configuration.md has the table)")
    return TABLE[name]


def check(name: str, value: Any) -> Any:
    """`value`, which the setting may have. Raises `ConfigError`."""
    row = row_of(name)
    if not CHECKS[row.kind](value):
        raise ConfigError(f"{name} must be {MEANINGS[row.kind]}, not {value!r}")
    if row.choices and value not in row.choices:
        raise ConfigError(f"{name} cannot be {value!r}: {suggestion(str(value), row.choices)}")
    return value


def get(name: str) -> Any:
    """The present value of a setting."""
    row = row_of(name)
    for values in (_patched.get(), _assigned):
        if name in values:
            return values[name]
    for variable in row.variables:
        if variable in os.environ:
            return _from_environment(name, row, variable)
    return row.default


def _from_environment(name: str, row: Row, variable: str) -> Any:
    text = os.environ[variable]
    try:
        return check(name, PARSERS[row.kind](text))
    except ValueError as error:
        raise ConfigError(f"the environment variable {variable}={text!r} is wrong: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"the environment variable {variable}={text!r} is wrong: {error}") from None


def assign(name: str, value: Any) -> None:
    """Set a value for the whole process."""
    value = check(name, value)
    with _assigned_lock:
        _assigned[name] = value


def unassign(name: str) -> None:
    """Take an assignment back: the environment variable or the default counts again."""
    row_of(name)
    with _assigned_lock:
        _assigned.pop(name, None)


class patch(contextlib.ContextDecorator):  # noqa: N801  (called like a function)
    """Values for a `with` block, or while the decorated function runs; for this thread (and its tasks) alone.

    Example:
        >>> with triptych.compiler.config.patch(recompile_limit=2):
        ...     compiled = triptych.compile(model)
    """

    def __init__(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        self.values = {name: check(name, value) for name, value in {**(values or {}), **named}.items()}
        self._tokens: list[contextvars.Token[Mapping[str, Any]]] = []

    def __enter__(self) -> None:
        self._tokens.append(_patched.set({**_patched.get(), **self.values}))

    def __exit__(self, *exception: object) -> None:
        _patched.reset(self._tokens.pop())

    def _recreate_cm(self) -> patch:
        return patch(self.values)


def as_dict() -> dict[str, Any]:
    """Every setting with its present value."""
    return {name: get(name) for name in TABLE}


def lines() -> Iterator[str]:
    """The documentation's table, line by line."""
    yield "| name | type | default | environment variable | meaning |"
    yield "|---|---|---|---|---|"
    for name, row in TABLE.items():
        kind = row.kind if not row.choices else " or ".join(f'"{choice}"' for choice in row.choices)
        kind = kind.replace("|", "\\|")
        yield f"| `{name}` | {kind} | `{row.default!r}` | {', '.join(f'`{v}`' for v in row.variables)} | {row.text} |"


class ConfigModule(types.ModuleType):
    """A module whose attributes are the settings: reading gives the present value, assigning checks it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            assign(name, value)

    def __delattr__(self, name: str) -> None:
        unassign(name)

    def __dir__(self) -> list[str]:
        return [*TABLE, "as_dict", "patch"]

    patch = staticmethod(patch)
    as_dict = staticmethod(functools.partial(as_dict))
