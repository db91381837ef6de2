"""`CellValue`: closure cells, whose content is shared by the functions that close over them."""

from __future__ import annotations

from types import CellType
from typing import TYPE_CHECKING

from triptych_dynamo.sources import ContentSource
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_UNREAD = object()


class CellValue(Value):
    """A cell: one of the program's (`obj` and `source` given) or one made in the trace.

    `content` is None while the cell is empty.
    """

    def __init__(self, content: Value | None = None, obj: CellType | None = None, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj
        self._content: object = content if obj is None else _UNREAD

    def python_type(self) -> type:
        return CellType

    def truth(self, tx: Frame) -> bool:
        return True

    def read(self, tx: Frame) -> Value | None:
        """The content, or None when the cell is empty."""
        if self._content is _UNREAD:
            assert self.obj is not None
            try:
                content = self.obj.cell_contents
            except ValueError:
                tx.guard("cell_empty", self.source)
                self._content = None
            else:
                self._content = tx.wrap(content, ContentSource(self.source) if self.source is not None else None)
        return self._content  # type: ignore[return-value]

    def write(self, tx: Frame, content: Value | None) -> None:
        """Store a new content; None empties the cell."""
        self._content = content
        if self.obj is not None:
            tx.effects.mutated(self)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "cell_contents":
            content = self.read(tx)
            if content is None:
                tx.raise_python(ValueError, "Cell is empty")
            return content
        return super().get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if name != "cell_contents":
            super().set_attr(tx, name, value)
        self.write(tx, value)

    def reconstruct(self, cg: Writer) -> None:
        """A new cell; its content is stored by `replay`, so that functions that close over themselves can be
        rebuilt.
        """
        cg.load_object(CellType)
        cg.call(0)
        cg.later(self)

    def replay(self, cg: Writer) -> None:
        """Store the final content in the real cell."""
        if self._content is _UNREAD:
            return
        if self._content is None:
            cg.load(self)
            cg.delete_attr("cell_contents")
            return
        cg.load(self._content)  # type: ignore[arg-type]
        cg.load(self)
        cg.store_attr("cell_contents")


@wraps(CellType)
def wrap_cell(tx: Frame, obj: CellType, source: Source | None) -> Value:
    """A real cell."""
    return CellValue(obj=obj, source=source)
