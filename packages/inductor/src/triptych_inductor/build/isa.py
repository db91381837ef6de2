"""Instruction sets: which vectors this machine has, as a table."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Isa:
    """One row: `flags` for the compiler, `requires` of /proc/cpuinfo, `lanes`: 32-bit numbers in a vector."""

    name: str
    machine: str
    requires: frozenset[str]
    flags: tuple[str, ...]
    lanes: int


_AVX2 = "avx2 fma f16c bmi1 bmi2"
_AVX512 = f"{_AVX2} avx512f avx512bw avx512dq avx512vl avx512cd"
ISAS: tuple[Isa, ...] = (
    Isa(
        "avx512",
        "x86_64",
        frozenset(_AVX512.split()),
        ("-march=skylake-avx512", "-mprefer-vector-width=512"),
        16,
    ),
    Isa("avx2", "x86_64", frozenset(_AVX2.split()), ("-march=haswell",), 8),
    Isa("sse2", "x86_64", frozenset(), ("-march=x86-64",), 4),
    Isa("neon", "aarch64", frozenset(), ("-march=armv8-a",), 4),
)
"""Best first for each kind of machine."""


def isa_named(name: str) -> Isa:
    """A row by name; `ValueError` lists the known ones."""
    for isa in ISAS:
        if isa.name == name:
            return isa
    raise ValueError(f"unknown instruction set {name!r}; known: {', '.join(i.name for i in ISAS)}")


@cache
def cpu_features() -> frozenset[str]:
    """Feature flags of the processor, as the kernel lists them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


@cache
def host_isa() -> Isa:
    """The best instruction set of this machine; `RuntimeError` on processors that no row describes."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    for isa in ISAS:
        if isa.machine == machine and isa.requires <= cpu_features():
            return isa
    raise RuntimeError(f"no instruction set is described for {machine} processors")
