"""Locals of a frame whose variables exist already: they are wrapped, and guarded, when the program first reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


class RootLocals(dict[str, Value]):
    """A dict of values whose parameters appear on first use. `frame` is set once the frame exists.

    Args:
        parameters: objects by name.
        source_of: where a parameter is read.
    """

    def __init__(self, parameters: dict[str, Any], source_of: Callable[[str], Source]) -> None:
        super().__init__()
        self.unread = dict(parameters)
        self.source_of = source_of
        self.frame: Frame | None = None

    def __missing__(self, name: str) -> Value:
        if name not in self.unread:
            raise KeyError(name)
        assert self.frame is not None
        value = self.frame.wrap(self.unread[name], self.source_of(name))
        del self.unread[name]
        self[name] = value
        return value

    def __setitem__(self, name: str, value: Value) -> None:
        self.unread.pop(name, None)
        super().__setitem__(name, value)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.unread

    def __delitem__(self, name: str) -> None:
        if self.unread.pop(name, self) is self:
            super().__delitem__(name)

    def pop(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        """Remove a local and give it, or `default`."""
        if name not in self:
            return default
        value = self[name]
        super().__delitem__(name)
        return value
