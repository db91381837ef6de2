"""A module that is imported when it is first used, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for module `name`; reading an attribute imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
