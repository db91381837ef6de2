"""Writing indented C++ text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Code:
    """Lines with the indentation of the blocks that are open."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        self.lines.append(self._indent + text if text else "")

    def extend(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head { ... }`; an empty head gives a bare block."""
        self.line(f"{head} {{" if head else "{")
        self._indent += "  "
        try:
            yield
        finally:
            self._indent = self._indent[:-2]
            self.line("}")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
