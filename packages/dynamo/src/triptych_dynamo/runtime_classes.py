"""What the code behind a graph calls to make the classes that a program defines inside a region."""

from __future__ import annotations

from typing import Any


def make_class(
    meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any], keywords: dict[str, Any]
) -> type:
    """What a `class` statement makes of a body that was run already."""
    prepared = meta.__prepare__(name, bases, **keywords)  # type: ignore[attr-defined]
    for key, item in namespace.items():
        prepared[key] = item
    return meta(name, bases, prepared, **keywords)  # type: ignore[no-any-return]
