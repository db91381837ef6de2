"""What the code behind a graph calls in place of a program's own output: known texts, warnings at their place."""

from __future__ import annotations

import warnings
from typing import Any


class Shown:
    """An argument of a logging call whose texts were taken when the program made the call."""

    def __init__(self, text: str, representation: str) -> None:
        self.text, self.representation = text, representation

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.representation


def warn_at(message: Any, category: Any, filename: str, line: int, namespace: dict[str, Any]) -> None:
    """A warning at a line of the program: once per place where the filters say so, as `warnings.warn` counts."""
    registry = namespace.setdefault("__warningregistry__", {})
    module = namespace.get("__name__") or "<string>"
    warnings.warn_explicit(message, category or UserWarning, filename, line, module, registry)


def warn_above(message: Any, category: Any, levels: int) -> None:
    """A warning at a caller of the compiled function, `levels` above it."""
    warnings.warn(message, category, stacklevel=levels + 2)
