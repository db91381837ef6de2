"""Names of classes as the texts of the interpreter's own errors give them."""

from __future__ import annotations

import sys


def short_name(cls: type) -> str:
    """`tp_name`: of a class written in C with its module, as far as one is told (`collections.deque`)."""
    is_static = not cls.__flags__ & (1 << 9)
    return f"{cls.__module__}.{cls.__name__}" if is_static and cls.__module__ != "builtins" else cls.__name__


def full_name(cls: type) -> str:
    """`%T`: module and qualified name, which newer texts have."""
    if cls.__module__ in ("builtins", "__main__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


TELLS_FULL_NAMES = sys.version_info >= (3, 14)  # texts about keys, members and `with`
