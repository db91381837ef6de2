"""The backends a user can name, as a table; resolving a name, a callable or nothing to one backend.

A backend is `backend(gm, example_inputs, **kwargs) -> callable`, as `triptych_dynamo` calls it. The rows here are
made of our own stages; every other name is looked up among those registered with `triptych_dynamo` and the entry
points of the group `torch_dynamo_backends`, where third parties put theirs.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import triptych_dynamo

from triptych.errors import InvalidBackendError, InvalidModeError, InvalidOptionError, suggestion
from triptych.reports import Report
from triptych.settings import Backend, Settings


@dataclass(frozen=True)
class Row:
    """A backend of ours. make: "module:function" that makes the backend of (settings, report); imported on first use.

    tunable: whether mode and options, which are the code generator's, mean anything to it.
    """

    make: str
    text: str
    tunable: bool = False
    tags: tuple[str, ...] = ()


TABLE: dict[str, Row] = {
    "inductor": Row("triptych.pipelines:inductor", "autograd ahead of time and generated code", tunable=True),
    "aot_eager": Row(
        "triptych.pipelines:aot_eager", "autograd ahead of time, ATen operators one by one", tags=("debug",)
    ),
    "eager": Row("triptych.pipelines:eager", "the captured graph, operator by operator", tags=("debug",)),
}


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


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names that `backend=` takes, sorted. exclude_tags: leaves out backends with one of these tags; () or None:

    none.
    """
    hidden = set(exclude_tags or ())
    ours = {name for name, row in TABLE.items() if not hidden & set(row.tags)}
    others = set(triptych_dynamo.list_backends(exclude_tags=tuple(hidden))) - TABLE.keys()
    return sorted(ours | others)


def check(backend: str | Backend) -> None:
    """Raises InvalidBackendError unless `backend` is a known name or a callable."""
    if isinstance(backend, str):
        if backend in TABLE or backend in triptych_dynamo.list_backends(exclude_tags=()):
            return
        known = list_backends(())
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
    row = TABLE.get(backend) if isinstance(backend, str) else None
    if row is None:
        found = triptych_dynamo.lookup_backend(backend) if isinstance(backend, str) else backend
        keywords = settings.backend_keywords()
        return functools.partial(found, **keywords) if keywords else found
    _check_tuning(str(backend), row, settings)
    return _Lazy(row, settings, report)


def _check_tuning(name: str, row: Row, settings: Settings) -> None:
    if settings.mode in (None, "default") and not settings.options:
        return
    if not row.tunable:
        kind, error = ("mode", InvalidModeError) if settings.mode else ("options", InvalidOptionError)
        tunable = ", ".join(name for name, row in TABLE.items() if row.tunable)
        raise error(f"backend {name!r} generates no code, so {kind} has no meaning there (it has for: {tunable})")
    _load("triptych.pipelines:code_options")(settings)


def _load(path: str) -> Callable[..., Any]:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


class _Lazy:
    """A backend of ours whose stages are imported when the first graph arrives."""

    def __init__(self, row: Row, settings: Settings, report: Report) -> None:
        self._row, self._settings, self._report = row, settings, report
        self._made: Backend | None = None

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._made is None:
            self._made = _load(self._row.make)(self._settings, self._report)
        return self._made(gm, example_inputs)
