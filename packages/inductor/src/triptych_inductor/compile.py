"""`compile`: an ATen fx graph to a `CompiledGraph`. The road: passes, lowering, scheduling, wrapper, kernels."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.fx import GraphModule

from triptych_inductor.alternatives import fastest
from triptych_inductor.backends import PendingKernels
from triptych_inductor.cache import graphs
from triptych_inductor.cache.frozen import FrozenRecord
from triptych_inductor.cache.guards import GuardRecorder
from triptych_inductor.cache.text import Uncacheable
from triptych_inductor.compiled import CompiledGraph, KernelInfo, Program, Timings
from triptych_inductor.freezing.pipeline import run_frozen
from triptych_inductor.ir.extents import hint as extent_hint
from triptych_inductor.lowering.graph import lower
from triptych_inductor.options import Options
from triptych_inductor.passes.pipeline import copy_graph, run_passes
from triptych_inductor.passes.prepare import prepare
from triptych_inductor.runtime.cuda.replay import replay_facts
from triptych_inductor.schedule.program import Program as Schedule
from triptych_inductor.schedule.program import schedule
from triptych_inductor.segments import Flow, Part, SegmentedGraph, graph_of, split
from triptych_inductor.wrapper.emit import emit


def compile(
    gm: GraphModule, example_inputs: Sequence[Any], *, options: Options | Mapping[str, Any] | None = None
) -> CompiledGraph:
    """Compile an ATen graph to machine code.

    gm: a graph of ATen ops; nodes may carry `meta["val"]` (fake tensors, SymInts), else shapes are found by
    propagation. It is not changed. Its output may be a tensor, a tuple or a list. example_inputs: one tensor (real or
    fake), SymInt or number for each placeholder. options: `Options` or a mapping of option names to values.

    Gives a callable with the graph's signature. Raises `OptionsError` for unknown options, `LoweringError` for a
    graph that cannot be lowered, and the compiler's error where kernels cannot be built.

    >>> compiled = compile(make_fx(lambda x: (x.sin() + 1,))(x), [x])
    >>> compiled(x)
    """
    chosen = Options.make(options)
    if not graphs.enabled(chosen):
        return _compile(gm, example_inputs, chosen)
    try:
        key = graphs.graph_key(gm, example_inputs, chosen)
    except Uncacheable as error:
        graphs.log.info("a graph is not kept in the cache: %s", error)
        return _compile(gm, example_inputs, chosen)
    found = graphs.lookup(key, example_inputs)
    if found is None:
        recorder = GuardRecorder(example_inputs)
        found = _compile(gm, example_inputs, chosen)
        graphs.store(key, found, recorder, sum(node.op == "call_function" for node in gm.graph.nodes))
    return found


def _compile(gm: GraphModule, example_inputs: Sequence[Any], chosen: Options) -> CompiledGraph:
    """Compile without a look at the cache of graphs."""
    if not chosen.max_autotune:
        return _compile_one(gm, example_inputs, chosen)
    prepared = prepare(copy_graph(gm), example_inputs)
    best, tried = fastest(prepared, example_inputs, chosen, lambda options: _compile_one(gm, example_inputs, options))
    compiled = _compile_one(gm, example_inputs, best)
    compiled.provenance["alternatives"] = tried
    return compiled


def _compile_one(gm: GraphModule, example_inputs: Sequence[Any], chosen: Options) -> CompiledGraph:
    """Compile under options whose choices are all made."""
    timings, start = Timings(), time.perf_counter()
    prepared = prepare(copy_graph(gm), example_inputs)
    start = timings.measure("prepare", start)
    frozen = run_frozen(prepared, chosen) if chosen.freezing else {}
    start = timings.measure("freezing", start) if chosen.freezing else start
    record = FrozenRecord(prepared, example_inputs, chosen) if chosen.freezing else None
    if record is not None and record.found is not None:
        record.found.provenance["frozen"] = frozen
        return record.found
    facts = replay_facts(prepared) if chosen.cudagraphs else None
    if facts is not None and facts.reason:
        parts, reasons = split(prepared)
        if parts:
            return _compile_parts(prepared, parts, chosen, "; ".join(reasons))
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
    loaded = pending.result()
    timings.measure("build", start)
    result = Program(
        source,
        pending.files(),
        [KernelInfo.of(k) for k in program.kernels],
        graph.fallbacks,
        _key(program, source, chosen),
        program.description,
        graph.constants,
        objects,
    )
    compiled = CompiledGraph(result, loaded, timings)
    compiled.provenance["frozen"] = frozen
    if record is not None:
        record.store(compiled, graph.attributes)
    if chosen.max_autotune:
        compiled.provenance["tuning"] = [choice.to_json() for choice in pending.tuning()]
    return compiled.replayed(facts) if facts is not None else compiled


def _compile_parts(gm: GraphModule, parts: Sequence[Part], chosen: Options, why: str) -> CompiledGraph:
    """A graph of which only some parts can be recorded as CUDA graphs."""
    compiled, chosen = [], dataclasses.replace(chosen, freezing=False)  # that is done
    for part in parts:
        options = chosen if part.recorded else dataclasses.replace(chosen, cudagraphs=False)
        compiled.append(_compile_one(graph_of(gm, part), [n.meta["val"] for n in part.inputs], options))
    return SegmentedGraph(Flow.of(gm, parts), compiled, why)


def aot_compile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    options: Options | Mapping[str, Any] | None = None,
) -> CompiledGraph:
    """Compile as `compile` does and write a self-contained package to `path`, for `load` in any later process.

    The file is written under a temporary name and renamed. Gives the compiled graph.
    """
    chosen = Options.make(options)
    if chosen.freezing:  # a packed weight has no stored form
        chosen = dataclasses.replace(chosen, exclude_passes=(*chosen.exclude_passes, "pack_weights"))
    compiled = compile(gm, example_inputs, options=chosen)
    data, target = compiled.to_bytes(), Path(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name, delete=False) as file:
        file.write(data)
    os.replace(file.name, target)
    return compiled


def load(path: str | os.PathLike[str]) -> CompiledGraph:
    """The compiled graph in a package made by `aot_compile`. Needs no compiler; `ArtifactError` for damaged files."""
    return CompiledGraph.from_bytes(Path(path).read_bytes())


def _key(program: Schedule, source: str, options: Options) -> str:
    keys = sorted({step.key for step in program.steps if hasattr(step, "key")})
    return hashlib.sha256("\n".join([source, repr(options), *keys]).encode()).hexdigest()
