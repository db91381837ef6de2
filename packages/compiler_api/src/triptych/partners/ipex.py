"""The backend `ipex`: Intel's extension for PyTorch, where it is installed: its `compile` function takes each graph."""

from __future__ import annotations

from typing import Any

from triptych.errors import InvalidOptionError
from triptych.partners import host
from triptych.reports import Report
from triptych.settings import Backend, Settings

NAME = "ipex"
MODULE = "intel_extension_for_pytorch"


def check(settings: Settings) -> None:
    """Raises InvalidOptionError: this backend has neither modes nor options."""
    raise InvalidOptionError(f"backend {NAME!r} has neither modes nor options")


def backend(settings: Settings, report: Report) -> Backend:
    """The backend for `triptych.compile(..., backend="ipex")`: autograd is ours, ATen graphs go to the extension."""
    found: Any = host.require(MODULE, "intel-extension-for-pytorch", NAME).compile
    return host.whole_graphs(NAME, getattr(found, "compile", found), settings, report)
