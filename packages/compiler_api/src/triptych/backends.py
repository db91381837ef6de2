"""Resolving what a user names as backend: a row of `backend_table`, a registered name, a callable, or nothing.

A backend is `backend(gm, example_inputs, **kwargs) -> callable`, as `triptych_dynamo` calls it. Names without a row are
looked up among those registered with `triptych_dynamo` and the entry points of the group `torch_dynamo_backends`, where
third parties put theirs; an entry point is loaded when its name is used.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import triptych_dynamo

from triptych import backend_table, overrides, progress
from triptych.backend_table import ALIASES, TABLE, Row
from triptych.errors import (
    CompileFallbackWarning,
    InvalidBackendError,
    InvalidModeError,
    InvalidOptionError,
    suggestion,
)
from triptych.reports import Report
from triptych.settings import Backend, Settings


class _Default:
    """The process's default backend. It is process-wide by the meaning of `set_default_backend`, hence the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backend: str | Backend = "inductor"

    def get(self) -> str | Backend:
        with self._lock:
            return self._backend

    def set(self, backend: str | Backend) -> None:
        with self._lock:
            self._backend = backend


_default = _Default()


def get_default_backend() -> str | Backend:
    """The backend that `compile` uses when none is given: "inductor" unless it was set."""
    return _default.get()


def set_default_backend(backend: str | Backend | None) -> None:
    """Sets the backend of later `compile` calls that name none.

    backend: a name, a callable, or None for "inductor" again.
    Raises: InvalidBackendError for an unknown name.
    """
    chosen = "inductor" if backend is None else backend
    check(chosen)
    _default.set(chosen)


def list_backends(exclude_tags: Sequence[str] | str | None = ("debug", "experimental")) -> list[str]:
    """Names that `backend=` takes, sorted.

    exclude_tags: leaves out backends with one of these tags (or this one), and those that cannot be used here because
        their package is not installed. () or None: every name there is.
    """
    hidden = {exclude_tags} if isinstance(exclude_tags, str) else set(exclude_tags or ())
    ours = {name for name, row in TABLE.items() if not hidden or not (hidden & set(row.tags) or row.missing)}
    others = set(triptych_dynamo.list_backends(exclude_tags=tuple(hidden))) - TABLE.keys() - ALIASES.keys()
    return sorted(ours | others)


def check(backend: str | Backend) -> None:
    """Raises InvalidBackendError unless `backend` is a callable or a name with something behind it."""
    if isinstance(backend, str):
        found = backend_table.find(backend)
        if found is not None:
            backend_table.check_available(backend, found[1])
            return
        if backend in triptych_dynamo.list_backends(exclude_tags=()):
            return
        known = {*list_backends(()), *ALIASES}
        raise InvalidBackendError(
            f"unknown backend {backend!r}: {suggestion(backend, known)} (triptych.compiler.list_backends(()) lists all)"
        )
    if not callable(backend):
        raise InvalidBackendError(
            f"a backend is a name or a callable (gm, example_inputs) -> callable, not {type(backend).__name__}"
        )


def resolve(settings: Settings, report: Report) -> Backend:
    """The backend that `settings` asks for, with names, mode and options checked now rather than at the first call.

    Raises: InvalidBackendError, InvalidModeError, InvalidOptionError.
    """
    backend = settings.backend if settings.backend is not None else get_default_backend()
    check(backend)
    found = backend_table.find(backend) if isinstance(backend, str) else None
    if found is None:
        function = triptych_dynamo.lookup_backend(backend) if isinstance(backend, str) else backend
        keywords = settings.backend_keywords()
        return functools.partial(function, **keywords) if keywords else function
    name, row = found
    _check_tuning(name, row, settings)
    return _Lazy(row, settings, report)


def compiling_backend(settings: Settings, report: Report) -> Backend:
    """The backend of a `compile` call: what `resolve` gives, with overrides, progress, and failures as the user wants.

    Raises: as `resolve`.
    """
    backend = resolve(settings, report)
    if overrides.wanted():
        backend = overrides.Numbered(backend, settings, report, resolve)

    def run(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        with progress.shown(f"{report.name}, graph {len(report.graphs)}"):
            try:
                return backend(gm, example_inputs)
            except Exception as error:
                if settings.on_error == "raise":
                    raise
                report.failures.append(f"{type(error).__name__}: {error}")
                warnings.warn(
                    f"triptych: a graph of {report.name} runs eagerly, because its backend failed: "
                    f"{type(error).__name__}: {error}",
                    CompileFallbackWarning,
                    stacklevel=2,
                )
                return gm.forward

    return run


def _check_tuning(name: str, row: Row, settings: Settings) -> None:
    if settings.mode in (None, "default") and not settings.options:
        return
    if row.check:
        backend_table.load(row.check)(settings)
        return
    kind, error = ("mode", InvalidModeError) if settings.mode else ("options", InvalidOptionError)
    tunable = ", ".join(name for name, row in TABLE.items() if row.check)
    raise error(f"backend {name!r} generates no code, so {kind} has no meaning there (it has for: {tunable})")


class _Lazy:
    """A backend of ours whose stages are imported when the first graph arrives."""

    def __init__(self, row: Row, settings: Settings, report: Report) -> None:
        self._row, self._settings, self._report = row, settings, report
        self._made: Backend | None = None

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._made is None:
            self._made = backend_table.load(self._row.make)(self._settings, self._report)
        return self._made(gm, example_inputs)
