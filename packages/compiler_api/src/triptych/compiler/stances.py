"""`set_stance` of this namespace: that of the front end, with backends by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triptych_dynamo
from triptych_dynamo.steering import mark

from triptych import backends
from triptych.reports import Report
from triptych.settings import Backend, Settings


class set_stance(triptych_dynamo.set_stance):  # noqa: N801  (called like a function)
    """Set how compiled callables behave: from now on, for a `with` block, or (as a decorator) while a function runs.

    stance: "default"; "force_eager": run the originals; "eager_on_recompile": use what is compiled, else run eagerly;
        "fail_on_recompile": use what is compiled, else raise; "eager_then_compile": run each callable eagerly once and
        learn from its sizes; "aot_eager_then_compile": the same, the first call with the backend `aot_eager`.
    skip_guard_eval_unsafe: a callable that has one version runs it without a look at its guards.
    force_backend: a name or callable that compiles everything meanwhile; with "default" only.

    The stance is process-wide. Inside a compiled region the call is a graph break.

    Raises: triptych_dynamo.StanceError (a RuntimeError) at once for an unknown stance or a wrong combination;
        InvalidBackendError for an unknown backend.

    Example:
        >>> with triptych.compiler.set_stance("fail_on_recompile"):
        ...     serve(compiled, requests)
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Backend | None = None,
    ) -> None:
        first = _backend("aot_eager") if stance == "aot_eager_then_compile" else None
        super().__init__(
            stance,
            skip_guard_eval_unsafe=skip_guard_eval_unsafe,
            force_backend=None if force_backend is None else _backend(force_backend),
            first_backend=first,
        )


mark(set_stance, "forbidden", "set_stance changes how compiled code runs: call it outside the compiled region")
_made: dict[str, Callable[..., Any]] = {}


def _backend(backend: str | Backend) -> Backend:
    """The backend of a name, the same object each time, so that what it compiled is found again."""
    if not isinstance(backend, str):
        return backend
    if backend not in _made:
        _made[backend] = backends.resolve(Settings(backend=backend), Report(f"stance {backend}"))
    return _made[backend]
