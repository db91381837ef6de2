"""Which code generator serves which device: a table from device type to a function that builds kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triptych_inductor.errors import InductorError
from triptych_inductor.loops.interpret import as_function
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.options import Options

KernelFunctions = Mapping[str, Callable[..., Any]]
CodeGenerator = Callable[[Sequence[Kernel], Options], KernelFunctions]


def interpreted(kernels: Sequence[Kernel], options: Options) -> KernelFunctions:
    """Kernels run by the reference interpreter."""
    return {kernel.name: as_function(kernel) for kernel in kernels}


CODE_GENERATORS: dict[str, CodeGenerator] = {"cpu": interpreted}
"""Device type -> code generator. Devices without an entry run everything by declared fallbacks."""


def kernel_functions(kernels: Sequence[Kernel], options: Options) -> dict[str, Callable[..., Any]]:
    """A function of tensors and sizes for each kernel, by its name."""
    functions: dict[str, Callable[..., Any]] = {}
    for device in sorted({k.device.type for k in kernels}):
        mine = [k for k in kernels if k.device.type == device]
        generator = interpreted if options.interpret else CODE_GENERATORS.get(device)
        if generator is None:
            raise InductorError(f"no code generator for device type {device!r}")
        functions.update(generator(mine, options))
    return functions
