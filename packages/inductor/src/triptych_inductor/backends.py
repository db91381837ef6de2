"""Which code generator serves which device: a table from device type to how kernels are built, stored and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from triptych_inductor.build.cache import Store
from triptych_inductor.build.pool import Binary
from triptych_inductor.container import ArtifactError
from triptych_inductor.errors import InductorError
from triptych_inductor.loops.interpret import as_function
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.options import Options
from triptych_inductor.runtime import compile_kernels, load
from triptych_inductor.runtime.cuda import ProgramBinary
from triptych_inductor.runtime.cuda import compile_kernels as compile_gpu_kernels
from triptych_inductor.runtime.cuda import load as load_gpu

KernelFunctions = Mapping[str, Callable[..., Any]]


class Pending(Protocol):
    """Kernels on their way: `result` waits and gives functions of tensors and sizes, `binaries` what can be stored."""

    def result(self) -> KernelFunctions: ...

    def binaries(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class CodeGenerator:
    """How one device's kernels are built, and how their machine code travels."""

    build: Callable[[Sequence[Kernel], Options], Pending]
    load: Callable[[Sequence[Any]], KernelFunctions]
    encode: Callable[[Any], tuple[dict[str, Any], bytes]]
    decode: Callable[[dict[str, Any], bytes], Any]
    pairs: bool = False  # takes kernels with `columns`


def _encode_cpp(binary: Binary) -> tuple[dict[str, Any], bytes]:
    return {"key": binary.key, "isa": binary.isa, "kernels": binary.kernels}, binary.data


def _decode_cpp(facts: dict[str, Any], data: bytes) -> Binary:
    kernels = tuple((name, tuple(arguments)) for name, arguments in facts["kernels"])
    return Binary(data, facts["key"], facts["isa"], kernels)


CODE_GENERATORS: dict[str, CodeGenerator] = {
    "cpu": CodeGenerator(
        lambda kernels, options: compile_kernels(kernels, store=Store("cpp", enabled=options.disk_cache)),
        load,
        _encode_cpp,
        _decode_cpp,
    ),
    "cuda": CodeGenerator(
        lambda kernels, options: compile_gpu_kernels(
            kernels, store=Store("triton", enabled=options.disk_cache), tune=options.max_autotune
        ),
        load_gpu,
        lambda binary: ({}, binary.to_bytes()),
        lambda facts, data: ProgramBinary.from_bytes(data),
        pairs=True,
    ),
}
"""Device type -> code generator. Devices without an entry run everything by declared fallbacks."""


class _Interpreted:
    """Kernels run by the reference interpreter."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels

    def result(self) -> KernelFunctions:
        return {kernel.name: as_function(kernel) for kernel in self.kernels}

    def binaries(self) -> Sequence[Any]:
        raise ArtifactError("interpreted kernels have no machine code to store")


@dataclass
class LoadedKernels:
    """Functions by kernel name, and where their machine code comes from: (device type, binaries on demand)."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    sources: list[tuple[str, Callable[[], Sequence[Any]]]] = field(default_factory=list)


class PendingKernels:
    """All kernels of a graph, being built by the generators of their devices since construction."""

    def __init__(self, kernels: Sequence[Kernel], options: Options) -> None:
        self.parts: list[tuple[str, Pending]] = []
        for device in sorted({k.device.type for k in kernels}):
            mine = [k for k in kernels if k.device.type == device]
            generator = CODE_GENERATORS.get(device)
            if options.interpret:
                self.parts.append((device, _Interpreted(mine)))
            elif generator is None:
                raise InductorError(f"no code generator for device type {device!r}")
            else:
                self.parts.append((device, generator.build(mine, options)))

    def files(self) -> dict[str, str]:
        """Generated kernel sources by file name."""
        texts: dict[str, str] = {}
        for device, part in self.parts:
            for k, unit in enumerate(getattr(part, "units", ())):
                texts[f"kernels_{device}_{k}{getattr(unit, 'suffix', '.cpp')}"] = unit.source
        return texts

    def tuning(self) -> list[Any]:
        """What autotuning tried and chose, where it was asked for (`runtime.cuda.tuning.Choice`)."""
        return [choice for _, part in self.parts for choice in getattr(part, "choices", ())]

    def result(self) -> LoadedKernels:
        """Wait for the compilers."""
        loaded = LoadedKernels()
        for device, part in self.parts:
            loaded.functions.update(part.result())
            loaded.sources.append((device, part.binaries))
        return loaded


def encode_binaries(kernels: LoadedKernels) -> tuple[list[Any], dict[str, bytes]]:
    """Machine code as a JSON-able list and blobs."""
    description: list[Any] = []
    blobs: dict[str, bytes] = {}
    for device, binaries in kernels.sources:
        for binary in binaries():
            facts, data = CODE_GENERATORS[device].encode(binary)
            name = f"binary/{len(description)}"
            description.append([device, name, facts])
            blobs[name] = data
    return description, blobs


def decode_binaries(description: Sequence[Any], blobs: Mapping[str, bytes]) -> LoadedKernels:
    """Load stored machine code."""
    by_device: dict[str, list[Any]] = {}
    for device, name, facts in description:
        by_device.setdefault(device, []).append(CODE_GENERATORS[device].decode(facts, blobs[name]))
    loaded = LoadedKernels()
    for device, binaries in by_device.items():
        loaded.functions.update(CODE_GENERATORS[device].load(binaries))
        loaded.sources.append((device, lambda stored=binaries: stored))  # type: ignore[misc]
    return loaded
