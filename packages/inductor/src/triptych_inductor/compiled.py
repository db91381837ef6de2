"""`CompiledGraph`: what `compile` gives. Callable, printable, and movable as bytes."""

from __future__ import annotations

import builtins
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from triptych_inductor.__about__ import __version__
from triptych_inductor.backends import LoadedKernels, decode_binaries, encode_binaries
from triptych_inductor.container import ArtifactError, pack, unpack
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.runtime.cuda.replay import Replay, ReplayFacts
from triptych_inductor.runtime.cuda.tuning import Choice


@dataclass(frozen=True)
class KernelInfo:
    """Facts of one kernel. Extents are text; `inputs` and `outputs` are argument names with dtypes."""

    name: str
    device: str
    outer: tuple[str, ...]
    reduction: tuple[str, ...]
    stages: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(kernel: Kernel) -> KernelInfo:
        def argument(a: Any) -> str:
            return f"{a.name}: {str(a.dtype).removeprefix('torch.')}"

        return KernelInfo(
            kernel.name,
            str(kernel.device),
            tuple(map(str, kernel.outer)),
            tuple(map(str, kernel.reduction)),
            len(kernel.stages),
            tuple(map(argument, kernel.inputs)),
            tuple(map(argument, kernel.outputs)),
        )

    @staticmethod
    def from_json(item: dict[str, Any]) -> KernelInfo:
        """What `dataclasses.asdict` and JSON made of a `KernelInfo`."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}
        return KernelInfo(**values)


@dataclass
class Timings:
    """Seconds spent in each part of one compilation."""

    parts: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, start: float) -> float:
        """Add the time since `start` under `name`; gives the present time."""
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - start
        return now

    @property
    def front(self) -> float:
        """Everything but building kernels."""
        return sum(v for k, v in self.parts.items() if k != "build")

    def __str__(self) -> str:
        return ", ".join(f"{k} {v * 1e3:.1f} ms" for k, v in self.parts.items())


@dataclass
class Program:
    """Everything a compiled graph is made of, apart from the loaded kernels."""

    source: str
    files: dict[str, str]
    kernels: list[KernelInfo]
    fallbacks: dict[str, int]
    key: str
    schedule: str
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)


class CompiledGraph:
    """A compiled graph. Call it with the graph's inputs, or hand `call` one list, which it empties.

    source: the generated wrapper module. files: all generated text, by file name. kernels: facts of each kernel.
    fallbacks: op -> number of calls without a lowering. schedule: what runs in which order, as text. constants: the
    tensors that it holds. key: content hash of everything that determines the result. timings: seconds spent in each
    part of the compilation (None for a graph that was loaded). cache_key, from_cache: the record on disk, and whether
    the graph was taken from it.
    """

    replay: Replay | None = None

    def __init__(self, program: Program, kernels: LoadedKernels, timings: Any = None) -> None:
        self._program = program
        self._loaded = kernels
        self.provenance: dict[str, Any] = {}  # JSON-able facts that travel with the artifact
        self.cache_key = ""  # of the record on disk; "" where there is none
        self.from_cache = False
        self.timings = timings
        self._profiled: Callable[[list[Any]], Any] | None = None
        namespace = self.namespace()
        exec(_code(program.source), namespace)  # our own text
        self._run: Callable[[list[Any]], Any] = namespace["call"]

    source = property(lambda self: self._program.source)
    files = property(lambda self: {"call.py": self._program.source, **self._program.files})
    kernels = property(lambda self: self._program.kernels)
    fallbacks = property(lambda self: dict(self._program.fallbacks))
    key = property(lambda self: self._program.key)
    schedule = property(lambda self: self._program.schedule)
    constants = property(lambda self: dict(self._program.constants))

    @property
    def tuning(self) -> list[Choice]:
        """What autotuning tried and chose for each kernel; each prints as a table."""
        return [Choice.from_json(item) for item in self.provenance.get("tuning", ())]

    def call(self, args: list[Any]) -> Any:
        """Run with boxed arguments: `args` is emptied, so that inputs can be freed as they are consumed."""
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self._run(args)
        return self._run(args)

    def call_profiled(self, args: list[Any]) -> Any:
        """As `call`; each kernel is a region of torch.profiler, by its name."""
        if self.replay is not None:
            return self.call(args)
        if self._profiled is None:
            namespace = self.namespace()
            namespace.update({name: _as_region(name, kernel) for name, kernel in self._loaded.functions.items()})
            exec(_code(self._program.source), namespace)  # our own text
            self._profiled = namespace["call"]
        with torch.no_grad():
            return self._profiled(args)

    def namespace(self) -> dict[str, Any]:
        """What the generated module needs in its namespace: kernels, constants, objects."""
        found: dict[str, Any] = {"__name__": "triptych_inductor.generated"}
        found.update(self._loaded.functions, **self._program.constants)
        found.update({f"object{k}": value for k, value in enumerate(self._program.objects)})
        return found

    def __call__(self, *args: Any) -> Any:
        return self.call(list(args))

    def replayed(self, facts: ReplayFacts) -> CompiledGraph:
        """This graph, run through CUDA graphs from now on; `replay.reason` says why where it cannot."""
        self.replay = Replay(self._run, facts)
        self._run = self.replay
        return self

    def __repr__(self) -> str:
        return (
            f"CompiledGraph({len(self.kernels)} kernels, {sum(self.fallbacks.values())} fallbacks, key {self.key[:12]})"
        )

    def to_bytes(self, bound: Mapping[str, int] | None = None) -> bytes:
        """The graph with its machine code and constants, for `from_bytes` on a like machine.

        bound: constants that are left out, each with its position among those that `from_bytes` will be given.
        `ArtifactError` where the graph holds Python objects that have no text form.
        """
        program = self._program
        if program.objects:
            kinds = ", ".join(sorted({type(o).__name__ for o in program.objects}))
            raise ArtifactError(f"the graph refers to Python objects that cannot be stored: {kinds}")
        description, blobs = encode_binaries(self._loaded)
        constants = []
        for name, tensor in program.constants.items():
            if bound is not None and name in bound:
                continue
            if tensor.layout is not torch.strided:
                raise ArtifactError("the graph holds weights packed for this machine: exclude the pass 'pack_weights'")
            constants.append(
                [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), list(tensor.stride())]
            )
            flat = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
            blobs["constant/" + name] = flat.reshape(-1).view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        header = {
            "version": __version__,
            "source": program.source,
            "files": program.files,
            "kernels": [asdict(k) for k in program.kernels],
            "fallbacks": program.fallbacks,
            "key": program.key,
            "schedule": program.schedule,
            "constants": constants,
            "bound": dict(bound or {}),
            "binaries": description,
            "provenance": self.provenance,
            "replay": None if self.replay is None else self.replay.facts.to_json(),
        }
        return pack(header, blobs)

    @staticmethod
    def from_bytes(data: bytes, bound: Sequence[torch.Tensor] = ()) -> CompiledGraph:
        """A compiled graph from `to_bytes`; needs no compiler. `ArtifactError` for damaged or foreign bytes.

        bound: constants that the bytes were made without.
        """
        header, blobs = unpack(data)
        if header.get("form") in FORMS:
            return FORMS[header["form"]](header, blobs)
        if header["version"] != __version__:
            raise ArtifactError(f"the artifact was made by version {header['version']}, this is {__version__}")
        places = header.get("bound", {})
        if any(position >= len(bound) for position in places.values()):
            raise ArtifactError("the artifact was made without its constants, and is not given them")
        kernels = [KernelInfo.from_json(item) for item in header["kernels"]]
        program = Program(
            header["source"],
            header["files"],
            kernels,
            header["fallbacks"],
            header["key"],
            header["schedule"],
            {name: _constant(blobs["constant/" + name], *facts) for name, *facts in header["constants"]}
            | {name: bound[position] for name, position in places.items()},
        )
        compiled = CompiledGraph(program, decode_binaries(header["binaries"], blobs))
        compiled.provenance = header["provenance"]
        if header["replay"] is not None:
            compiled.replayed(ReplayFacts.from_json(header["replay"]))
        return compiled


def _as_region(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel as a region of profiles."""

    def run(*args: Any) -> Any:
        with torch.profiler.record_function(f"triptych: {name}"):
            return kernel(*args)

    return run


def _constant(data: bytes, dtype: str, shape: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    kind = getattr(torch, dtype)
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(kind) if data else torch.empty(0, dtype=kind)
    return torch.empty_strided(tuple(shape), tuple(stride), dtype=kind).copy_(flat.reshape(tuple(shape)))


FORMS: dict[str, Callable[[dict[str, Any], dict[str, bytes]], CompiledGraph]] = {}
"""Artifacts of other forms: what makes a compiled graph of their description and blobs."""


def _code(source: str) -> Any:
    """The generated module as a code object."""
    name = f"<triptych {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    return builtins.compile(source, name, "exec")
