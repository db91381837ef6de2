"""Modes of `__torch_function__` that the traced program entered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo._torch_compat import push_function_mode

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.values.base import Value


class FunctionModes:
    """The modes of one trace, innermost last; an effect while any is open."""

    def __init__(self) -> None:
        self.stack: list[Value] = []
        self.disabled = 0  # how many managers keep all overrides off

    @property
    def active(self) -> bool:
        """Whether calls go to a mode."""
        return bool(self.stack) and not self.disabled

    def replay(self, cg: Writer) -> None:
        """Enter the modes that are open where the graph ends."""
        for mode in self.stack:
            cg.load_object(push_function_mode)
            cg.load(mode)
            cg.call(1)
            cg.pop()
