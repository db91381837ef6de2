"""Libraries of the run time itself: C++ files of this package, built once by the compiler and kept in the store."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from triptych_inductor.build.cache import Store, digest
from triptych_inductor.build.compiler import find_compiler
from triptych_inductor.build.isa import host_isa


def native_library(package: str | None, *names: str) -> ctypes.PyDLL:
    """The library of the C++ files of `package` with these names, read as one. Raises what looking for a compiler, or
    running it, raises."""
    assert package is not None
    source = "".join(resources.files(package).joinpath(f"{n}.cpp").read_text(encoding="utf-8") for n in names)
    name = names[-1]
    compiler, isa, store = find_compiler(), host_isa(), Store("launcher")
    key = digest(name, source, compiler.identity(isa))
    data = store.get(key)
    folder = Path(tempfile.mkdtemp(prefix="triptych-"))
    try:
        if data is None:
            data = compiler.start(source, folder, isa).result()
            store.put(key, data)
        path = folder / f"{name}.so"
        path.write_bytes(data)
        return ctypes.PyDLL(str(path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
