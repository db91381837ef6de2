"""The cache folder seen as a whole: what is in it, whether it is undamaged, and emptying it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from triptych_inductor.build.cache import cache_directory, payload_of


@dataclass(frozen=True)
class Record:
    """One file of the cache. written: seconds since the epoch at which it was written."""

    kind: str
    key: str
    path: Path
    size: int
    written: float

    def damaged(self) -> bool:
        """Whether the file's checksum does not fit its content."""
        try:
            return payload_of(self.path.read_bytes()) is None
        except OSError:
            return True


def records(root: Path | None = None, kinds: Iterable[str] = ()) -> Iterator[Record]:
    """All records under a cache folder (the user's, when None), or those of some kinds. Other files are left out."""
    root = cache_directory() if root is None else root
    wanted = set(kinds)
    for path in sorted(root.glob("*/??/*")) if root.is_dir() else ():
        kind, start, rest = path.parts[-3:]
        if (wanted and kind not in wanted) or len(start + rest) != 64:
            continue
        try:
            facts = path.stat()
        except OSError:  # another process removed it
            continue
        yield Record(kind, start + rest, path, facts.st_size, facts.st_mtime)


def remove(found: Iterable[Record], older_than: float = 0.0) -> list[Record]:
    """Remove records that are older than so many seconds; gives those that were removed."""
    limit, removed = time.time() - older_than, []
    for record in found:
        if record.written <= limit:
            record.path.unlink(missing_ok=True)
            removed.append(record)
    return removed
