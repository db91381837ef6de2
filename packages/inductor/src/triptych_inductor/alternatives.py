"""Autotuning of choices that concern a whole graph: each alternative is compiled and timed, the fastest is kept.

A row of `ROWS` says when a choice is open and what the other options are. Graphs of symbolic sizes keep the rules' own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from triptych_inductor.options import Options
from triptych_inductor.passes.layout import CHANNELS_LAST_DTYPES, is_convolution, wants_channels_last

_WORTH = 0.97  # an alternative must take less than this share of the time of the rules' choice
_SECONDS = 0.2  # spent on timing one alternative, about

Timer = Callable[[Callable[..., Any], Sequence[Any]], float]


@dataclass(frozen=True)
class Alternative:
    """A choice that is open for some graphs. `other`: the options of the other way, None where there is none."""

    name: str
    other: Callable[[GraphModule, Options], Options | None]


def _other_layout(gm: GraphModule, options: Options) -> Options | None:
    """Convolutions channels-last or as they come, whichever the rules would not take."""
    found = [n.meta["val"] for n in gm.graph.nodes if is_convolution(n)]
    if options.channels_last != "auto" or not found:
        return None
    if not all(v.dtype in CHANNELS_LAST_DTYPES.get(v.device.type, ()) for v in found):
        return None
    return replace(options, channels_last="never" if wants_channels_last(gm, options) else "always")


ROWS = (Alternative("layout of convolutions", _other_layout),)


def fastest(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    compile_one: Callable[[Options], Any],
    timer: Timer | None = None,
) -> tuple[Options, list[dict[str, Any]]]:
    """The options under which a graph runs fastest, and what was timed (plain data).

    gm: the graph with fake values. compile_one: options to a callable of the graph's inputs. timer: seconds of a call.
    """
    inputs = _made_up(example_inputs)
    if inputs is None:
        return options, []
    seconds = timer or call_seconds
    tried: list[dict[str, Any]] = []
    for row in ROWS:
        other = row.other(gm, options)
        if other is None:
            continue
        times = [
            seconds(compile_one(replace(o, cudagraphs=False, max_autotune=False)), inputs) for o in (options, other)
        ]
        taken = times[1] < _WORTH * times[0]
        changed = {k: v for k, v in vars(other).items() if getattr(options, k) != v}
        tried.append({"choice": row.name, "microseconds": [t * 1e6 for t in times], "other": changed, "taken": taken})
        options = other if taken else options
    return options, tried


def _made_up(example_inputs: Sequence[Any]) -> list[Any] | None:
    """Zeros in the place of tensors; None where a size is symbolic."""
    found: list[Any] = []
    for value in example_inputs:
        if not isinstance(value, torch.Tensor):
            if not isinstance(value, (int, float, bool)):
                return None
            found.append(value)
            continue
        if not all(isinstance(n, int) for n in (*value.shape, *value.stride())):
            return None
        memory = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device=value.device)
        found.append(memory.zero_())
    return found


def call_seconds(call: Callable[..., Any], inputs: Sequence[Any]) -> float:
    """Median seconds of a call, the device's work included."""
    wait = torch.cuda.synchronize if any(_on_gpu(v) for v in inputs) else lambda: None

    def once() -> float:
        wait()
        start = time.perf_counter()
        call(*inputs)
        wait()
        return time.perf_counter() - start

    once()
    first = once()
    return statistics.median(once() for _ in range(max(min(int(_SECONDS / max(first, 1e-6)), 30), 3)))


def _on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"
