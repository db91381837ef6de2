"""Triton programs as Python callables: kernels generated, built in the background, loaded, launched by the C launcher.

A kernel is called with tensors (data pointers are read in C) and ints: buffers in the order of
`TritonProgram.buffers`, then
sizes. It returns None; the work is queued on the current stream of the kernel's device.
"""

from __future__ import annotations

import base64
import ctypes
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from triptych_inductor.build.cache import Store
from triptych_inductor.codegen.triton.build import DeviceBinary, PendingBuild, build
from triptych_inductor.codegen.triton.devices import FAMILIES, DeviceFacts, device_facts
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.records import TritonFunction, TritonProgram, evaluate, grid_size
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.runtime.cuda.driver import DriverTable, driver_of, launcher
from triptych_inductor.runtime.cuda.tuning import Choice, Tuner, device_timer, show_progress

KernelCall = Callable[..., None]
_CODES = {"+": 2, "*": 3, "//": 4, "%": 5, "max": 6, "min": 7}
_CEIL = 8


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Row(ctypes.Structure):
    """Mirror of `Row` in `launcher.cpp`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("driver", ctypes.c_void_p),
        *((n, ctypes.c_long) for n in "device threads shared given count programs grid_length extra".split()),
        ("source", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("grid", ctypes.c_void_p),
        ("otherwise", ctypes.py_object),
        ("method", _Method),
    ]


_KEEP: list[Any] = []  # rows live as long as the process: the functions made of them may


def grid_code(function: TritonFunction, first_size: int) -> list[int]:
    """The grid as (code, value) pairs of the launcher's postfix program; empty where no size is in it."""
    if not any(isinstance(step, str) and step.startswith("s") for g in function.grid for step in g.numel):
        return []
    pairs: list[tuple[int, int]] = []
    for position, factor in enumerate(function.grid):
        for step in factor.numel:
            if isinstance(step, int):
                pairs.append((0, step))
            elif step in _CODES:
                pairs.append((_CODES[step], 0))
            else:
                pairs.append((1, first_size + int(step[1:])))
        pairs += [(0, factor.block), (_CEIL, 0)]
        if position:
            pairs.append((_CODES["*"], 0))
    return [number for pair in pairs for number in pair]


def load_function(
    program: TritonProgram,
    function: TritonFunction,
    binary: DeviceBinary,
    facts: DeviceFacts,
    index: int,
    otherwise: Any,
) -> KernelCall:
    """One function as a builtin that takes all arguments of its program. `otherwise` is called where a pointer that was
    taken for aligned is not."""
    api = driver_of(facts)
    with torch.cuda.device(index):
        torch.cuda.init()
        torch.empty(0, device=f"cuda:{index}")
        handle = api.load(binary.data, binary.name, binary.shared)
        context = api.current_context()
    return bind(program, function, binary, api.table, handle, context, index, otherwise, api.names.extra_parameters)


def bind(
    program: TritonProgram,
    function: TritonFunction,
    binary: DeviceBinary,
    table: DriverTable,
    handle: int,
    context: int | None,
    index: int,
    otherwise: Any,
    extra: int,
) -> KernelCall:
    """A builtin that launches the loaded function `handle` through a driver's table."""
    code = grid_code(function, len(program.buffers))
    count = len(function.params)
    source = (ctypes.c_int * max(count, 1))(*(p.arg for p in function.params))
    checks = [1 if p.multiple > 1 and otherwise is not None else 0 for p in function.params]
    aligned = (ctypes.c_ubyte * max(count, 1))(*checks)
    grid = (ctypes.c_long * max(len(code), 1))(*code)
    row = _Row(
        name=function.name.encode(),
        function=handle,
        context=context,
        driver=ctypes.addressof(table),
        device=index,
        threads=binary.threads,
        shared=binary.shared,
        given=len(program.buffers) + len(program.sizes) + len(program.workspaces),
        count=count,
        programs=0 if code else grid_size(function, ()),
        grid_length=len(code) // 2,
        extra=extra,
        source=ctypes.addressof(source),
        aligned=ctypes.addressof(aligned),
        grid=ctypes.addressof(grid),
        otherwise=otherwise,
    )
    _KEEP.append((row, source, aligned, grid, otherwise, table))
    return launcher().triptych_function(ctypes.addressof(row))


def load_program(
    program: TritonProgram, binaries: Sequence[DeviceBinary], facts: DeviceFacts, index: int
) -> KernelCall:
    """A program as one callable of buffers and sizes."""
    calls = [
        load_function(program, f, b, facts, index, _Unaligned(program, f, facts, index))
        for f, b in zip(program.functions, binaries, strict=True)
    ]
    if len(calls) == 1 and not program.workspaces:
        return calls[0]
    return _chain(program, calls, index)


def _chain(program: TritonProgram, calls: Sequence[KernelCall], index: int) -> KernelCall:
    """Several functions in order, with memory between them from torch's allocator."""
    device = torch.device("cuda", index)
    first, count = len(program.buffers), len(program.sizes)
    spaces = [(w.numel, getattr(torch, w.dtype)) for w in program.workspaces]
    fixed = [evaluate(numel, ()) if not count else None for numel, _ in spaces]

    def run(*args: Any) -> None:
        sizes = args[first : first + count]
        memory = [
            torch.empty(known if known is not None else evaluate(numel, sizes), dtype=dtype, device=device)
            for (numel, dtype), known in zip(spaces, fixed, strict=True)
        ]
        for call in calls:
            call(*args, *memory)

    return run


