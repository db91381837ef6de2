"""`PrecompileSummary`: what a capture covered, as a record."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class PrecompileSummary:
    """What a capture covered.

    frames: calls captured. resume_functions: continuations behind graph breaks. guarded_codes: code objects with
    guards. backend_graphs: graphs compiled, backward ones included. bypassed, truncated, uncovered_frames,
    wont_generalize: what a later call may meet uncovered. dropped_guards, kept_guards and so on: facts that are not,
    or are, checked at a later call. capture_errors: what went wrong. A tracer that records operators has one frame
    and no guards; what it relies on is checked by the artifact's invariants.
    """

    frames: int = 0
    resume_functions: int = 0
    guarded_codes: int = 0
    backend_graphs: int = 0
    bypassed: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    uncovered_frames: tuple[str, ...] = ()
    wont_generalize: tuple[str, ...] = ()
    dropped_guards: tuple[Any, ...] = ()
    kept_guards: tuple[Any, ...] = ()
    risky_dropped_guards: tuple[Any, ...] = ()
    policy_dropped_guards: tuple[Any, ...] = ()
    dropped_guard_code: tuple[str, ...] = ()
    capture_errors: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every frame that was reached is in the artifact."""
        return self.frames > 0 and not (self.bypassed or self.truncated or self.uncovered_frames or self.capture_errors)

    @property
    def dropped_guard_types(self) -> tuple[str, ...]:
        """Kinds of facts that are not checked, each once."""
        return _kinds(self.dropped_guards)

    @property
    def kept_guard_types(self) -> tuple[str, ...]:
        """Kinds of facts that are checked, each once."""
        return _kinds(self.kept_guards)

    def __str__(self) -> str:
        lines = [f"precompiled: {'complete' if self.complete else 'incomplete'}"]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value:
                lines.append(f"  {field.name}: {value if isinstance(value, int) else ', '.join(map(str, value))}")
        return "\n".join(lines)


def _kinds(guards: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(getattr(guard, "guard_type", guard)) for guard in guards))
