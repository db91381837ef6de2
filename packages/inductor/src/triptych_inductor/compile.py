"""`compile`: an ATen fx graph to a `CompiledGraph`. The road: passes, lowering, scheduling, wrapper, kernels."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

from triptych_inductor.backends import PendingKernels
from triptych_inductor.ir.extents import hint as extent_hint
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.lowering.graph import lower
from triptych_inductor.options import Options
from triptych_inductor.passes.pipeline import copy_graph, run_passes
from triptych_inductor.passes.prepare import prepare
from triptych_inductor.schedule.program import Program, schedule
from triptych_inductor.wrapper.emit import emit


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


class CompiledGraph:
    """A compiled graph. Call it with the graph's inputs; `call` takes one list, which it empties (`boxed`).

    source: the generated wrapper module. kernels: the kernels' records. fallbacks: op -> number of calls without a lowering.
    schedule: what runs in which order, as text. key: content hash of everything that determines the result.
    """

    def __init__(
        self,
        source: str,
        kernels: list[Kernel],
        functions: Mapping[str, Callable[..., Any]],
        constants: Mapping[str, torch.Tensor],
        objects: Sequence[Any],
        fallbacks: Mapping[str, int],
        key: str,
        description: str,
        timings: Timings,
    ) -> None:
        self.source = source
        self.kernels = kernels
        self.fallbacks = dict(fallbacks)
        self.key = key
        self.schedule = description
        self.timings = timings
        namespace: dict[str, Any] = {"__name__": "triptych_inductor.generated"}
        namespace.update(functions, **constants)
        namespace.update({f"object{k}": value for k, value in enumerate(objects)})
        exec(compile_source(source), namespace)  # noqa: S102 - our own text
        self._run: Callable[[list[Any]], Any] = namespace["call"]

    def call(self, args: list[Any]) -> Any:
        """Run with boxed arguments: `args` is emptied, so that inputs can be freed as they are consumed."""
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self._run(args)
        return self._run(args)

    def __call__(self, *args: Any) -> Any:
        return self.call(list(args))

    def __repr__(self) -> str:
        return f"CompiledGraph({len(self.kernels)} kernels, {sum(self.fallbacks.values())} fallbacks, key {self.key[:12]})"


def compile_source(source: str) -> Any:
    """The generated module as a code object."""
    name = f"<triptych {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    return __builtins_compile(source, name, "exec")


__builtins_compile = __builtins__["compile"] if isinstance(__builtins__, dict) else __builtins__.compile


def compile(gm: GraphModule, example_inputs: Sequence[Any], *, options: Options | Mapping[str, Any] | None = None) -> CompiledGraph:
    """Compile an ATen graph to machine code.

    gm: a graph of ATen ops; nodes may carry `meta["val"]` (fake tensors, SymInts), else shapes are found by propagation. It is not
    changed. Its output may be a tensor, a tuple or a list. example_inputs: one tensor (real or fake), SymInt or number
    for each placeholder. options: `Options` or a mapping of option names to values.

    Gives a callable with the graph's signature. Raises `OptionsError` for unknown options, `LoweringError` for a graph that cannot
    be lowered, and the compiler's error where kernels cannot be built.

    >>> compiled = compile(make_fx(lambda x: (x.sin() + 1,))(x), [x])
    >>> compiled(x)
    """
    chosen = Options.make(options)
    timings, start = Timings(), time.perf_counter()
    prepared = prepare(copy_graph(gm), example_inputs)
    start = timings.measure("prepare", start)
    run_passes(prepared, chosen)
    start = timings.measure("passes", start)
    graph = lower(prepared, chosen)
    start = timings.measure("lowering", start)
    program = schedule(graph, chosen, lambda e: extent_hint(e, graph.hints))
    start = timings.measure("schedule", start)
    pending = PendingKernels(program.kernels, chosen)
    start = timings.measure("codegen", start)
    source, objects = emit(program, chosen)
    start = timings.measure("wrapper", start)
    functions = pending.result()
    timings.measure("build", start)
    return CompiledGraph(
        source, program.kernels, functions, graph.constants, objects, graph.fallbacks, _key(program, source, chosen),
        program.description, timings,
    )


def _key(program: Program, source: str, options: Options) -> str:
    keys = sorted({step.key for step in program.steps if hasattr(step, "key")})
    return hashlib.sha256("\n".join([source, repr(options), *keys]).encode()).hexdigest()
