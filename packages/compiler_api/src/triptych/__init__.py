"""PyTorch programs made faster without changing them: `triptych.compile`, and the `triptych.compiler` namespace.

Nothing of the three stages is imported before the first `compile` call needs it, so that importing this costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from triptych.__about__ import __version__ as __version__

if TYPE_CHECKING:
    from triptych import compiler as compiler
    from triptych.entry import compile as compile
    from triptych.entry import explain as explain
    from triptych.logs import set_logs as set_logs
    from triptych.reports import Report as Report
    from triptych.reports import report as report

_EXPORTS = {
    "compile": "triptych.entry",
    "explain": "triptych.entry",
    "report": "triptych.reports",
    "set_logs": "triptych.logs",
    "Report": "triptych.reports",
}
_SUBMODULES = frozenset({"backends", "compiler", "errors"})

__all__ = ["__version__", "compile", "compiler", "explain", "report", "Report", "set_logs"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"triptych.{name}")
    raise AttributeError(f"module 'triptych' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_SUBMODULES})
