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
from triptych_aot_autograd.runtime.bind import Flat, bind, boxed
from triptych_aot_autograd.runtime.plan import RuntimePlan

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]


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
    on_plan: Callable[[RuntimePlan], None] | None = None,
    lazy_backward: bool = True,
    **partition_options: Any,
) -> Callable[..., tuple]:
    """A callable `(*primals) -> tuple of flat outputs` that behaves like the traced function.

    A region whose inputs overlap in memory that it writes runs as the original function, without being compiled.
    on_plan: is given the run-time plan, before a compiler runs. lazy_backward: the backward is compiled when it is
    first used.
    """
    facts = joint.facts
    if facts.overlapping_mutation:
        return _eager(joint, facts.overlapping_mutation)
    if any(f.lazy_bits and f.changed for f in facts.inputs):
        return _eager(joint, "a lazily conjugated or negated input is overwritten")
    partition = joint.partition(partition_fn or min_cut_partition, **partition_options)
    plan = RuntimePlan.of(joint, partition)
    if on_plan is not None:
        on_plan(plan)
    if partition.backward is None:
        return bind(plan, compile_graph(inference_compiler or fw_compiler, partition.forward), eager=joint.eager)
    backward = LazyBackward(bw_compiler or fw_compiler, partition.backward)
    forward = compile_graph(fw_compiler, partition.forward)
    if not lazy_backward:
        backward.compile()
    return bind(plan, forward, backward, eager=joint.eager)


def _eager(joint: JointGraph, reason: str) -> Callable[..., tuple]:
    warnings.warn(f"this region runs without compilation: {reason}", stacklevel=4)
    eager = joint.eager
    assert eager is not None, "the joint graph does not know its function"
    return lambda *primals: tuple(eager(list(primals)))
