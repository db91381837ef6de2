"""`python -m tools.pages`: writes the parts of docs/configuration.md and docs/migration.md that come from tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from triptych import configuration, logs
from triptych_dynamo import logs as capture_logs

DOCS = Path(__file__).resolve().parents[1] / "docs"


def log_lines() -> Iterable[str]:
    """The table of logs."""
    yield "| name | what it shows |"
    yield "|---|---|"
    for name, text in {**capture_logs.ARTIFACTS, **logs.ARTIFACTS}.items():
        yield f"| `{name}` | {text} |"


def peer_lines() -> Iterable[str]:
    """Settings of torch that have a setting here."""
    yield "| there | here |"
    yield "|---|---|"
    for name, row in configuration.TABLE.items():
        if row.peer:
            yield f"| {', '.join(f'`{peer}`' for peer in row.peer.split(', '))} | `{name}`, `{row.variables[0]}` |"


PARTS: dict[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "settings": ("configuration.md", configuration.lines),
    "logs": ("configuration.md", log_lines),
    "peer settings": ("migration.md", peer_lines),
}


def page(name: str) -> str:
    """A page with its generated parts made anew."""
    text = (DOCS / name).read_text()
    for part, (file, lines) in PARTS.items():
        if file == name:
            marks = rf"(<!-- begin: {part} -->\n).*?(<!-- end: {part} -->)"
            body = "\n".join(lines())
            text, count = re.subn(marks, lambda m: f"{m[1]}{body}\n{m[2]}", text, flags=re.DOTALL)  # noqa: B023
            assert count == 1, f"{name} has no part {part!r}"
    return text


def pages() -> list[str]:
    """Names of the pages with generated parts."""
    return sorted({file for file, _ in PARTS.values()})


if __name__ == "__main__":
    for page_name in pages():
        (DOCS / page_name).write_text(page(page_name))
    sys.exit(0)
