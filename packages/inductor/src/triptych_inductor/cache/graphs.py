"""Records of compiled graphs on disk, by what determines them.

A record is the graph's artifact (`CompiledGraph.to_bytes`): wrapper source, machine code, constants; without pickle.
Its key is a hash of the graph's text, the inputs, the options, the code of this package, torch's release, the
instruction set and the devices. Records made by another C++ compiler than the one at hand count as missing; where there
is no compiler they serve.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from triptych_inductor.build.cache import Store, digest
from triptych_inductor.build.compiler import CompilerNotFoundError, find_compiler
from triptych_inductor.build.isa import host_isa
from triptych_inductor.cache import guards
from triptych_inductor.cache.text import Uncacheable, ambient_text, graph_text, source_fingerprint, versions_text
from triptych_inductor.compiled import CompiledGraph, Timings
from triptych_inductor.container import ArtifactError
from triptych_inductor.lowering.registry import foreign_lowering
from triptych_inductor.options import Options
from triptych_inductor.passes.pipeline import extra_passes
from triptych_inductor.runtime.cuda.replay import PRIVATE

log = logging.getLogger("triptych_inductor.cache")
STORE = "graph"
SWITCH = "TRIPTYCH_GRAPH_CACHE"  # environment variable; "0": whole graphs are neither looked for nor kept


def enabled(options: Options) -> bool:
    """Whether whole graphs are looked for on disk by what they are before all passes; of frozen ones see `frozen`."""
    return switched_on(options) and not options.freezing


def switched_on(options: Options) -> bool:
    """Whether anything but kernels is looked for on disk."""
    return options.disk_cache and not options.interpret and os.environ.get(SWITCH, "1") != "0"


def graph_key(gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, constants: bool = True) -> str:
    """The key of a graph of ATen ops. Raises `Uncacheable`. constants: their content counts."""
    if extra_passes():
        raise Uncacheable(f"graph passes of users: {', '.join(extra_passes())}")
    for node in gm.graph.nodes:
        if node.op == "call_function" and foreign_lowering(node.target):
            raise Uncacheable(f"a lowering of users for {node.target}")
    return digest(
        "graph",
        graph_text(gm, example_inputs, constants=constants),
        guards.environment_text(example_inputs),
        ambient_text(),
        repr(options),
        repr(gm.graph.output_node().meta.get(PRIVATE)),
        source_fingerprint("triptych_inductor"),
        versions_text(),
        *device_texts(gm),
    )


def device_texts(gm: GraphModule) -> list[str]:
    """The processors that the graph's values lie on."""
    found = {torch.device("cpu")}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        found |= {v.device for v in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(v, "device")}
    return sorted(map(_device_text, found))


@functools.cache
def _device_text(device: torch.device) -> str:
    if device.type == "cpu":
        return f"cpu {host_isa().name}"
    if device.type == "cuda" and torch.cuda.is_available():
        facts = torch.cuda.get_device_properties(device)
        return f"cuda {facts.name} {facts.major}.{facts.minor} {facts.multi_processor_count} {torch.version.cuda}"
    return device.type


def compiler_text() -> str:
    """What the C++ compiler calls itself; "" where there is none."""
    try:
        return find_compiler().identity(host_isa())
    except CompilerNotFoundError:
        return ""


def lookup(key: str, example_inputs: Sequence[Any], bound: Sequence[torch.Tensor] = ()) -> CompiledGraph | None:
    """The compiled graph of a key; None where there is no record that fits, or it is damaged.

    bound: constants that the record was written without.
    """
    start, payload = time.perf_counter(), Store(STORE).get(key)
    if payload is None:
        return None
    try:
        compiled = CompiledGraph.from_bytes(payload, bound)
    except (ArtifactError, RuntimeError, OSError) as error:  # OSError: the loader refuses the machine code
        log.warning("a record of the cache cannot be used (%s): compiling again", error)
        return None
    at_hand = compiler_text()
    if compiled.provenance.get("compiler") not in (at_hand, None) and at_hand:
        return None
    if not guards.hold(compiled.provenance.get("guards", ()), example_inputs):
        return None
    compiled.cache_key, compiled.from_cache = key, True
    compiled.timings = Timings({"cache": time.perf_counter() - start, "build": 0.0})
    log.debug("graph %s comes from the cache", key[:12])
    return compiled


def store(
    key: str,
    compiled: CompiledGraph,
    recorder: guards.GuardRecorder,
    operations: int,
    bound: Mapping[str, int] | None = None,
) -> None:
    """Write the record of a graph that was compiled just now, if it has a stored form.

    operations: its call nodes. bound: see `CompiledGraph.to_bytes`.
    """
    try:
        compiled.provenance.update(compiler=compiler_text(), guards=recorder.facts(), operations=operations)
        payload = compiled.to_bytes(bound)
    except (ArtifactError, Uncacheable) as error:
        log.info("a graph is not kept in the cache: %s", error)
        return
    if Store(STORE).put(key, payload):
        compiled.cache_key = key
