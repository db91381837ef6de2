"""The store on disk: content-addressed files under the user's cache folder.

A record is a file named by the hash of its key: a line with the checksum of the payload, then the payload. It is
written to a temporary name and renamed, so that readers see whole records only; a damaged record counts as missing.
Where the folder cannot be written the store keeps nothing, and everything still works.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from pathlib import Path

FORMAT = b"triptych 1 "


def cache_directory() -> Path:
    """TRIPTYCH_CACHE_DIR, or `triptych` in the user's cache folder (XDG)."""
    explicit = os.environ.get("TRIPTYCH_CACHE_DIR")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "triptych"


def digest(*parts: str | bytes) -> str:
    """Hash of the parts, each with its length, so that no two lists of parts meet."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def _private_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def payload_of(data: bytes) -> bytes | None:
    """The payload of a record file's bytes; None where it is damaged."""
    head, separator, payload = data.partition(b"\n")
    whole = separator and head == FORMAT + hashlib.sha256(payload).hexdigest().encode()
    return payload if whole else None


class _Touched:
    """The records that this process read or wrote: what `triptych.compiler.save_cache_artifacts` gathers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[tuple[str, str], None] = {}

    def add(self, kind: str, key: str) -> None:
        """Note a record."""
        with self._lock:
            self._keys[kind, key] = None

    def keys(self) -> list[tuple[str, str]]:
        """(kind, key) of each record, in the order of first use."""
        with self._lock:
            return list(self._keys)


touched = _Touched()


class Store:
    """Records of one kind ("cpp", "graph", ...) under a cache folder."""

    def __init__(self, kind: str, root: Path | None = None, *, enabled: bool = True) -> None:
        self.kind = kind
        self.directory = (cache_directory() if root is None else root) / kind
        self.enabled = enabled  # a store that is not finds nothing and keeps nothing

    def path(self, key: str) -> Path:
        """Where the record of `key` (a `digest`) lies."""
        return self.directory / key[:2] / key[2:]

    def get(self, key: str) -> bytes | None:
        """The payload of a record, None where there is none or it is damaged (then it is removed)."""
        path = self.path(key)
        try:
            data = path.read_bytes() if self.enabled else b""
        except OSError:
            data = b""
        if not data:
            return None
        payload = payload_of(data)
        if payload is not None:
            touched.add(self.kind, key)
            return payload
        try:
            path.unlink()
        except OSError:
            pass
        return None

    def put(self, key: str, payload: bytes) -> bool:
        """Write a record; False where the folder cannot be written."""
        if not self.enabled:
            return False
        path = self.path(key)
        try:
            _private_folder(path.parent)
            handle, name = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(FORMAT + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError:
            return False
        touched.add(self.kind, key)
        return True
