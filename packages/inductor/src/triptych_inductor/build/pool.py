"""Building units: `build` starts compilers at once and gives a handle; `result` waits for the libraries."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triptych_inductor.build.cache import Store, digest
from triptych_inductor.build.compiler import Compiler, Job, find_compiler
from triptych_inductor.build.isa import Isa, host_isa
from triptych_inductor.codegen.cpp.unit import Unit


@dataclass(frozen=True)
class Binary:
    """A compiled unit: the bytes of a shared library, and what is needed to load it anywhere."""

    data: bytes
    key: str
    isa: str
    kernels: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass
class PendingBuild:
    """Units on their way to libraries. `hits`: how many came from the store."""

    units: tuple[Unit, ...]
    isa: Isa
    keys: tuple[str, ...]
    store: Store
    found: dict[str, bytes]
    jobs: dict[str, Job] = field(default_factory=dict)
    directory: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def hits(self) -> int:
        return len(self.units) - len(self.jobs)

    def result(self) -> list[Binary]:
        """Wait for all; one `Binary` a unit. `CompileError` when a compiler failed."""
        with self._lock:
            try:
                for key, job in list(self.jobs.items()):
                    if key not in self.found:
                        self.found[key] = job.result()
                        self.store.put(key, self.found[key])
            except BaseException:
                for key, job in self.jobs.items():
                    if key not in self.found:
                        job.cancel()
                raise
            finally:
                self._clean()
        return [Binary(self.found[k], k, self.isa.name, u.kernels) for k, u in zip(self.keys, self.units, strict=True)]

    def _clean(self) -> None:
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None


def unit_key(unit: Unit, compiler: Compiler, isa: Isa) -> str:
    """Key of a unit's binary: source (headers included), flags, compiler version."""
    return digest("unit", unit.source, compiler.identity(isa))


def build(
    units: Sequence[Unit], *, compiler: Compiler | None = None, isa: Isa | None = None, store: Store | None = None
) -> PendingBuild:
    """Start to compile `units` in parallel, those that the store does not have.

    Raises `CompilerNotFoundError` where something must be compiled and there is no compiler.
    """
    compiler = compiler or find_compiler()
    isa = isa or host_isa()
    store = store or Store("cpp")
    keys = tuple(unit_key(u, compiler, isa) for u in units)
    found: dict[str, bytes] = {}
    for key in dict.fromkeys(keys):
        payload = store.get(key)
        if payload is not None:
            found[key] = payload
    pending = PendingBuild(tuple(units), isa, keys, store, found)
    missing = {k: u for k, u in zip(keys, units, strict=True) if k not in found}
    if missing:
        pending.directory = Path(tempfile.mkdtemp(prefix="triptych-"))
        pending.jobs = {k: compiler.start(u.source, pending.directory, isa) for k, u in missing.items()}
    return pending
