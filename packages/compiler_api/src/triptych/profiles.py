"""Profiles of sizes on disk: what varied under a job's name is symbolic from the first call of its next process.

Records of the cache folder, one for each job and frame, as JSON; `triptych.compiler.save_cache_artifacts` gathers them
like any other.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from triptych_dynamo.lazy import LazyModule
from triptych_dynamo.profiles import Varied

from triptych.settings import Settings

_cache = LazyModule("triptych_inductor.build.cache")  # importing the code generator takes a while

KIND = "profile"


@dataclass(frozen=True)
class StoredProfile:
    """read, write: names under which profiles are looked for, and kept."""

    read: tuple[str, ...]
    write: tuple[str, ...]

    def load(self, frame: str) -> Varied:
        """What varied in a frame, by all names."""
        found = Varied()
        for name in self.read:
            found = found.joined(_read(name, frame))
        return found

    def save(self, frame: str, varied: Varied) -> None:
        """Add it to what is there: other processes of the job may have written meanwhile."""
        for name in self.write:
            known = _read(name, frame)
            joined = known.joined(varied)
            if joined != known:
                text = json.dumps({"sizes": dict(joined.sizes), "numbers": list(joined.numbers)})
                _cache.Store(KIND).put(key_of(name, frame), text.encode())


def key_of(name: str, frame: str) -> str:
    """The key of a profile's record."""
    return _cache.digest(KIND, name, frame)


def _read(name: str, frame: str) -> Varied:
    payload = _cache.Store(KIND).get(key_of(name, frame))
    try:
        data = json.loads(payload) if payload else {}
        sizes = {str(source): [int(dim) for dim in dims] for source, dims in data.get("sizes", {}).items()}
        return Varied(sizes, [str(source) for source in data.get("numbers", ())])
    except (ValueError, TypeError, AttributeError):  # of a version that wrote something else
        return Varied()


def profile_of(settings: Settings) -> StoredProfile | None:
    """The profile that a compile call asks for; None where no name is given, or nothing is kept on disk."""
    own = (settings.job_id,) if settings.job_id else ()
    read = (*own, settings.profile_read_key) if settings.profile_read_key else own
    write = (*own, settings.profile_write_key) if settings.profile_write_key else own
    if not (read or write) or settings.disk_cache is False or settings.dynamic is False:
        return None
    return StoredProfile(read, write)


def sources_of(text: str) -> tuple[str, ...]:
    """The sources in a comma-separated list; commas inside of brackets and parentheses belong to a source."""
    parts = re.split(r",(?![^\[(]*[\])])", text)
    return tuple(part.strip() for part in parts if part.strip())
