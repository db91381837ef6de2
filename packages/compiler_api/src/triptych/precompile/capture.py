"""`capture`: a context manager in which one call of a program is traced, run for real, and written to disk."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from triptych_inductor import ArtifactError

from triptych.errors import PrecompileError
from triptych.precompile import compiling, files, source, unbacked
from triptych.precompile.lifting import Arguments
from triptych.precompile.loading import started
from triptych.precompile.summary import PrecompileSummary
from triptych.precompile.tracing import Traced, trace_program

BACKENDS = ("inductor", "eager")
_one_at_a_time = threading.RLock()  # tracing puts stand-ins into the user's modules


@dataclasses.dataclass(frozen=True)
class MakeFxTracer:
    """Runs the program on stand-ins and records the ATen operators that it reaches: one call, one graph.

    decompositions: ATen operator -> function in its place.
    """

    decompositions: dict[Any, Callable[..., Any]] | None = None


def capture(
    fn: Callable[..., Any],
    /,
    *,
    artifact_path: str | os.PathLike[str],
    cache_path: str | os.PathLike[str],
    tracer: MakeFxTracer | None = None,
    backend: str = "inductor",
) -> Capture:
    """Compiles the program `fn` ahead of time, for the arguments of the one call that its `with` block makes.

    fn: a function of positional arguments: modules, and nests of tensors and Python values. Modules are passed as
        arguments: their weights are not part of the artifact.
    artifact_path: where the program is written as readable Python. cache_path: where its built kernels are.
    tracer: how it is traced; `MakeFxTracer()` by default. backend: "inductor" (kernels) or "eager" (ATen operators).

    Returns: a context manager. Inside, call it once as `fn`; it gives what `fn` gives. Both files are written when the
        block ends without an exception.
    Raises: PrecompileError for programs that cannot be captured; ValueError, TypeError for wrong arguments.

    Example:
        >>> with capture(lambda model, x: model(x), artifact_path="m.py", cache_path="m.cache") as cap:
        ...     y = cap(model, x)
        >>> load("m.py", "m.cache")(model, x)
    """
    if not callable(fn):
        raise TypeError(f"capture takes a function, not {type(fn).__name__}")
    if backend not in BACKENDS:
        raise ValueError(f"precompile backend must be 'inductor' or 'eager', got {backend!r}")
    chosen = MakeFxTracer() if tracer is None else tracer
    if not isinstance(chosen, MakeFxTracer):
        raise TypeError(f"tracer must be a MakeFxTracer, got {type(tracer).__name__}")
    _refuse_bound_state(fn)
    paths = files.check_paths(artifact_path, cache_path)
    return Capture(fn, paths, chosen, backend)


def _refuse_bound_state(fn: Any) -> None:
    """Raises PrecompileError where `fn` itself carries a module or tensor, which would be baked in."""
    if isinstance(fn, nn.Module):
        raise PrecompileError(
            "the program is a module, whose weights would be baked in: capture a function of it, such as "
            "lambda model, *args: model(*args)"
        )
    if isinstance(fn, types.MethodType) and isinstance(fn.__self__, nn.Module):
        raise PrecompileError("the program is a method of a module: capture a function that takes the module")
    if isinstance(fn, functools.partial):
        held = (fn.func, *fn.args, *fn.keywords.values())
        if any(isinstance(v, (nn.Module, torch.Tensor)) for v in held):
            raise PrecompileError(
                "the program is a partial that holds a module or tensor: pass it as an argument instead"
            )
        _refuse_bound_state(fn.func)


class Capture:
    """One capture: "new", then "active" inside its block, "taken" after its call, and "spent" behind the block."""

    def __init__(self, fn: Callable[..., Any], paths: tuple[Path, Path], tracer: MakeFxTracer, backend: str) -> None:
        self._fn, self._paths, self._tracer, self._backend = fn, paths, tracer, backend
        self._state = "new"
        self._artifact: files.Artifact | None = None
        self.summary = PrecompileSummary()

    def __enter__(self) -> Capture:
        if self._state != "new":
            raise PrecompileError("the capture is spent" if self._state == "spent" else "the capture is already active")
        self._state = "active"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self._state = "spent"
        if kind is None:
            self._write()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Traces the program for these arguments, and runs what came out. Once; positional arguments only.

        The function runs once, on stand-ins: what it does to Python objects happens there, what it does to tensors when
        the program runs.

        Returns: what the program gives for them.
        """
        if self._state != "active":
            raise PrecompileError(self._wrong_time("called"))
        if kwargs:
            raise TypeError(f"a capture takes positional arguments only, got {', '.join(kwargs)}")
        self._state = "taken"
        with _one_at_a_time, _without_gradients(args):
            self._artifact, self.summary = make(self._fn, args, self._tracer, self._backend)
            program = started(self._artifact.source, str(self._paths[0]), self._artifact.kernels)
            return program(*args)

    def save(self) -> None:
        """Writes both files now. Raises PrecompileError outside the block, or where nothing was captured."""
        if self._state not in ("active", "taken"):
            raise PrecompileError(self._wrong_time("saved"))
        self._write()

    def _wrong_time(self, what: str) -> str:
        reason = {
            "new": "outside its with block",
            "taken": "a second time: it captures one call",
            "spent": "after its with block: it is spent",
        }
        return f"the capture is {what} {reason.get(self._state, '')}"

    def _write(self) -> None:
        if self._artifact is None:
            raise PrecompileError("nothing was captured: the block made no call of the capture that succeeded")
        files.write(self._artifact, *self._paths)