class _Unaligned:
    """Takes over where a pointer is not a multiple of 16 bytes: builds the function without that promise, once."""

    def __init__(self, program: TritonProgram, function: TritonFunction, facts: DeviceFacts, index: int) -> None:
        self.program = program
        self.function = function
        self.facts = facts
        self.index = index
        self.made: KernelCall | None = None

    def __call__(self, *args: Any) -> None:
        if self.made is None:
            alone = TritonProgram(
                self.program.name, self.program.buffers, self.program.sizes, self.program.workspaces, (self.function,)
            )
            ((binary,),) = build([alone], self.facts, aligned=False).result()
            self.made = load_function(self.program, self.function, binary, self.facts, self.index, None)
        self.made(*args)


@dataclass(frozen=True)
class ProgramBinary:
    """A program with its machine code: what artifacts hold. `index`: the device it runs on."""

    program: TritonProgram
    family: str
    arch: int | str
    binaries: tuple[DeviceBinary, ...]
    index: int = 0

    def to_bytes(self) -> bytes:
        """JSON; machine code in base64."""
        codes = [base64.b64encode(b.to_bytes()).decode("ascii") for b in self.binaries]
        data = {"program": self.program.to_json(), "family": self.family, "arch": self.arch, "binaries": codes}
        data["index"] = self.index
        return json.dumps(data).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> ProgramBinary:
        """What `to_bytes` wrote."""
        data = json.loads(payload)
        binaries = tuple(DeviceBinary.from_bytes(base64.b64decode(b)) for b in data["binaries"])
        program = TritonProgram.from_json(data["program"])
        return ProgramBinary(program, data["family"], data["arch"], binaries, data["index"])

    def load(self) -> KernelCall:
        """The program on its device; `RuntimeError` where that device is of another kind now."""
        index = self.index
        facts = device_facts(index)
        if (facts.family, facts.arch) != (FAMILIES[self.family], self.arch):
            raise RuntimeError(
                f"built for {self.family} {self.arch}; device {index} is {facts.family.name} {facts.arch}"
            )
        return load_program(self.program, self.binaries, facts, index)


class GpuLibrary(Mapping[str, KernelCall]):
    """Kernels by name."""

    def __init__(self, calls: dict[str, KernelCall], arguments: dict[str, tuple[str, ...]]) -> None:
        self._calls = calls
        self.arguments = arguments

    def __getitem__(self, name: str) -> KernelCall:
        return self._calls[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)


@dataclass
class _Part:
    """The kernels of one device, being built."""

    programs: tuple[TritonProgram, ...]
    pending: PendingBuild
    facts: DeviceFacts
    index: int

    def binaries(self) -> list[ProgramBinary]:
        made = self.pending.result()
        family, arch = self.facts.family.name, self.facts.arch
        return [ProgramBinary(p, family, arch, tuple(b), self.index) for p, b in zip(self.programs, made, strict=True)]


@dataclass
class PendingGpuLibrary:
    """Kernels being built. `units` has the generated sources; `result()` waits and loads, the same library each
    time."""

    parts: tuple[_Part, ...]
    choices: tuple[Choice, ...] = ()
    _library: GpuLibrary | None = field(default=None, repr=False)

    @property
    def units(self) -> tuple[TritonProgram, ...]:
        """What was generated; each has a `source`."""
        return tuple(program for part in self.parts for program in part.programs)

    def binaries(self) -> list[ProgramBinary]:
        """The compiled programs, for an artifact."""
        return [binary for part in self.parts for binary in part.binaries()]

    def result(self) -> GpuLibrary:
        """Kernels by name. `TritonCompileError` when Triton failed."""
        if self._library is None:
            self._library = load(self.binaries())
        return self._library


def load(binaries: Sequence[ProgramBinary]) -> GpuLibrary:
    """Load compiled programs, each on the device it was made for."""
    calls = {b.program.name: b.load() for b in binaries}
    return GpuLibrary(calls, {b.program.name: (*b.program.buffers, *b.program.sizes) for b in binaries})


def _tuner(facts: DeviceFacts, index: int, store: Store | None) -> Tuner:
    """The tuner of a device of this process."""
    timer = device_timer(lambda program, built: load_program(program, built, facts, index))
    records = Store("tuning", enabled=store is None or store.enabled)
    return Tuner(facts, timer, index, records, show_progress)


def compile_kernels(kernels: Sequence[Kernel], *, store: Store | None = None, tune: bool = False) -> PendingGpuLibrary:
    """Generate Triton for GPU `kernels` and start to build it.

    `tune`: time candidate layouts on the device first and build the best ones (`PendingGpuLibrary.choices`).
    A kernel is called with tensors and ints: inputs, outputs that are not inputs, size symbols. Raises `TypeError`
    where a
    kernel has no Triton form and `TritonNotFoundError` where Triton is missing; `TritonCompileError` comes from
    `result()`.

    >>> library = compile_kernels([kernel]).result()
    >>> library["kernel_0"](x, y)
    """
    by_index: dict[int, list[Kernel]] = {}
    for kernel in kernels:
        index = kernel.device.index if kernel.device.index is not None else torch.cuda.current_device()
        by_index.setdefault(index, []).append(kernel)
    parts = []
    choices: list[Choice] = []
    for index, mine in by_index.items():
        facts = device_facts(index)
        if tune:
            made, found = _tuner(facts, index, store).tune(mine)
            programs = tuple(made)
            choices += found
        else:
            programs = tuple(generate(kernel, facts) for kernel in mine)
        parts.append(_Part(programs, build(programs, facts, store=store), facts, index))
    return PendingGpuLibrary(tuple(parts), tuple(choices))
