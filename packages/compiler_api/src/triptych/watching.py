"""What a user sees of a compilation besides its report: log records, the debug folder, regions in profiles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from triptych_inductor import CompiledGraph

from triptych.debug_folder import DebugFolder, readable
from triptych.logs import logger
from triptych.settings import Settings

ATEN, SCHEDULE, OUTPUT_CODE, KERNEL_CODE, TIMES = (
    logger(name) for name in ("aten_graphs", "schedule", "output_code", "kernel_code", "times")
)


class Watcher:
    """Of one `compile` call. name: of the compiled callable."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self.regions = bool(settings.profiler_regions)
        self._parent = settings.debug_directory
        self._folder: DebugFolder | None = None

    @property
    def folder(self) -> DebugFolder | None:
        """The debug folder, made when there is something to put into it; None where none is wanted."""
        if self._folder is None and self._parent:
            self._folder = DebugFolder(self._parent, self.name)
        return self._folder

    def captured(self, index: int, gm: GraphModule) -> None:
        """A graph arrives from the front end."""
        if self.folder is not None:
            self.folder.captured(index, gm)

    def lowered(self, index: int, role: str, gm: GraphModule) -> None:
        """A graph of ATen operators is about to be compiled."""
        if self.folder is not None:
            self.folder.lowered(index, role, gm)
        if ATEN.isEnabledFor(logging.INFO):
            ATEN.info("%s, graph %d, %s:\n%s", self.name, index, role, readable(gm))

    def compiled(self, index: int, role: str, example_inputs: Sequence[Any], compiled: CompiledGraph) -> None:
        """The code generator is done."""
        if self.folder is not None:
            self.folder.compiled(index, role, example_inputs, compiled)
        where = (self.name, index, role)
        if SCHEDULE.isEnabledFor(logging.INFO):
            SCHEDULE.info("%s, graph %d, %s:\n%s", *where, compiled.schedule)
        if OUTPUT_CODE.isEnabledFor(logging.INFO):
            OUTPUT_CODE.info("%s, graph %d, %s:\n%s", *where, compiled.source)
        if KERNEL_CODE.isEnabledFor(logging.INFO):
            for name, text in compiled.files.items():
                if name != "call.py":
                    KERNEL_CODE.info("%s, graph %d, %s, %s:\n%s", *where, name, text)
        TIMES.info("%s, graph %d, %s: %s", *where, compiled.timings)

    def boxed(self, index: int, role: str, compiled: CompiledGraph) -> Callable[[list[Any]], Any]:
        """The graph as a callable that takes its inputs in one list and empties it, so that memory is freed early.

        Under a profiler it appears as a region, and its kernels by name within.
        """
        call, profiled = compiled.call, compiled.call_profiled
        region = f"triptych: {self.name}, graph {index}, {role}"
        profiling = torch.autograd._profiler_enabled

        def run(args: list[Any]) -> Any:
            if profiling():
                with torch.profiler.record_function(region):
                    return profiled(args)
            return call(args)

        def plain(args: list[Any]) -> Any:
            return call(args)

        chosen = run if self.regions else plain
        chosen._boxed_call = True  # type: ignore[attr-defined]
        return chosen
