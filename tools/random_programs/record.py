"""Long runs in parts: what became of each part is a line of a file, so that a run can be stopped and taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

PART = 100  # programs


@dataclass
class Part:
    """What became of the programs of consecutive seeds.

    Attributes:
        edition, backend, first, count: which programs, and what they ran under.
        whole: how many had no graph break.
        endless: how many do not end in plain Python: nothing was compared.
        graphs, breaks: how many there were.
        seconds: how long it took.
        wrong: the seeds whose programs differ.
    """

    edition: int
    backend: str
    first: int
    count: int = 0
    whole: int = 0
    endless: int = 0
    graphs: int = 0
    breaks: int = 0
    seconds: float = 0.0
    wrong: list[int] = field(default_factory=list)

    def __add__(self, other: Part) -> Part:
        """Both together."""
        numbers = ("count", "whole", "endless", "graphs", "breaks", "seconds")
        total = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return Part(self.edition, self.backend, self.first, wrong=[*self.wrong, *other.wrong], **total)

    def __str__(self) -> str:
        facts = f"{self.whole} without a break, {self.endless} endless, {self.graphs} graphs, {self.breaks} breaks"
        title = f"edition {self.edition}, from seed {self.first}: {self.count} programs"
        return f"{title} ({facts}, {self.seconds:.0f} s), {len(self.wrong)} differ {self.wrong}"


def starts(first: int, count: int) -> Iterator[tuple[int, int]]:
    """First seed and number of programs of each part."""
    for start in range(first, first + count, PART):
        yield start, min(PART, first + count - start)


def read(path: Path | None) -> list[Part]:
    """The parts that a file holds."""
    if path is None or not path.exists():
        return []
    return [Part(**json.loads(line)) for line in path.read_text().splitlines()]


def append(path: Path | None, part: Part) -> None:
    """Add a part to a file."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(part)) + "\n")
