"""Kernels to callables in one step: generate, build in the background, load when asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from triptych_inductor.build.cache import Store
from triptych_inductor.build.isa import Isa, host_isa
from triptych_inductor.build.pool import Binary, PendingBuild, build
from triptych_inductor.codegen.cpp.unit import Unit, make_units
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.runtime.library import Library, load


@dataclass
class PendingLibrary:
    """Kernels being built. `units` has the generated sources; `result()` waits, loads, and gives the same `Library`
    each time."""

    pending: PendingBuild | None
    _binaries: list[Binary] | None = None
    _library: Library | None = field(default=None, repr=False)

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.pending.units if self.pending is not None else ()

    def binaries(self) -> list[Binary]:
        """The compiled units, for an artifact."""
        if self._binaries is None:
            self._binaries = self.pending.result() if self.pending is not None else []
        return self._binaries

    def result(self) -> Library:
        """Kernels by name. `CompileError` when the compiler failed."""
        if self._library is None:
            self._library = load(self.binaries())
        return self._library


def compile_kernels(
    kernels: Sequence[Kernel], *, isa: Isa | None = None, store: Store | None = None, units: int | None = None
) -> PendingLibrary:
    """Generate C++ for CPU `kernels` and start to build it, in at most `units` translation units (default: one a core).

    Kernel names must differ. A kernel is called with tensors and ints, in the order of `kernel_arguments(kernel)`.
    Raises `TypeError` where a kernel has no C++ form and `CompilerNotFoundError` where there is no compiler;
    `CompileError` comes from `result()`.

    >>> library = compile_kernels([kernel]).result()
    >>> library["kernel_0"](x, y)
    """
    isa = isa or host_isa()
    if not kernels:
        return PendingLibrary(None)
    count = units or len(os.sched_getaffinity(0))
    return PendingLibrary(build(make_units(kernels, isa.lanes, count), isa=isa, store=store))
