"""From a joint graph and compilers to a callable of flat primals."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.partition.min_cut import min_cut_partition
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.differentiable import make_differentiable
from triptych_aot_autograd.runtime.epilogue import make_epilogue
from triptych_aot_autograd.runtime.overlap import make_overlap_check
from triptych_aot_autograd.runtime.results import make_results

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]
Flat = Callable[[list[Any]], Any]  # takes a list of inputs (which it may empty), returns a list or tuple


@contextlib.contextmanager
def compile_state() -> Iterator[None]:
    """The state compilers run in: no gradients, no autocast, no dispatch modes of the caller."""
    with torch.no_grad(), compat.no_autocast(), compat.without_dispatch_modes():
        yield


def compile_graph(compiler: Compiler, gm: GraphModule) -> Callable[..., Any]:
    """What the compiler makes of a graph, whose example inputs are its placeholders' values."""
    example_inputs = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    with compile_state():
        return compiler(gm, example_inputs)


def boxed(compiled: Callable[..., Any]) -> Flat:
    """The compiled graph as a function of a list of inputs, run below autograd and autocast."""
    keys, guard = compat.RUNTIME_EXCLUDED_KEYS, compat.exclude_keys

    def run_boxed(inputs: list[Any]) -> Any:
        with guard(keys):
            return compiled(inputs)

    def run(inputs: list[Any]) -> Any:
        with guard(keys):
            return compiled(*inputs)

    return run_boxed if getattr(compiled, "_boxed_call", False) else run


def starred(compiled: Callable[..., Any]) -> Callable[..., tuple]:
    """The compiled graph as a function of its inputs, run below autograd and autocast."""
    keys, guard = compat.RUNTIME_EXCLUDED_KEYS, compat.exclude_keys

    def run_boxed(*inputs: Any) -> tuple:
        with guard(keys):
            return tuple(compiled(list(inputs)))

    def run(*inputs: Any) -> tuple:
        with guard(keys):
            return tuple(compiled(*inputs))

    return run_boxed if getattr(compiled, "_boxed_call", False) else run


class LazyBackward:
    """The backward graph, compiled at its first use; threads that arrive together compile once."""

    def __init__(self, compiler: Compiler, gm: GraphModule) -> None:
        self._compiler = compiler
        self._gm: GraphModule | None = gm
        self._run: Flat | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> Any:
        run = self._run
        if run is None:
            run = self.compile()
        return run(inputs)

    def compile(self) -> Flat:
        """Compile now, unless that is done."""
        with self._lock:
            if self._run is None:
                assert self._gm is not None
                self._run = boxed(compile_graph(self._compiler, self._gm))
                self._gm = None
            return self._run


def compile_joint(
    joint: JointGraph,
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    *,
    inference_compiler: Compiler | None = None,
    partition_fn: Callable[..., Partition] | None = None,
    **partition_options: Any,
) -> Callable[..., tuple]:
    """A callable `(*primals) -> tuple of flat outputs` that behaves like the traced function.

    A region whose inputs overlap in memory that it writes runs as the original function, without being compiled.
    """
    facts = joint.facts
    if facts.overlapping_mutation:
        return _eager(joint, facts.overlapping_mutation)
    if any(f.lazy_bits and f.changed for f in facts.inputs):
        return _eager(joint, "a lazily conjugated or negated input is overwritten")
    if joint.has_backward:
        partition = joint.partition(partition_fn or min_cut_partition, **partition_options)
        assert partition.backward is not None
        forward = boxed(compile_graph(fw_compiler, partition.forward))
        backward = LazyBackward(bw_compiler or fw_compiler, partition.backward)
        return _wrap(joint, make_differentiable(joint, partition, forward, backward))
    partition = joint.partition(partition_fn or min_cut_partition, **partition_options)
    compiled = compile_graph(inference_compiler or fw_compiler, partition.forward)
    return _wrap(joint, boxed(compiled), starred(compiled))


def _eager(joint: JointGraph, reason: str) -> Callable[..., tuple]:
    warnings.warn(f"this region runs without compilation: {reason}", stacklevel=4)
    eager = joint.eager
    assert eager is not None, "the joint graph does not know its function"
    return lambda *primals: tuple(eager(list(primals)))


def _resolving(core: Flat, lazy: list[int]) -> Flat:
    """Give the graph the numbers of lazily conjugated or negated inputs."""

    def run(inputs: list[Any]) -> Any:
        for i in lazy:
            inputs[i] = inputs[i].resolve_conj().resolve_neg()
        return core(inputs)

    return run


def _wrap(joint: JointGraph, core: Flat, plain: Callable[..., tuple] | None = None) -> Callable[..., tuple]:
    """Add what happens around the graphs: overlap check, write-back, aliasing. `plain`: `core`, if nothing does."""
    lazy = [i for i, f in enumerate(joint.facts.inputs) if f.lazy_bits]
    if lazy:
        core, plain = _resolving(core, lazy), None
    overlaps = make_overlap_check(joint.facts, [n.meta.get("val") for n in joint.primals])
    epilogue = make_epilogue(joint)
    results = make_results(joint)
    eager = joint.eager
    if overlaps is None and epilogue is None:
        if results is None:
            return plain or (lambda *primals: tuple(core(list(primals))))
        return lambda *primals: results(primals, core(list(primals)))

    def run(*primals: Any) -> tuple:
        if overlaps is not None and overlaps(primals):
            assert eager is not None
            return tuple(eager(list(primals)))
        values = core(list(primals))
        if epilogue is not None:
            epilogue(primals, values)
        return tuple(values) if results is None else results(primals, values)

    return run
