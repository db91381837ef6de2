"""What a user asked `compile` for, as one frozen record that is handed down; checked once, here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from triptych import configuration
from triptych.errors import InvalidOptionError

Backend = Callable[..., Callable[..., Any]]
GuardFilter = Callable[..., Any]

GUARD_FILTER, USE_AOTI = "guard_filter_fn", "use_aoti"  # the options that are none of the code generator

_FROM_CONFIGURATION = (
    *("recompile_limit", "on_error", "on_recompile_limit", "dynamic"),
    *("cache_key_tag", "debug_directory", "profiler_regions", "freezing"),
    *("job_id", "profile_read_key", "profile_write_key", "dynamic_sources", "dynamic_values", "unbacked_sources"),
)


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
    isolate_recompiles: bool
    on_recompile_limit: str | None
    on_error: str | None
    shapes_spec: Any
    dynamic_shapes: Any


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of one `compile` call; see there for their meaning. What was not given comes from `configuration`.

    options: those of the code generator. guard_filter_fn, use_aoti: taken out of what the user gave as options.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Backend | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    disable: bool = False
    name: str | None = None
    recompile_limit: int | None = None
    on_error: str | None = None
    on_recompile_limit: str | None = None
    guard_filter_fn: GuardFilter | None = None
    use_aoti: bool = False
    cache_key_tag: str | None = None
    disk_cache: bool | None = None
    debug_directory: str | None = None
    profiler_regions: bool | None = None
    freezing: bool | None = None
    job_id: str | None = None
    profile_read_key: str | None = None
    profile_write_key: str | None = None
    dynamic_sources: str | None = None
    dynamic_values: str | None = None
    unbacked_sources: str | None = None
    shapes_spec: Any = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.mode is not None and self.options is not None:
            raise InvalidOptionError(
                "mode and options were both given, but a mode is itself a set of options: give one of them "
                "(triptych_inductor.list_mode_options() shows the options of each mode)"
            )
        for name in _FROM_CONFIGURATION:
            given = getattr(self, name)
            self._set(name, configuration.get(name) if given is None else configuration.check(name, given))
        self._set("disable", self.disable or configuration.get("disable"))
        if self.disk_cache is None:
            self._set("disk_cache", not configuration.get("force_disable_caches"))
        if self.debug_directory in configuration.OFF:
            self._set("debug_directory", "")
        self._take_out_own_options()

    def _take_out_own_options(self) -> None:
        options = dict(self.options or {})
        for name in {GUARD_FILTER, USE_AOTI} & options.keys():
            self._set(name, options.pop(name))
            self._set("options", options or None)
        if self.guard_filter_fn is not None and not callable(self.guard_filter_fn):
            raise InvalidOptionError(
                f"the option {GUARD_FILTER!r} is a function of guard entries that gives one bool for each, "
                f"not {self.guard_filter_fn!r} (triptych.compiler.skip_guard_on_globals_unsafe is one)"
            )
        if not isinstance(self.use_aoti, bool):
            raise InvalidOptionError(f"the option {USE_AOTI!r} is True or False, not {self.use_aoti!r}")

    def _check_types(self) -> None:
        for name in ("fullgraph", "disable"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if not (self.dynamic is None or isinstance(self.dynamic, bool)):
            raise TypeError(f"dynamic must be True, False or None, not {self.dynamic!r}")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a mapping of names to values, not {type(self.options).__name__}")
        for name in ("mode", "name"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise TypeError(f"{name} must be a string or None, not {getattr(self, name)!r}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def backend_keywords(self) -> dict[str, Any]:
        """What a backend other than ours is given besides graph and inputs: `mode` and `options`, where given."""
        given: dict[str, Any] = {}
        if self.mode is not None and self.mode != "default":
            given["mode"] = self.mode
        if self.options:
            given["options"] = dict(self.options)
        return given
