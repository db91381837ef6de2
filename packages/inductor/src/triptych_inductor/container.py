"""The container of artifacts: named byte strings and a JSON description in one checksummed, relocatable block. No
pickle.

Layout: magic, SHA-256 of the rest, length of the header (8 bytes, little endian), header (JSON: `description`, and
name, offset, length of each blob), blobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from triptych_inductor.errors import InductorError

MAGIC = b"TRIPTYCH-INDUCTOR 1\n"


class ArtifactError(InductorError):
    """Bytes that are no artifact of this package, or damaged."""


def pack(description: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    """One block of a JSON-able description and named blobs.

    >>> unpack(pack({"a": 1}, {"b": b"c"}))
    ({'a': 1}, {'b': b'c'})
    """
    table, offset = [], 0
    for name, data in blobs.items():
        table.append([name, offset, len(data)])
        offset += len(data)
    header = json.dumps({"description": description, "blobs": table}, separators=(",", ":")).encode()
    rest = b"".join([len(header).to_bytes(8, "little"), header, *blobs.values()])
    return MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The description and the blobs; `ArtifactError` where the block is damaged or of another kind."""
    start = len(MAGIC)
    if data[:start] != MAGIC:
        raise ArtifactError("not an artifact of triptych_inductor (or of another version of its format)")
    rest = data[start + 32 :]
    if hashlib.sha256(rest).digest() != data[start : start + 32]:
        raise ArtifactError("the artifact is damaged: its checksum does not match")
    length = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + length])
    base = 8 + length
    blobs = {name: rest[base + offset : base + offset + size] for name, offset, size in header["blobs"]}
    return header["description"], blobs
