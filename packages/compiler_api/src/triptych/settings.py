"""What a user asked `compile` for, as one frozen record that is handed down; checked once, here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from triptych.errors import InvalidOptionError, suggestion

ON_ERROR = ("raise", "eager")

Backend = Callable[..., Callable[..., Any]]


class Keywords(TypedDict, total=False):
    """The keyword arguments of `compile`, for type checkers."""

    fullgraph: bool
    dynamic: bool | None
    backend: str | Backend | None
    mode: str | None
    options: Mapping[str, Any] | None
    disable: bool
    name: str | None
    recompile_limit: int | None
    on_error: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of one `compile` call; see there for their meaning."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Backend | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    disable: bool = False
    name: str | None = None
    recompile_limit: int | None = None
    on_error: str = "raise"

    def __post_init__(self) -> None:
        if not (self.dynamic is None or isinstance(self.dynamic, bool)):
            raise TypeError(f"dynamic must be True, False or None, not {self.dynamic!r}")
        if self.mode is not None and self.options is not None:
            raise InvalidOptionError(
                "mode and options were both given, but a mode is itself a set of options: give one of them "
                "(triptych_inductor.list_mode_options() shows the options of each mode)"
            )
        if self.options is not None and not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a mapping of names to values, not {type(self.options).__name__}")
        if self.on_error not in ON_ERROR:
            raise ValueError(f"on_error={self.on_error!r}: {suggestion(str(self.on_error), ON_ERROR)}")
        if self.recompile_limit is not None and not (
            isinstance(self.recompile_limit, int) and self.recompile_limit > 0
        ):
            raise ValueError(f"recompile_limit must be a positive integer, not {self.recompile_limit!r}")

    def backend_keywords(self) -> dict[str, Any]:
        """What a backend other than ours is given besides graph and inputs: `mode` and `options`, where given."""
        given: dict[str, Any] = {}
        if self.mode is not None and self.mode != "default":
            given["mode"] = self.mode
        if self.options:
            given["options"] = dict(self.options)
        return given
