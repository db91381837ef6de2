"""Backends for finding out where a program goes wrong: each leaves out, or checks, one part of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triptych_aot_autograd
from torch._decomp import core_aten_decompositions
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor.runtime.cuda.replay import Replay, replay_facts

from triptych.errors import TriptychError
from triptych.pipelines import ahead_of_time
from triptych.reports import CapturedStage, CompiledStage, Report
from triptych.settings import Backend, Settings

Run = Callable[..., Any]


class MetadataError(TriptychError):
    """An operator gave a tensor of another kind than the trace expected; later kernels would have read it wrongly."""


class _Checked(Interpreter):
    """Runs a graph node by node and compares each result with the node's `meta["val"]`."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        expected = n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(expected, torch.Tensor):
            _compare(n, result, expected)
        return result


def _compare(node: Node, result: torch.Tensor, expected: torch.Tensor) -> None:
    found, wanted = (result.dtype, result.device.type), (expected.dtype, expected.device.type)
    fixed = all(isinstance(n, int) for n in (*expected.shape, *expected.stride()))
    if fixed:
        found, wanted = (*found, tuple(result.shape)), (*wanted, tuple(expected.shape))  # type: ignore[assignment]
    if found != wanted:
        line = str(node.meta.get("stack_trace") or "").strip().splitlines()
        place = f", at {' '.join(part.strip() for part in line[-2:])}" if line else ""
        raise MetadataError(f"{node.format_node()} gives {found} where {wanted} was expected{place}")


def _checked(gm: GraphModule) -> Run:
    return lambda *inputs: _Checked(gm).run(*inputs)


def eager_debug(settings: Settings, report: Report) -> Backend:
    """The captured graph, with the metadata of each result checked. Raises MetadataError when it differs."""
    return _of_graphs(report, _checked)


def eager_noexcept(settings: Settings, report: Report) -> Backend:
    """The captured graph; what it raises is wrapped in an error, so that no `except` of the program hides it."""

    def make(gm: GraphModule) -> Run:
        def run(*inputs: Any) -> Any:
            try:
                return gm(*inputs)
            except Exception as error:
                raise TriptychError(f"the captured graph raised {type(error).__name__}: {error}") from error

        return run

    return _of_graphs(report, make)


def _of_graphs(report: Report, make: Callable[[GraphModule], Run]) -> Backend:
    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Run:
        report.graphs.append(CapturedStage(sum(n.op.startswith("call_") for n in gm.graph.nodes), 0.0))
        return make(gm)

    return backend


def pre_dispatch_eager(settings: Settings, report: Report) -> Backend:
    """The ATen operators that the program calls, above autograd: gradients are then eager's own."""

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Run:
        traced = make_fx(gm, pre_dispatch=True, tracing_mode="fake", _allow_non_fake_inputs=True)(*example_inputs)
        report.graphs.append(CapturedStage(sum(n.op.startswith("call_") for n in traced.graph.nodes), 0.0))
        return traced.forward

    return backend


def _aot(report: Report, settings: Settings, make: Callable[[GraphModule], Run], **options: Any) -> Backend:
    def compiler(role: str, index: int) -> Any:
        def run(gm: GraphModule, example_inputs: Sequence[Any]) -> Run:
            report.stages.append(CompiledStage(role, index, sum(n.op == "call_function" for n in gm.graph.nodes)))
            return make(gm)

        return run

    return ahead_of_time(compiler, settings, report, **options)


def _forward(gm: GraphModule) -> Run:
    return gm.forward


def aot_eager_default_partitioner(settings: Settings, report: Report) -> Backend:
    """Like `aot_eager`, keeping for the backward what eager keeps."""
    return _aot(report, settings, _forward, partition_fn=triptych_aot_autograd.default_partition)


def aot_eager_decomp_partition(settings: Settings, report: Report) -> Backend:
    """Like `aot_eager`, with composite operators taken apart to the core set."""
    return _aot(report, settings, _forward, decompositions=core_aten_decompositions())


def aot_eager_crossref(settings: Settings, report: Report) -> Backend:
    """The same, with the metadata of each result checked."""
    return _aot(report, settings, _checked, decompositions=core_aten_decompositions())


def cudagraphs(settings: Settings, report: Report) -> Backend:
    """ATen operators recorded as a CUDA graph at the second call and replayed after. On the CPU they just run."""

    def make(gm: GraphModule) -> Run:
        values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
        if not any(isinstance(v, torch.Tensor) and v.device.type == "cuda" for v in values):
            return gm.forward
        replay = Replay(lambda args: gm.forward(*args), replay_facts(gm))

        def run(args: list[Any]) -> Any:
            return replay(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return _aot(report, settings, make)


# -- faults on purpose, for tests of what finds faults -----------------------------------------------------------------
def _has_relu(gm: GraphModule) -> bool:
    return any("relu" in str(n.target) for n in gm.graph.nodes if n.op.startswith("call_"))


def relu_compile_error(settings: Settings, report: Report) -> Backend:
    """Raises while compiling a graph with a relu."""

    def make(gm: GraphModule) -> Run:
        if _has_relu(gm):
            raise TriptychError("relu found: this backend fails to compile it, on purpose")
        return gm.forward

    return _of_graphs(report, make)


def relu_runtime_error(settings: Settings, report: Report) -> Backend:
    """Raises while running a graph with a relu."""

    def make(gm: GraphModule) -> Run:
        def run(*inputs: Any) -> Any:
            raise TriptychError("relu found: this backend fails to run it, on purpose")

        return run if _has_relu(gm) else gm.forward

    return _of_graphs(report, make)


def relu_accuracy_error(settings: Settings, report: Report) -> Backend:
    """Adds one to what each relu gives."""

    class Wrong(Interpreter):
        def run_node(self, n: Node) -> Any:
            result = super().run_node(n)
            return result + 1 if n.op.startswith("call_") and "relu" in str(n.target) else result

    return _of_graphs(report, lambda gm: lambda *inputs: Wrong(gm).run(*inputs))
