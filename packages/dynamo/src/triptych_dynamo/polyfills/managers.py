"""Python models of what context managers written around torch's modes do as decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def decorated(manager: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`manager(function)`: each call of the result runs inside the manager."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with manager:
            return function(*args, **kwargs)

    return wrapper
