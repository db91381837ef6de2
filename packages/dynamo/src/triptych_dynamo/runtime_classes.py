"""What the code behind a graph calls to make the classes that a program defines inside a region."""

from __future__ import annotations

import abc
from _abc import _abc_init  # type: ignore[import-not-found]
from typing import Any


def make_class(
    meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any], keywords: dict[str, Any]
) -> type:
    """What a `class` statement makes of a body that was run already."""
    prepared = meta.__prepare__(name, bases, **keywords)  # type: ignore[attr-defined]
    for key, item in namespace.items():
        prepared[key] = item
    return meta(name, bases, prepared, **keywords)  # type: ignore[no-any-return]


class _Silent:
    def __init_subclass__(cls, **keywords: Any) -> None:
        """Instead of that of the bases."""


class _SilentWithoutDictionary:
    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Instead of that of the bases."""


def make_class_silently(meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """A class as `type.__new__` makes it, without running `__init_subclass__` of its bases or hooks of its metaclass.

    Raises:
        TypeError: the bases have a layout that cannot be put in afterwards.
    """
    cls = _bare_class(meta, name, bases, namespace)
    if isinstance(cls, abc.ABCMeta):
        _abc_init(cls)
    return cls


def _bare_class(meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    above = {cls for base in bases for cls in base.__mro__ if cls is not object}
    if not any("__init_subclass__" in vars(cls) for cls in above):
        return type.__new__(meta, name, bases, dict(namespace))
    error: TypeError | None = None
    for silent in (_Silent, _SilentWithoutDictionary):
        cls: Any = type.__new__(meta, name, (silent, *bases), dict(namespace))
        try:
            cls.__bases__ = bases
        except TypeError as found:
            error = found
        else:
            return cls  # type: ignore[no-any-return]
    assert error is not None
    raise error
