"""Options of one backend as a frozen dataclass, made of what a user gave in `options=` with names and types checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from triptych.errors import InvalidModeError, InvalidOptionError, suggestion
from triptych.settings import Settings

T = TypeVar("T")


def parse(cls: type[T], backend: str, settings: Settings) -> T:
    """An instance of the dataclass `cls` with the values of `settings.options`.

    Raises: InvalidModeError where a mode was asked for (modes are the code generator's); InvalidOptionError for an
        unknown name (with a suggestion) or a value of the wrong type.
    """
    if settings.mode not in (None, "default"):
        raise InvalidModeError(f"backend {backend!r} has no modes, so mode={settings.mode!r} has no meaning there")
    hints = typing.get_type_hints(cls)
    chosen: dict[str, Any] = {}
    for key, value in (settings.options or {}).items():
        name = str(key).replace("-", "_")
        if name not in hints:
            raise InvalidOptionError(f"backend {backend!r} has no option {key!r}: {suggestion(name, hints)}")
        wanted = _classes(hints[name])
        if tuple in wanted and isinstance(value, list):
            value = tuple(value)
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            names = " or ".join(c.__name__ for c in wanted)
            found = f"{value!r}, of type {type(value).__name__}"
            raise InvalidOptionError(f"option {key!r} of backend {backend!r} is {found}; it must be {names}")
        chosen[name] = value
    return cls(**chosen)


def _classes(hint: Any) -> tuple[type, ...]:
    """The classes that a type hint admits: `str | None` gives (str, NoneType), `tuple[str, ...]` gives (tuple,)."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return tuple(c for part in typing.get_args(hint) for c in _classes(part))
    if hint is Any:
        return (object,)
    origin = typing.get_origin(hint) or hint
    return (Mapping,) if origin is dict else (origin,)


def described(cls: Any) -> dict[str, str]:
    """Option name -> default value as text, for documentation."""
    return {field.name: repr(_default(field)) for field in dataclasses.fields(cls)}


def _default(field: dataclasses.Field) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
