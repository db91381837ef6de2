"""Our backends, composed of the stages: captured graph -> `triptych_aot_autograd` -> `triptych_inductor`.

This is the only place where the stages meet. They meet through public types of torch alone: an fx graph and example
inputs go in, a callable comes out.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import triptych_aot_autograd
import triptych_inductor
from torch.fx import GraphModule

from triptych.errors import CompileFallbackWarning, InvalidModeError, InvalidOptionError, suggestion
from triptych.freezing import Freezer
from triptych.reports import CapturedStage, CompiledStage, Report
from triptych.settings import Backend, Settings
from triptych.warm_start import Recording, Stored
from triptych.watching import Watcher

Compiler = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def code_options(settings: Settings) -> triptych_inductor.Options:
    """The code generator's options for a mode, or for a mapping of names to values.

    Raises: InvalidModeError, InvalidOptionError (unknown name, with a suggestion; wrong type).
    """
    if settings.mode is not None:
        modes = triptych_inductor.list_mode_options()
        if settings.mode not in modes:
            raise InvalidModeError(f"unknown mode {settings.mode!r}: {suggestion(settings.mode, modes)}")
        options = _make_options(modes[settings.mode])
    else:
        options = _make_options(settings.options or {})
    if settings.use_aoti:  # a packed weight has no stored form
        options = dataclasses.replace(options, exclude_passes=(*options.exclude_passes, "pack_weights"))
    return dataclasses.replace(
        options,
        freezing=options.freezing or (bool(settings.freezing) and "freezing" not in (settings.options or {})),
        disk_cache=options.disk_cache and settings.disk_cache is not False,
        cache_key_tag=options.cache_key_tag or settings.cache_key_tag or "",
    )


def _make_options(given: Mapping[str, Any]) -> triptych_inductor.Options:
    known = triptych_inductor.list_options()
    for key in given:
        name = str(key).replace("-", "_")
        if name not in known:
            raise InvalidOptionError(f"unknown option {key!r}: {suggestion(name, known)}")
    try:
        return triptych_inductor.Options.make(given)
    except triptych_inductor.OptionsError as error:
        raise InvalidOptionError(str(error)) from error


def eager(settings: Settings, report: Report) -> Backend:
    """The captured graph as it is, run by its own generated `forward`."""

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        report.graphs.append(CapturedStage(_operations(gm), 0.0))
        return gm.forward

    return backend


def aot_eager(settings: Settings, report: Report) -> Backend:
    """Forward and backward ATen graphs, run operator by operator: autograd is ours, the arithmetic torch's."""
    watcher = Watcher(settings, report.name)

    def compiler(role: str, index: int) -> Compiler:
        def run(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            watcher.lowered(index, role, gm)
            report.stages.append(CompiledStage(role, index, _operations(gm)))
            return gm.forward

        return run

    return ahead_of_time(compiler, settings, report)


def inductor(settings: Settings, report: Report) -> Backend:
    """Forward and backward ATen graphs, each compiled to kernels by `triptych_inductor`."""
    options = code_options(settings)
    watcher = Watcher(settings, report.name)
    generator = _Generator(settings, report, watcher)

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        start, freezer = time.perf_counter(), Freezer(gm, example_inputs, options)
        recording = Recording(gm, example_inputs, freezer.options)
        watcher.captured(len(report.graphs), gm)
        stored = recording.look_up() if not settings.debug_directory else None  # the folder wants to see all stages
        if stored is not None:
            return generator.take(stored, gm, start)

        def compiler(role: str, index: int) -> Compiler:
            return functools.partial(generator.run, role, index, recording, freezer)

        def on_plan(plan: triptych_aot_autograd.RuntimePlan) -> None:
            recording.on_plan(plan)
            freezer.on_plan(plan)

        gm, found = triptych_inductor.run_front_passes(gm, options)
        report.patterns.update(found)
        return ahead_of_time(compiler, settings, report, on_plan=on_plan)(gm, example_inputs)

    return backend


def ahead_of_time(
    compiler: Callable[[str, int], Compiler], settings: Settings, report: Report, **options: Any
) -> Backend:
    """A backend of one compiler per role.

    compiler: (role, index of the captured graph) -> compiler of ATen graphs. options: further ones of `aot_backend`.
    """

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        start, index = time.perf_counter(), len(report.graphs)
        lower = triptych_aot_autograd.aot_backend(
            fw_compiler=compiler("forward", index),
            bw_compiler=compiler("backward", index),
            inference_compiler=compiler("inference", index),
            **options,
        )
        try:
            made = lower(gm, example_inputs)
        except Exception as error:
            if settings.on_error == "raise":
                raise
            _warn(f"a graph of {_operations(gm)} operations runs eagerly, because autograd ahead of time failed", error)
            made = gm.forward
        report.graphs.append(CapturedStage(_operations(gm), time.perf_counter() - start))
        return made

    return backend


class _Generator:
    """ATen graph -> kernels, noted in the report. Where that fails and may, the graph itself is what runs."""

    def __init__(self, settings: Settings, report: Report, watcher: Watcher) -> None:
        self._settings, self._report, self._watcher = settings, report, watcher
        self._told_of_missing_compiler = False

    def take(self, stored: Stored, gm: GraphModule, start: float) -> Callable[..., Any]:
        """The callable of a captured graph that an earlier process compiled. start: when the look for it began."""
        report, index = self._report, len(self._report.graphs)
        for role, compiled in stored.compiled.items():
            report.stages.append(
                CompiledStage(role, index, compiled.provenance.get("operations", 0), **_facts(compiled))
            )
            self._watcher.compiled(index, role, (), compiled)
        made = stored.bind(gm, functools.partial(self._watcher.boxed, index))
        report.graphs.append(CapturedStage(_operations(gm), time.perf_counter() - start))
        return made

    def run(
        self,
        role: str,
        index: int,
        recording: Recording,
        freezer: Freezer,
        gm: GraphModule,
        example_inputs: Sequence[Any],
    ) -> Callable[..., Any]:
        """Compiles one graph. role, index: what it is called in the report. recording: is told what came out."""
        start, stage = time.perf_counter(), CompiledStage(role, index, _operations(gm))
        facts: dict[str, Any]
        made: Any
        self._watcher.lowered(index, role, gm)
        try:
            frozen = freezer.frozen(role, gm, example_inputs)
            source, inputs = (gm, example_inputs) if frozen is None else (frozen.gm, frozen.example_inputs)
            made = triptych_inductor.compile(source, inputs, options=freezer.options)
            made = _packaged(made) if self._settings.use_aoti else made
        except triptych_inductor.CompilerNotFoundError as error:
            if not self._told_of_missing_compiler:
                self._told_of_missing_compiler = True
                _warn("graphs run eagerly, because there is no C++ compiler", error)
            made, facts = gm.forward, {"failure": str(error)}
        except Exception as error:
            if self._settings.on_error == "raise":
                raise
            _warn(f"a {role} graph of {stage.operations} operations runs eagerly: generating code failed", error)
            made, facts = gm.forward, {"failure": f"{type(error).__name__}: {error}"}
        else:
            recording.on_compiled(role, made)
            facts = _facts(made)
            self._watcher.compiled(index, role, inputs, made)
            made = self._watcher.boxed(index, role, made)
            made = made if frozen is None else frozen.bound(made)
        facts["not_frozen"] = freezer.reason
        self._report.stages.append(dataclasses.replace(stage, seconds=time.perf_counter() - start, **facts))
        return made


def _packaged(made: triptych_inductor.CompiledGraph) -> triptych_inductor.CompiledGraph:
    """The graph as its package gives it back (option `use_aoti`): nothing runs that the package does not hold."""
    loaded = triptych_inductor.CompiledGraph.from_bytes(made.to_bytes())
    loaded.timings, loaded.cache_key, loaded.from_cache = made.timings, made.cache_key, made.from_cache
    return loaded


def _facts(made: triptych_inductor.CompiledGraph) -> dict[str, Any]:
    """What a report keeps of a compiled graph."""
    return {
        "kernels": tuple(kernel.name for kernel in made.kernels),
        "fallbacks": tuple(made.fallbacks.items()),
        "files": tuple(made.files.items()),
        "build_seconds": made.timings.parts["build"],
        "cached": made.from_cache,
        "tuning": tuple(made.tuning),
        "frozen": tuple(made.provenance.get("frozen", {}).items()),
        "replay": "" if made.replay is None else str(made.replay),
    }


def _operations(gm: GraphModule) -> int:
    return sum(node.op.startswith("call_") for node in gm.graph.nodes)


def _warn(what: str, error: Exception) -> None:
    warnings.warn(f"triptych: {what}: {type(error).__name__}: {error}", CompileFallbackWarning, stacklevel=3)
