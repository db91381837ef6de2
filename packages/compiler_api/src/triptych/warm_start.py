"""Captured graphs that an earlier process compiled: taken from disk instead of traced and compiled again.

A record is a JSON object: the run-time plan of autograd, the keys of the compiled forward and backward graphs (records
of `triptych_inductor` themselves), and the facts about sizes under which all of it holds. Its key is a hash of the
captured graph's text, the modes of the thread, the options and the code of the stages. A record is written when all of
it is there: for a graph with gradients, after the first backward.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import triptych_aot_autograd
from torch.fx import GraphModule
from triptych_aot_autograd import PlanError, RuntimePlan
from triptych_inductor import CompiledGraph, Options
from triptych_inductor.build.cache import Store, digest
from triptych_inductor.cache import graphs
from triptych_inductor.cache.guards import GuardRecorder, environment_text, hold
from triptych_inductor.cache.text import Uncacheable, ambient_text, graph_text, source_fingerprint, versions_text

log = logging.getLogger("triptych.cache")
STORE = "autograd"
STAGES = ("triptych_dynamo", "triptych_aot_autograd", "triptych_inductor", "triptych")


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a record gives. compiled: by role, "inference", or "forward" and "backward"."""

    plan: RuntimePlan
    compiled: dict[str, CompiledGraph]

    def bind(self, gm: GraphModule, boxed: Callable[[str, CompiledGraph], Callable[..., Any]]) -> Callable[..., Any]:
        """The callable that compiling `gm` would give. boxed: (role, compiled graph) -> callable of one list."""
        runs = {role: boxed(role, graph) for role, graph in self.compiled.items()}
        forward = runs.get("inference") or runs["forward"]
        return triptych_aot_autograd.bind_graph(gm, self.plan, forward, runs.get("backward"))


class Recording:
    """One captured graph on its way to the disk; notes what its compilation makes, and writes it when that is whole.

    Where the graph has no key, or a part of it cannot be stored, nothing is written.
    """

    def __init__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> None:
        self.gm, self.inputs = gm, example_inputs
        self.key = ""
        self._plan: RuntimePlan | None = None
        self._parts: dict[str, str] = {}
        if graphs.enabled(options):
            try:
                self.key = _key(gm, example_inputs, options)
            except Uncacheable as error:
                log.info("a captured graph is not kept on disk: %s", error)
        self._recorder = GuardRecorder(example_inputs) if self.key else None

    def look_up(self) -> Stored | None:
        """What an earlier process left, where it holds for the sizes at hand."""
        payload = Store(STORE).get(self.key) if self.key else None
        if payload is None:
            return None
        try:
            record = json.loads(payload)
            plan = RuntimePlan.from_json(record["plan"])
            compiled = {role: graphs.lookup(key, self.inputs) for role, key in record["parts"].items()}
        except (ValueError, KeyError, TypeError, PlanError) as error:
            log.warning("a record of the cache cannot be used (%s): compiling again", error)
            return None
        found = {role: graph for role, graph in compiled.items() if graph is not None}
        if len(found) < len(compiled) or not hold(record["facts"], self.inputs):
            return None
        log.debug("captured graph %s comes from the cache", self.key[:12])
        return Stored(plan, found)

    def on_plan(self, plan: RuntimePlan) -> None:
        """The run-time plan is known."""
        self._plan = plan

    def on_compiled(self, role: str, compiled: CompiledGraph) -> None:
        """A graph of the pair is compiled."""
        if not self.key or not compiled.cache_key:
            return
        self._parts[role] = compiled.cache_key
        if self._plan is not None and ("backward" in self._parts or not self._plan.gradients):
            self._write(self._plan)

    def _write(self, plan: RuntimePlan) -> None:
        assert self._recorder is not None
        try:
            record = {"plan": plan.to_json(), "parts": self._parts, "facts": self._recorder.facts()}
        except (Uncacheable, PlanError) as error:
            log.info("a captured graph is not kept on disk: %s", error)
            return
        Store(STORE).put(self.key, json.dumps(record, separators=(",", ":")).encode())


def _key(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> str:
    return digest(
        "captured",
        graph_text(gm, example_inputs, constants=False, foreign_operators=False),
        environment_text(example_inputs),
        ambient_text(),
        repr(options),
        *(source_fingerprint(stage) for stage in STAGES),
        versions_text(),
        *graphs.device_texts(gm),
    )
