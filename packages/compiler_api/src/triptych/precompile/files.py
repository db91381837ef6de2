"""The two files of an artifact: readable source, and a cache of built kernels that belongs to that very source.

The cache is data: named byte strings and a JSON description with a checksum. Nothing in it is unpickled or run before
its hash of the source has been compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from triptych_inductor import ArtifactError
from triptych_inductor.container import pack, unpack

from triptych.errors import PrecompileError

FORMAT = "triptych.precompile"
VERSION = 1
MAGIC = b"TRIPTYCH-PRECOMPILE\n"
log = logging.getLogger("triptych.precompile")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """An artifact as it lies on disk. kernels: compiled graphs by name; empty where there are none to store."""

    source: str
    backend: str
    kernels: dict[str, bytes]

    def cache_bytes(self) -> bytes:
        """The content of the cache file."""
        header = {"format": FORMAT, "version": VERSION, "backend": self.backend, "code_hash": _hash(self.source)}
        return MAGIC + pack(header, self.kernels)


def _hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def check_paths(artifact_path: str | os.PathLike[str], cache_path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The paths. Raises ValueError where both are one file or one is something other than a file."""
    paths = Path(artifact_path), Path(cache_path)
    if os.path.abspath(paths[0]) == os.path.abspath(paths[1]):
        raise ValueError(f"artifact_path and cache_path are the same file, {paths[0]}")
    for path in paths:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} exists and is not a regular file")
    return paths


def write(artifact: Artifact, artifact_path: Path, cache_path: Path) -> None:
    """Writes both files, each under a temporary name first. When either fails, the pair that was there stays."""
    contents = {artifact_path: artifact.source.encode(), cache_path: artifact.cache_bytes()}
    with contextlib.ExitStack() as stack:
        ready = {path: stack.enter_context(_temporary(path, data)) for path, data in contents.items()}
        kept = stack.enter_context(_copy_of(cache_path))
        os.replace(ready[cache_path], cache_path)
        try:
            os.replace(ready[artifact_path], artifact_path)
        except OSError:
            if kept is not None:
                os.replace(kept, cache_path)
            raise


@contextlib.contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """A file beside `path` with this content, on disk, and with the permissions that `path` has or would get."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def _copy_of(path: Path) -> Iterator[Path | None]:
    if not path.exists():
        yield None
        return
    with _temporary(path, b"") as copy:
        shutil.copy2(path, copy)
        yield copy


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def read_source(path: Path) -> str:
    """The source. Raises PrecompileError, with the cause, where there is none or it is no text."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PrecompileError(f"the artifact {path} cannot be read: {error}") from error


def read_kernels(path: Path, source: str, backend: str) -> dict[str, bytes]:
    """The compiled graphs for this source; none, with a warning, where the file is not a cache of this format.

    Raises PrecompileError where the file is missing, damaged, or belongs to another source or backend.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PrecompileError(f"the cache {path} cannot be read: {error}") from error
    if not data.startswith(MAGIC):
        log.warning("%s is no cache of precompiled code: ignored, the program is compiled from its source", path)
        return {}
    try:
        header, kernels = unpack(data[len(MAGIC) :])
    except (ArtifactError, ValueError, KeyError, IndexError) as error:
        raise PrecompileError(f"the cache {path} is damaged: {error}") from error
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        log.warning("%s is a cache of another version: ignored, the program is compiled from its source", path)
        return {}
    if header.get("backend") != backend:
        raise PrecompileError(f"the cache {path} is for backend {header.get('backend')!r}, the source for {backend!r}")
    if header.get("code_hash") != _hash(source):
        raise PrecompileError(f"the cache {path} belongs to another source than the one it was loaded with")
    return kernels
