"""Submodules that a captured graph calls many times: traced once, forward and backward, and stamped at each call.

`Regions.call` stands where a submodule is called. The first call of its kind (facts of the operands, modes) makes a
`Template`: a joint trace of the submodule alone. Each call then copies the template's forward nodes into the graph that
is being written, and an autograd function copies its backward nodes when the gradient comes by. What comes out is what
tracing each call would give, so everything behind it (partition, fusion) sees no borders.

A submodule that writes to its operands, gives one back, or asks about data is traced in place at each call.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.joint_graph import InputDesc, JointGraph
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor
from triptych_aot_autograd.tracing.joint import TraceRequest, trace
from triptych_aot_autograd.tracing.recorder import SERIAL, Recorder
from triptych_aot_autograd.tracing.storages import match_layout
from triptych_aot_autograd.tracing.symbols import SYMBOLIC

log = logging.getLogger("triptych_aot_autograd.regions")
FEWEST = 2  # calls of a submodule that are worth a template
DIFFERENTIATING = frozenset({torch.autograd.grad, torch.autograd.backward})

Body = Callable[[GraphModule, Sequence[Any], Recorder], Sequence[Any]]


class Regions:
    """The submodules of one graph. body: traces a submodule in place."""

    def __init__(self, gm: GraphModule, recorder: Recorder, body: Body) -> None:
        self.recorder = recorder
        self.body = body
        self.calls = Counter(str(n.target) for n in gm.graph.nodes if n.op == "call_module")
        # gradients of gradients want the history that a stamp does not have
        self.stamps = bool(self.calls) and not any(n.target in DIFFERENTIATING for n in gm.graph.nodes)
        self.templates: dict[Any, Template | None] = {}

    def call(self, node: Node, module: GraphModule, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The submodule's results; `node` is the call."""
        with self.recorder.provenance.inside(node):
            if self.stamps and self.calls[str(node.target)] >= FEWEST and all(map(_is_plain, operands)):
                template = self.template(module, operands, None)
                if template is not None:
                    return _stamped(self, module, template, operands)
            return tuple(self.body(module, operands, self.recorder))

    def template(self, module: GraphModule, operands: Sequence[Any], used: tuple[int, ...] | None) -> Template | None:
        """The template for such operands, of the results `used` (None: all); None where there can be none."""
        key = (id(module), used, _modes(), *map(_kind, operands))
        if key not in self.templates:
            try:
                self.templates[key] = Template.of(self._joint(module, operands, used), used)
            except (RuntimeError, NotImplementedError) as error:  # where it is right, tracing in place raises it again
                log.debug("a region is traced at each call: %s", error)
                self.templates[key] = None
        return self.templates[key]

    def _joint(self, module: GraphModule, operands: Sequence[Any], used: tuple[int, ...] | None) -> JointGraph:
        with compat.without_dispatch_modes(), compat.below_autograd():
            mode = self.recorder.fake_mode()
            fakes = [o._facts.fresh_fake(mode) if isinstance(o, TracedTensor) else o for o in operands]
        inputs = [f.requires_grad_(o.requires_grad) if isinstance(f, torch.Tensor) else f
                  for f, o in zip(fakes, operands, strict=True)]  # fmt: skip

        def run(given: list[Any], inner: Recorder) -> Sequence[Any]:
            results = self.body(module, given, inner)
            return results if used is None else [results[k] for k in used]

        descs = [InputDesc("input", f"arg{k}", k) for k in range(len(inputs))]
        decompositions = self.recorder.decompositions
        return trace(TraceRequest(run, inputs, descs, fake_mode=mode, decompositions=decompositions))


def _is_plain(operand: Any) -> bool:
    if isinstance(operand, torch.Tensor):
        return type(operand) is TracedTensor and not (operand.is_conj() or operand.is_neg())
    return isinstance(operand, (int, float, bool, torch.SymInt))


def _kind(operand: Any) -> Any:
    """What two operands share when a template for one fits the other."""
    if isinstance(operand, TracedTensor):
        return operand._facts, operand.requires_grad
    return type(operand), operand.node.expr if isinstance(operand, SYMBOLIC) else operand


def _modes() -> tuple[Any, ...]:
    autocast = [(torch.is_autocast_enabled(t), torch.get_autocast_dtype(t)) for t in ("cpu", "cuda")]
    return torch.is_grad_enabled(), *autocast


class Template:
    """The nodes of one joint trace, to be copied. used: which results of the region it has, None for all."""

    def __init__(self, joint: JointGraph) -> None:
        self.module = joint.graph_module
        self.primals, self.tangents = joint.primals, joint.tangents
        nodes = [n for n in joint.graph.nodes if n.op not in ("placeholder", "output")]
        self.forward = [n for n in nodes if n.meta.get("phase", "forward") == "forward"]
        self.backward = [n for n in nodes if n.meta.get("phase", "forward") != "forward"]
        results = joint.of_kind("output")
        self.results = [node for node, _ in results]
        self.differentiable = [k for k, (_, desc) in enumerate(results) if desc.differentiable]
        self.gradients = {desc.index: node for node, desc in joint.of_kind("gradient")}

    @staticmethod
    def of(joint: JointGraph, used: tuple[int, ...] | None) -> Template | None:
        """A template, where the region gives new tensors and changes none."""
        plain = all(f.kind == "value" for f in joint.facts.outputs) and not any(f.changed for f in joint.facts.inputs)
        if not plain or any(d.kind not in ("output", "gradient") for d in joint.outputs):
            return None
        template = Template(joint)
        asks = any(isinstance(n.meta.get("val"), SYMBOLIC) and not n.meta["val"].node.has_hint()
                   for n in joint.graph.nodes)  # fmt: skip
        return None if asks or not all(isinstance(n, Node) for n in template.results) else template


