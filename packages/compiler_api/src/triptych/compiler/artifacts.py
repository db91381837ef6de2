"""Everything that this process compiled or took from the cache, as one block of bytes for another machine."""

from __future__ import annotations

import dataclasses
from collections import Counter

from triptych_inductor.build.cache import Store, touched
from triptych_inductor.container import ArtifactError, pack, unpack

from triptych.errors import CacheArtifactError

FORMAT = 1
KINDS = ("autograd", "graph", "cpp", "triton", "launcher", "tuning")


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """Keys of the records in a block, by kind.

    autograd: captured graphs; graph: compiled graphs with their machine code; cpp, triton: kernels; launcher: what
    starts GPU kernels; tuning: choices that were timed.
    """

    autograd: tuple[str, ...] = ()
    graph: tuple[str, ...] = ()
    cpp: tuple[str, ...] = ()
    triton: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        """`autograd`, by torch's name."""
        return list(self.autograd)

    @property
    def inductor_artifacts(self) -> list[str]:
        """`graph`, by torch's name."""
        return list(self.graph)

    @property
    def autotune_artifacts(self) -> list[str]:
        """`tuning`, by torch's name."""
        return list(self.tuning)

    @classmethod
    def of(cls, names: list[tuple[str, str]]) -> CacheInfo:
        """Of (kind, key) pairs."""
        return cls(**{kind: tuple(key for k, key in names if k == kind) for kind in KINDS})

    def __str__(self) -> str:
        counts = Counter({kind: len(getattr(self, kind)) for kind in KINDS})
        return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "nothing"


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """What this process compiled, or took from the cache, as bytes for `load_cache_artifacts`.

    Machine code is included, so that a like machine needs no compiler. Returns the bytes and what is in them; None
    where nothing was compiled. The bytes hold no pickle, and name neither user nor folders.

    Example:
        >>> data, info = triptych.compiler.save_cache_artifacts()
        >>> Path("model.cache").write_bytes(data)
    """
    blobs, names = {}, []
    for kind, key in touched.keys():
        payload = Store(kind).get(key) if kind in KINDS else None
        if payload is not None:
            blobs[f"{kind}/{key}"] = payload
            names.append((kind, key))
    if not blobs:
        return None
    return pack({"format": FORMAT}, blobs), CacheInfo.of(names)


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo:
    """Put what `save_cache_artifacts` gave into this machine's cache, before anything is compiled.

    Returns what was put there. Records that do not fit this machine (other processor, other release) are never used.
    Raises: CacheArtifactError for bytes that are something else, or damaged.

    Example:
        >>> triptych.compiler.load_cache_artifacts(Path("model.cache").read_bytes())
    """
    if not isinstance(serialized_artifacts, (bytes, bytearray, memoryview)):
        kind = type(serialized_artifacts).__name__
        raise TypeError(f"load_cache_artifacts takes the bytes that save_cache_artifacts gave, not {kind}")
    try:
        description, blobs = unpack(bytes(serialized_artifacts))
    except (ArtifactError, ValueError, KeyError, IndexError) as error:
        raise CacheArtifactError(f"these bytes are no saved cache artifacts: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise CacheArtifactError("these bytes are an artifact of another kind: give what save_cache_artifacts returned")
    names = [_checked(name) for name in blobs]
    for (kind, key), payload in zip(names, blobs.values(), strict=True):
        if not Store(kind).put(key, payload):
            raise CacheArtifactError(f"the cache folder {Store(kind).directory} cannot be written")
    return CacheInfo.of(names)


def _checked(name: str) -> tuple[str, str]:
    kind, _, key = name.partition("/")
    if kind not in KINDS or len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise CacheArtifactError(f"these bytes hold a record named {name!r}, which no version of this package writes")
    return kind, key
