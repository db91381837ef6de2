"""Which code generator serves which device: a table from device type to a function that builds kernels.

A code generator takes the kernels of its device and the options and gives a handle whose `result()` waits for the compilers
and maps each kernel's name to a function of tensors and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from triptych_inductor.errors import InductorError
from triptych_inductor.loops.interpret import as_function
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.options import Options
from triptych_inductor.runtime import compile_kernels
from triptych_inductor.runtime.cuda import compile_kernels as compile_gpu_kernels

KernelFunctions = Mapping[str, Callable[..., Any]]


class Pending(Protocol):
    """Kernels on their way."""

    def result(self) -> KernelFunctions:
        """The functions by kernel name; raises what the compiler raised."""
        ...


CodeGenerator = Callable[[Sequence[Kernel], Options], Pending]


class _Interpreted:
    """Kernels run by the reference interpreter."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels

    def result(self) -> KernelFunctions:
        return {kernel.name: as_function(kernel) for kernel in self.kernels}


def _cpp(kernels: Sequence[Kernel], options: Options) -> Pending:
    return compile_kernels(kernels)


def _triton(kernels: Sequence[Kernel], options: Options) -> Pending:
    return compile_gpu_kernels(kernels)


CODE_GENERATORS: dict[str, CodeGenerator] = {"cpu": _cpp, "cuda": _triton}
"""Device type -> code generator. Devices without an entry run everything by declared fallbacks."""


class PendingKernels:
    """All kernels of a graph, being built by the generators of their devices since construction."""

    def __init__(self, kernels: Sequence[Kernel], options: Options) -> None:
        self.parts: list[Pending] = []
        for device in sorted({k.device.type for k in kernels}):
            mine = [k for k in kernels if k.device.type == device]
            generator = CODE_GENERATORS.get(device)
            if options.interpret:
                self.parts.append(_Interpreted(mine))
            elif generator is None:
                raise InductorError(f"no code generator for device type {device!r}")
            else:
                self.parts.append(generator(mine, options))

    def result(self) -> dict[str, Callable[..., Any]]:
        """Wait for the compilers; functions by kernel name."""
        functions: dict[str, Callable[..., Any]] = {}
        for part in self.parts:
            functions.update(part.result())
        return functions
