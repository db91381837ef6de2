"""Device facts for Triton: one row a family of GPUs, and the facts of one device at hand.

What differs between vendors is data here (warp size, thread limits, the name Triton gives the target, how the runtime
is
reached); code generation and heuristics read rows and never ask which vendor it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True)
class DeviceFamily:
    """What all GPUs of a family share.

    `backend`: Triton's name of it. `binary`: the kind of machine code that Triton yields. `max_warps`: the most warps
    that
    one program may have. `vector_bytes`: widest load of one thread. `options`: compile options of Triton that keep the
    numbers of eager (denormals kept, no overflow traps).
    """

    name: str
    backend: str
    binary: str
    warp_size: int
    max_warps: int
    vector_bytes: int
    options: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class DeviceFacts:
    """One device: its family, Triton's architecture value, processors, and registers (of 32 bits) a processor."""

    family: DeviceFamily
    arch: int | str
    processors: int
    registers: int = 65536
    shared_bytes: int = 49152

    @property
    def target(self) -> tuple[str, int | str, int]:
        """(backend, arch, warp size), the fields of Triton's `GPUTarget`."""
        return (self.family.backend, self.arch, self.family.warp_size)


FAMILIES: dict[str, DeviceFamily] = {
    family.name: family
    for family in (
        DeviceFamily(
            "nvidia", "cuda", "cubin", 32, 32, 16, (("enable_reflect_ftz", False), ("sanitize_overflow", False))
        ),
        DeviceFamily("amd", "hip", "hsaco", 64, 16, 16, (("allow_flush_denorm", False), ("sanitize_overflow", False))),
        DeviceFamily("intel", "xpu", "spv", 32, 32, 16, (("sanitize_overflow", False),)),
    )
}

EXAMPLES: dict[str, DeviceFacts] = {
    "h200": DeviceFacts(FAMILIES["nvidia"], 90, 132, 65536, 232448),
    "mi300": DeviceFacts(FAMILIES["amd"], "gfx942", 304, 131072, 65536),
}
"""Facts of known devices, for generating code where no such device is present (tests, cross-compiling)."""


@cache
def device_facts(index: int) -> DeviceFacts:
    """Facts of the CUDA or ROCm device `index` of this process; `RuntimeError` where torch sees none."""
    found = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        arch: int | str = found.gcnArchName.split(":")[0]
        family = FAMILIES["amd"]
    else:
        arch = found.major * 10 + found.minor
        family = FAMILIES["nvidia"]
    return DeviceFacts(
        family,
        arch,
        found.multi_processor_count,
        getattr(found, "regs_per_multiprocessor", 65536),
        getattr(found, "shared_memory_per_block_optin", 49152),
    )