class _Stamp:
    """One call: which node of the graph stands for which of the template."""

    def __init__(self, recorder: Recorder, operands: Sequence[Any]) -> None:
        self.recorder = recorder
        self.operands = [recorder._argument(operand, []) for operand in operands]
        self.inherited = dict(recorder.provenance.inherited)
        self.serials: dict[Any, Any] = {}  # of forward nodes

    def copies(self, template: Template) -> dict[Node, Any]:
        """The placeholders' nodes."""
        return dict(zip(template.primals, self.operands, strict=True))

    def write(self, template: Template, nodes: Sequence[Node], copies: dict[Node, Any], phase: str) -> None:
        """Copy nodes into the graph."""
        for node in nodes:
            if "facts" not in node.meta and isinstance(node.meta.get("val"), SYMBOLIC):
                copies[node] = self.recorder.symbols.node_of(node.meta["val"])
            elif node.op == "get_attr":
                copies[node] = self._attribute(template, node)
            else:
                copies[node] = self._copy(node, copies, phase)
            if phase == "forward":
                self.serials[_serial(node)] = copies[node]

    def _copy(self, node: Node, copies: dict[Node, Any], phase: str) -> Node:
        args, kwargs = map_arg((node.args, node.kwargs), copies.__getitem__)
        made = self.recorder.graph.create_node(node.op, node.target, args, kwargs, node.name.rstrip("_0123456789"))
        made.meta.update({key: value for key, value in node.meta.items() if key != "val"})
        self.recorder.ops += 1
        made.meta.update(self.inherited, phase=phase, **{SERIAL: self.recorder.ops})
        if "facts" in node.meta:
            made.meta["facts"] = self.facts(node.meta["facts"])
        return made

    def _attribute(self, template: Template, node: Node) -> Any:
        value = getattr(template.module, str(node.target))
        recorder = self.recorder
        if isinstance(value, torch.Tensor):
            return recorder.as_traced(value)._value
        name = f"region_{len(recorder.constants)}_{node.target}"
        recorder.constants[name] = value
        made = recorder.graph.create_node("get_attr", name, (), {})
        made.meta.update(node.meta)
        return made

    def facts(self, template: Any) -> Any:
        """Facts of the trace of a template as facts of this one."""
        if type(template) is Facts:
            table = self.recorder.facts
            return table.get(template.size, template.stride, template.offset, template.dtype, template.device)
        if isinstance(template, (list, tuple)):
            return type(template)(map(self.facts, template))
        return template

    def tensor(self, node: Node) -> TracedTensor:
        """A traced tensor for a node that was written."""
        return self.recorder.handle(node.meta["facts"], node)


def _serial(node: Node) -> Any:
    return node.meta.get(SERIAL), node.args[1] if node.target is compat.getitem else None, node.op


def _stamped(regions: Regions, module: GraphModule, template: Template, operands: Sequence[Any]) -> tuple[Any, ...]:
    if template.gradients:
        return tuple(_Call.apply(regions, module, template, *operands))  # type: ignore[no-untyped-call]
    return _forward(_Stamp(regions.recorder, operands), template)


def _forward(stamp: _Stamp, template: Template) -> tuple[TracedTensor, ...]:
    copies = stamp.copies(template)
    stamp.write(template, template.forward, copies, "forward")
    return tuple(stamp.tensor(copies[node]) for node in template.results)


class _Call(torch.autograd.Function):
    """A call whose operands want gradients."""

    @staticmethod
    def forward(ctx: Any, regions: Regions, module: GraphModule, template: Template, *operands: Any) -> Any:
        stamp = _Stamp(regions.recorder, operands)
        results = _forward(stamp, template)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[r for k, r in enumerate(results) if k not in template.differentiable])
        ctx.call = regions, module, template, operands, stamp, _modes()
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        regions, module, template, operands, stamp, modes = ctx.call
        used = tuple(k for k in template.differentiable if grads[k] is not None)
        if used != tuple(template.differentiable):
            template = _of_part(regions, module, operands, used)
        found = _backward(stamp, template, [grads[k] for k in used]) if used else {}
        return (None, None, None, *[found.get(k) for k in range(len(operands))])


def _of_part(regions: Regions, module: GraphModule, operands: Sequence[Any], used: tuple[int, ...]) -> Any:
    """The template of those results alone whose gradient comes by: what the others would add is not zero times it."""
    if not used:
        return None
    phase, regions.recorder.provenance.phase = regions.recorder.provenance.phase, "forward"
    try:
        with torch.enable_grad():
            found = regions.template(module, operands, used)
    finally:
        regions.recorder.provenance.phase = phase
    if found is None:
        raise UnsupportedOperationError("a region cannot be differentiated by a part of its results")
    return found


def _backward(stamp: _Stamp, template: Template, grads: Sequence[TracedTensor]) -> dict[int, TracedTensor]:
    """Gradients by position of the operand."""
    copies = stamp.copies(template)
    missing = [n for n in template.forward if _serial(n) not in stamp.serials]
    copies.update({n: stamp.serials[_serial(n)] for n in template.forward if _serial(n) in stamp.serials})
    if any(compat.draws(n) for n in missing):
        raise UnsupportedOperationError("a region draws random numbers that only its gradient needs")
    stamp.write(template, missing, copies, "backward")
    for tangent, grad in zip(template.tangents, grads, strict=True):
        fitting = match_layout(stamp.recorder.as_traced(grad), stamp.facts(tangent.meta["facts"]), stamp.recorder)
        copies[tangent] = stamp.recorder._argument(fitting, [])
    stamp.write(template, template.backward, copies, "backward")
    return {k: stamp.tensor(copies[node]) for k, node in template.gradients.items() if node is not None}
