"""The joint trace: one run of the function, and of autograd's backward over it, recorded into one functional graph.

In: a function of flat inputs (or a graph module), example inputs (real or fake tensors, symbolic integers). Out: a
`JointGraph`.
The facts about mutation and aliasing come from the same run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import AotError, DataDependentError, UnsupportedOperationError
from triptych_aot_autograd.facts import FunctionFacts
from triptych_aot_autograd.graph_module import LazyGraphModule
from triptych_aot_autograd.joint_graph import InputDesc, JointGraph, OutputDesc
from triptych_aot_autograd.passes import clean
from triptych_aot_autograd.passes.values import attach_values
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor, new_traced
from triptych_aot_autograd.tracing.functions import FunctionRules
from triptych_aot_autograd.tracing.outputs import GraphOutput, OutputClassifier
from triptych_aot_autograd.tracing.overlap import overlapping_inputs
from triptych_aot_autograd.tracing.provenance import line_of_error
from triptych_aot_autograd.tracing.recorder import Recorder
from triptych_aot_autograd.tracing.storages import adopt
from triptych_aot_autograd.tracing.symbols import SYMBOLIC

# What autograd itself says to a backward that is wrong: a value that was written over, a function's wrong gradients.
_ERRORS_OF_PROGRAMS = ("modified by an inplace operation", "returned an incorrect number", "returned an invalid")


@dataclass
class TraceRequest:
    """What is to be traced. `run(inputs, recorder)` gives the flat outputs for flat traced inputs."""

    run: Callable[[list[Any], Recorder], Sequence[Any]]
    inputs: Sequence[Any]  # tensors (real or fake), symbolic integers, Python constants
    descs: Sequence[InputDesc]
    output_names: Callable[[int], str] = lambda i: f"output_{i}"
    decompositions: dict[Any, Any] = field(default_factory=dict)
    fake_mode: compat.FakeTensorMode | None = None
    grad: bool | None = None  # None: as the inputs and the grad mode say
    enables_grad: bool = False  # the function turns gradients on in places, where they are off around it


def trace(request: TraceRequest) -> JointGraph:
    """Trace forward and backward. Raises what the function raises, and `AotError` for what has no functional form."""
    tracer = _JointTracer(request)
    with tracer.ambient():
        return tracer.trace()


class _JointTracer:
    def __init__(self, request: TraceRequest) -> None:
        self.request = request
        self._mode = request.fake_mode or compat.fake_mode_of(request.inputs)
        self.recorder = Recorder(self.fake_mode, request.decompositions)
        self.leaves: list[TracedTensor | None] = []  # what gradients are taken with respect to
        self._names: set[str] = set()  # of placeholders
        self.lazy_bits: set[int] = set()  # inputs that are lazily conjugated or negated
        self.origins: list[Any] = []  # grad_fn of each input before the function ran, "leaf", or None

    def fake_mode(self) -> compat.FakeTensorMode:
        """The inputs' fake mode, or a new one."""
        if self._mode is None:
            self._mode = compat.new_fake_mode(compat.shape_env_of(self.request.inputs))
        return self._mode

    @contextlib.contextmanager
    def ambient(self) -> Iterator[None]:
        """No multithreaded engine, no saved-tensor hooks and no dispatch modes of the caller while tracing."""
        with (
            torch.autograd.set_multithreading_enabled(False),
            compat.suspend_saved_tensor_hooks(),
            compat.without_dispatch_modes(),
        ):
            yield

    def trace(self) -> JointGraph:
        """Run both phases and assemble the graph."""
        request = self.request
        ambient, wants_grad = torch.is_grad_enabled() and request.grad is not False, request.grad
        # Without gradients to give, the function may still take gradients of its own.
        differentiates = ambient or (request.enables_grad and request.grad is not False)
        if wants_grad is None:
            wants_grad = differentiates and any(isinstance(v, torch.Tensor) and v.requires_grad for v in request.inputs)
        with torch.set_grad_enabled(differentiates):
            inputs = [self._input(v, d, wants_grad) for v, d in zip(request.inputs, request.descs, strict=True)]
        overlap = overlapping_inputs(request.inputs)
        if differentiates:
            for op in compat.FORWARD_ONLY_DECOMPOSITIONS & self.recorder.decompositions.keys():
                del self.recorder.decompositions[op]
        with torch.set_grad_enabled(ambient), self.recorder, FunctionRules():
            outputs = self._run(inputs)
            # The history of a view written in place is made by ops when it is asked for: now, while they are recorded.
            # (A view made without gradients whose base was then written to with them refuses.)
            for output in outputs:
                with contextlib.suppress(RuntimeError):
                    getattr(output, "grad_fn", None)
        with torch.no_grad(), compat.below_autograd():
            classifier = OutputClassifier(self.recorder, inputs, self.origins)
            facts = FunctionFacts(classifier.input_facts([d.name for d in request.descs]))
            facts.outputs = classifier.output_facts(outputs)
            graph_outputs = classifier.finish()
        written = [i for i, f in enumerate(facts.inputs) if f.changed]
        facts.overlapping_mutation = overlap.harmful(written)
        differentiable = [o for o in graph_outputs if o.differentiable] if wants_grad else []
        facts.enables_grad = bool(differentiable) and not ambient
        return self._assemble(facts, graph_outputs, classifier.epilogue, differentiable)

    def _run(self, inputs: list[Any]) -> list[Any]:
        """The forward; questions about numbers that a trace does not have become `DataDependentError`."""
        try:
            outputs = list(self.request.run(list(inputs), self.recorder))
        except compat.GuardOnDataDependentSymNode as error:
            raise DataDependentError(str(error).splitlines()[0], line_of_error(error)) from error
        except RuntimeError as error:
            if "data is not allocated" not in str(error):
                raise
            reason = "an op reads the memory of a tensor to decide what to do"
            raise DataDependentError(reason, line_of_error(error)) from error
        if any(leaf is not None and leaf.grad is not None for leaf in self.leaves):
            raise UnsupportedOperationError("backward() inside the function leaves gradients on its inputs")
        return outputs

    # -- inputs --------------------------------------------------------------------------------------------------------
    def _input(self, value: Any, desc: InputDesc, wants_grad: bool) -> Any:
        recorder = self.recorder
        node = recorder.graph.placeholder(self._unique(desc.name))
        node.meta["phase"] = "forward"
        if not isinstance(value, torch.Tensor):
            return self._scalar_input(value, node)
        compat.check_supported(value, desc.name, UnsupportedOperationError)
        facts = recorder.facts.of(value)
        node.meta["facts"] = facts
        if value.is_conj() or value.is_neg():
            self.lazy_bits.add(len(self.leaves))
        traced = adopt(new_traced(facts), facts, node, len(self.leaves))
        for dim, size in enumerate(facts.size):
            recorder.symbols.bind_size(size, node, dim)
        self._bind_strides(facts, node)
        if not (wants_grad and value.requires_grad):
            if value.requires_grad:
                traced.requires_grad_(True)
            self.leaves.append(None)
            self.origins.append("leaf" if value.requires_grad else None)
            return traced
        return self._differentiable_input(value, traced, facts, node)

    def _unique(self, name: str) -> str:
        count, unique = 1, name
        while unique in self._names:
            unique, count = f"{name}_{count}", count + 1
        self._names.add(unique)
        return unique

    def _differentiable_input(
        self, value: torch.Tensor, traced: TracedTensor, facts: Facts, node: Node
    ) -> TracedTensor:
        traced.requires_grad_(True)
        self.leaves.append(traced)
        if value.is_leaf:
            self.origins.append("leaf")
            return traced
        # The program sees a tensor with a history, so that it may change it in place as it could change the real one.
        stand_in = compat.identity_with_history(traced, lambda: new_traced(facts))
        adopt(stand_in, facts, node, len(self.leaves) - 1)
        self.origins.append(stand_in.grad_fn)
        return stand_in

    def _scalar_input(self, value: Any, node: Node) -> Any:
        node.meta["facts"] = node.meta["val"] = value
        if isinstance(value, SYMBOLIC):
            self.recorder.symbols.bind(value.node.expr, node)
        self.leaves.append(None)
        self.origins.append(None)
        return value

    def _bind_strides(self, facts: Facts, node: Node) -> None:
        for dim, stride in enumerate(facts.stride if facts.symbolic else ()):
            self.recorder.symbols.bind_stride(stride, node, dim)

    # -- backward ------------------------------------------------------------------------------------------------------
    def _backward(self, differentiable: list[GraphOutput], tangents: list[TracedTensor]) -> list[Any]:
        """Gradients of all leaves (None where an input needs or gets none)."""
        recorder = self.recorder
        recorder.provenance.phase = "backward"
        wanted = [leaf for leaf in self.leaves if leaf is not None]
        outputs = [o.tensor for o in differentiable]
        with recorder, compat.no_autocast():
            grads = self._gradients(outputs, wanted, tangents)
            found = iter(grads)
            nodes = []
            for leaf in self.leaves:
                grad = next(found) if leaf is not None else None
                nodes.append(None if grad is None else recorder._argument(grad, []))
        return nodes

    def _gradients(self, outputs: list[Any], wanted: list[TracedTensor], tangents: list[TracedTensor]) -> Sequence[Any]:
        try:
            return torch.autograd.grad(outputs, wanted, tangents, allow_unused=True)
        except (AotError, compat.GuardOnDataDependentSymNode):
            raise
        except Exception as error:
            line = line_of_error(error)
            if not line and not any(text in str(error) for text in _ERRORS_OF_PROGRAMS):
                raise
            # Eager fails only if and when a backward is asked for: that is left to eager.
            raise UnsupportedOperationError(f"the backward of this region fails in eager too: {error}", line) from error

    def _tangent(self, output: GraphOutput, number: int, before: Node) -> TracedTensor:
        assert output.tensor is not None
        facts = self.recorder.facts
        like = facts.of(output.tensor)
        stride = like.stride
        if like.symbolic or not compat.is_dense(like.size, like.stride):
            stride = compat.ordered_strides(like.size, compat.layout_order(like.size, like.stride))
        own = facts.get(like.size, stride, 0, like.dtype, like.device)
        with self.recorder.graph.inserting_before(before):
            node = self.recorder.graph.placeholder(self._unique(f"tangents_{number}"))
        node.meta.update(phase="backward", facts=own, tangent=True)
        return adopt(new_traced(own), own, node)

    # -- assembly ------------------------------------------------------------------------------------------------------
    def _assemble(
        self, facts: FunctionFacts, outs: list[GraphOutput], epilogue: list, diff: list[GraphOutput]
    ) -> JointGraph:
        recorder, request = self.recorder, self.request
        first = next((n for n in recorder.graph.nodes if n.op != "placeholder"), None)
        tangents = [self._tangent(o, i + 1, first) for i, o in enumerate(diff)] if first is not None or diff else []
        grads = self._backward(diff, tangents) if diff else []
        output_nodes = [o.node for o in outs] + [node for _, node in epilogue]
        grad_inputs = [i for i, leaf in enumerate(self.leaves) if leaf is not None] if diff else []
        recorder.graph.output((*output_nodes, *[grads[i] for i in grad_inputs]))
        descs = list(request.descs) + [InputDesc("tangent", self._output_name(o), i) for i, o in enumerate(diff)]
        out_descs = [OutputDesc(o.kind, self._output_name(o), o.index, o in diff) for o in outs]
        out_descs += [OutputDesc("epilogue", request.descs[i].target, i, False) for i, _ in epilogue]
        out_descs += [OutputDesc("gradient", request.descs[i].target, i, False) for i in grad_inputs]
        clean.run(recorder.graph, [o.node for o in outs])
        attach_values(recorder.graph, self.fake_mode())
        module = LazyGraphModule({name: t for name, t in recorder.constants.items()}, recorder.graph, "JointGraph")
        for index in self.lazy_bits:
            facts.inputs[index].lazy_bits = True
        facts.random = any(compat.draws(n) for n in recorder.graph.nodes)
        return JointGraph(module, descs, out_descs, facts, recorder.ops)

    def _output_name(self, output: GraphOutput) -> str:
        if output.kind == "mutation":
            return self.request.descs[output.index].target
        if output.kind == "symbol":
            return f"symbol_{output.index}"
        return self.request.output_names(output.index)
