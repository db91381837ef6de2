"""Python models of functions of `torch.distributions` that do what no trace follows."""

from __future__ import annotations

from typing import Any

import torch


def lazy_property_get(lazy: Any, instance: Any, obj_type: Any = None) -> Any:
    """`lazy_property.__get__`: of the class it is the property itself, and not an object that documentation tools like
    better.
    """
    if instance is None:
        return lazy
    with torch.enable_grad():
        value = lazy.wrapped(instance)
    setattr(instance, lazy.wrapped.__name__, value)
    return value
