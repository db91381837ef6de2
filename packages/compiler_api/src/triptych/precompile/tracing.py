"""One run of a program on stand-ins, recorded as a forward and, where results want gradients, a backward ATen graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import TreeSpec, tree_flatten
from triptych_aot_autograd import AotError, RuntimePlan, min_cut_partition
from triptych_aot_autograd._torch_compat import compiling_flag
from triptych_aot_autograd.descriptions import InputDesc
from triptych_aot_autograd.joint_graph import JointGraph
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.tracing.joint import TraceRequest, trace
from triptych_aot_autograd.tracing.recorder import Recorder
from triptych_aot_autograd.tracing.storages import current_value

from triptych.errors import PrecompileError
from triptych.precompile.lifting import Arguments

aten = torch.ops.aten
COPIES = frozenset({aten.clone.default, aten.detach.default, aten.alias.default})


@dataclasses.dataclass
class Traced:
    """What a program became.

    plan: the run-time plan of its graphs in `partition`. out_spec: structure of its result. results: number of flat
    results; behind them come new values of buffers that the program assigned (`assigned`: positions among the
    buffers), then gradients (`gradients`: positions among the parameters; `cleared`: those whose earlier gradient
    the program dropped before).
    """

    plan: RuntimePlan
    partition: Partition
    out_spec: TreeSpec
    results: int
    assigned: list[int]
    gradients: list[int]
    cleared: list[int]


class _Program:
    """The program as a function of flat inputs, as the tracer calls it."""

    def __init__(self, fn: Callable[..., Any], arguments: Arguments) -> None:
        self.fn, self.arguments = fn, arguments
        self.out_spec: TreeSpec | None = None
        self.results = 0
        self.assigned: list[int] = []
        self.gradients: list[int] = []
        self.markers: dict[int, Node] = {}  # parameter -> node of the zeros that stand for its earlier gradient

    def run(self, inputs: Sequence[Any], recorder: Recorder) -> list[Any]:
        """Runs it on stand-ins. Gives results, assigned buffers, gradients."""
        arguments = self.arguments
        count = len(arguments.state)
        tensors = iter(inputs[count:])
        leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in arguments.leaves]
        parameters = inputs[: len(arguments.parameters.tensors)]
        self._mark(parameters, recorder)
        with arguments.holding(inputs[:count]), compiling_flag():
            outcome = self.fn(*arguments.rebuilt(leaves))
            buffers = self._assigned(inputs[len(parameters) : count])
        flat, self.out_spec = tree_flatten(outcome)
        self._refuse_other_gradients(inputs)
        gradients = self._gradients(parameters, recorder)
        self.results = len(flat)
        if self.gradients:  # the program ran its own backward: what is left of the graph is freed, as in eager
            flat = [v.detach() if isinstance(v, torch.Tensor) and v.requires_grad else v for v in flat]
        return [*flat, *buffers, *gradients]

    def _mark(self, parameters: Sequence[Any], recorder: Recorder) -> None:
        """Zeros as earlier gradients: afterwards, gradients that contain them were added, the others replaced them."""
        for index, parameter in enumerate(parameters):
            if parameter.requires_grad and parameter.is_leaf:
                with torch.no_grad():
                    zeros = torch.zeros_like(parameter)
                parameter.grad = zeros
                self.markers[index] = current_value(zeros, recorder)

    def _gradients(self, parameters: Sequence[Any], recorder: Recorder) -> list[Any]:
        found = []
        for index, parameter in enumerate(parameters):
            marker, grad = self.markers.get(index), parameter.grad
            parameter.grad = None
            if grad is None and marker is not None:
                raise PrecompileError("the program drops gradients of parameters and leaves none in their place")
            if grad is None or current_value(grad, recorder) is marker:
                continue
            self.gradients.append(index)
            found.append(grad.detach())
        return found

    def _refuse_other_gradients(self, inputs: Sequence[Any]) -> None:
        names = [*self.arguments.parameters.names, *self.arguments.buffers.names]
        for index, value in enumerate(inputs):
            if index < len(self.arguments.parameters.tensors) or not isinstance(value, torch.Tensor):
                continue
            if value.is_leaf and value.grad is not None:
                what = f"buffer {names[index]}" if index < len(names) else "an argument"
                raise PrecompileError(f"the program's backward reaches {what}: only parameters receive gradients")

    def _assigned(self, stand_ins: Sequence[Any]) -> list[Any]:
        """Buffers that the program replaced by other tensors."""
        values = []
        for index, (places, stand_in) in enumerate(zip(self.arguments.buffers.slots, stand_ins, strict=True)):
            held, name = places[0]
            value = held.get(name)
            if value is stand_in:
                continue
            if not isinstance(value, torch.Tensor):
                raise PrecompileError(f"the program replaces buffer {self.arguments.buffers.names[index]} by {value!r}")
            self.assigned.append(index)
            values.append(value)
        return values


def trace_program(
    fn: Callable[..., Any], arguments: Arguments, inputs: Sequence[Any], decompositions: dict[Any, Any] | None
) -> Traced:
    """The graphs of `fn`, traced on fakes; nothing is computed.

    inputs: a tensor (real or fake) for each of `arguments.tensors`.
    Raises: PrecompileError for programs that no static graph without baked tensors stands for.
    """
    if any(tensor.is_nested for tensor in arguments.tensors):
        raise PrecompileError("a nested tensor is among the arguments: only strided tensors can be traced")
    program = _Program(fn, arguments)
    descs = [InputDesc("parameter", name, i) for i, name in enumerate(arguments.parameters.names)]
    descs += [InputDesc("buffer", name, len(descs)) for name in arguments.buffers.names]
    descs += [InputDesc("input", f"input_{i}", len(descs)) for i in range(len(inputs) - len(descs))]
    request = TraceRequest(program.run, inputs, descs, decompositions=decompositions or {})
    try:
        joint = trace(request)
    except AotError as error:
        raise PrecompileError(f"the program cannot be traced: {error}") from error
    _refuse_constants(joint)
    cleared = _without_markers(joint, program)
    partition = joint.partition(min_cut_partition)
    if joint.facts.overlapping_mutation:
        raise PrecompileError(f"the program cannot be traced: {joint.facts.overlapping_mutation}")
    assert program.out_spec is not None
    return Traced(
        RuntimePlan.of(joint, partition),
        partition,
        program.out_spec,
        program.results,
        program.assigned,
        program.gradients,
        cleared,
    )


def _refuse_constants(joint: JointGraph) -> None:
    constants = [node for node in joint.graph.nodes if node.op == "get_attr"]
    if constants:
        value = getattr(joint.graph_module, str(constants[0].target), None)
        what = f"{tuple(value.shape)}, {value.dtype}" if isinstance(value, torch.Tensor) else ""
        raise PrecompileError(
            f"the program uses a tensor ({what}) that is neither an argument nor a parameter or buffer of one, so it "
            "would be baked in: pass it as an argument, register it as a buffer, or make it by torch.full and the like"
        )


def _without_markers(joint: JointGraph, program: _Program) -> list[int]:
    """Takes the zeros out of sums, and tells which gradients replaced earlier ones instead of being added."""
    markers = {node: index for index, node in program.markers.items() if index in program.gradients}
    added = set()
    for marker, index in markers.items():
        sums = [n for n in marker.users if n.target is aten.add.Tensor and n.args[0] is marker]
        if not sums and not marker.users:
            continue
        if len(sums) != 1 or len(marker.users) != 1 or not _only_added(sums[0]):
            raise PrecompileError(
                f"the program uses the gradient that parameter {program.arguments.parameters.names[index]} had before: "
                "clear gradients first (zero_grad) or keep what reads them outside"
            )
        added.add(index)
        sums[0].replace_all_uses_with(sums[0].args[1])
        joint.graph.erase_node(sums[0])
        joint.graph.erase_node(marker)
    return [index for index in program.gradients if index not in added]


def _only_added(total: Node) -> bool:
    """Whether a sum is a result as it is, further sums and copies apart."""
    for user in total.users:
        if user.op == "output":
            continue
        more = user.target is aten.add.Tensor and user.args[0] is total and user.args[1] is not total
        if not (more or user.target in COPIES) or not _only_added(user):
            return False
    return True