def make(
    fn: Callable[..., Any], args: tuple[Any, ...], tracer: MakeFxTracer, backend: str
) -> tuple[files.Artifact, PrecompileSummary]:
    """The artifact of `fn` for these arguments; it is traced on stand-ins and computes nothing."""
    arguments = Arguments(args)
    unbacked.refuse_other_marks(arguments.leaves)
    examples, bounds = unbacked.examples(arguments, backend)
    with _one_at_a_time:
        traced = unbacked.explained(lambda: trace_program(fn, arguments, examples, tracer.decompositions))
    if backend == "inductor":
        _refuse_without_compute(traced)
    text = source.write(traced, arguments, backend, examples, bounds)
    kernels = _kernels(traced) if backend == "inductor" else {}
    graphs = 1 + (traced.partition.backward is not None)
    return files.Artifact(text, backend, kernels), PrecompileSummary(frames=1, backend_graphs=graphs)


def _refuse_without_compute(traced: Traced) -> None:
    """Raises PrecompileError for programs that leave the code generator nothing to do, or give it no number of its."""
    for output in traced.plan.outputs[: traced.results]:
        if output.kind == "constant" and isinstance(output.constant, (float, str, complex)):
            raise PrecompileError(
                f"a result is {output.constant!r}, which compiled code does not give: use backend='eager'"
            )
    if not any(node.op == "call_function" for node in traced.partition.forward.graph.nodes):
        raise PrecompileError("the program computes nothing, so there is nothing to compile: use backend='eager'")


def _kernels(traced: Traced) -> dict[str, bytes]:
    graphs = {"forward": traced.partition.forward, "backward": traced.partition.backward}
    built = {}
    for name, gm in graphs.items():
        if gm is None:
            continue
        compiled = compiling.compile_graph(gm, [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"])
        try:
            built[name] = compiled.to_bytes()
        except ArtifactError as error:
            raise PrecompileError(f"the {name} graph cannot be stored: {error}") from error
    return built


class _without_gradients:  # noqa: N801 - used like a function
    """The gradients of the example's weights and tensors are put away for the capture, and back afterwards."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        arguments = Arguments(args)
        leaves = [t for t in arguments.tensors if t.is_leaf]
        self._before = [(t, t.grad) for t in leaves if t.requires_grad]

    def __enter__(self) -> None:
        for tensor, _ in self._before:
            tensor.grad = None

    def __exit__(self, *_: Any) -> None:
        for tensor, grad in self._before:
            tensor.grad = grad
