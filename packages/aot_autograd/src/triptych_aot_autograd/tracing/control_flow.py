"""Higher-order operators of torch: `cond`, `while_loop`, `scan`, `map_impl`.

`cond` and `while_loop` are recorded as torch's own operators over functional ATen subgraphs. The gradient of `cond` is
another `cond`, whose branches compute a branch again and differentiate it. `scan` and `map_impl` go over a dimension of
known size: their bodies are run once for each row, so that what is around them sees ordinary ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import UnsupportedOperationError
from triptych_aot_autograd.joint_graph import InputDesc
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor
from triptych_aot_autograd.tracing.interpret import run_graph
from triptych_aot_autograd.tracing.joint import TraceRequest, trace
from triptych_aot_autograd.tracing.recorder import Recorder
from triptych_aot_autograd.tracing.regions import Regions
from triptych_aot_autograd.tracing.symbols import SYMBOLIC

MOST_ROWS = 4096  # of a scan or map, each of which is traced

Run = Callable[[list[Any], Recorder], Sequence[Any]]


def runner(recorder: Recorder) -> Callable[..., Any]:
    """What `run_graph` calls for a higher-order operator."""

    def run(operator: Any, args: Any) -> Any:
        rule = _RULES.get(operator.name())
        if rule is None:
            raise UnsupportedOperationError(f"{operator.name()}: this higher-order operator cannot be traced")
        return rule(recorder, operator, *args)

    return run


def _body(gm: GraphModule) -> Run:
    """A torch-level subgraph as a function of flat inputs."""

    def run(inputs: list[Any], recorder: Recorder) -> Sequence[Any]:
        return run_body(gm, inputs, recorder)

    return run


def run_body(gm: GraphModule, inputs: Sequence[Any], recorder: Recorder) -> Sequence[Any]:
    """The results of a torch-level graph without state, traced in place."""
    regions = Regions(gm, recorder, run_body)
    found = run_graph(gm, inputs, recorder.provenance, {}, runner(recorder), regions.call)
    return list(found) if isinstance(found, (tuple, list)) else [found]


# -- subgraphs ---------------------------------------------------------------------------------------------------------
def _examples(recorder: Recorder, operands: Sequence[Any]) -> tuple[compat.FakeTensorMode, list[Any]]:
    """Fake tensors like the operands, for a trace of a body."""
    with compat.without_dispatch_modes(), compat.below_autograd():
        mode = recorder.fake_mode()
        return mode, [o._facts.fresh_fake(mode) if isinstance(o, TracedTensor) else o for o in operands]


def subgraph(recorder: Recorder, run: Run, operands: Sequence[Any], what: str, *, single: bool = False) -> Node:
    """A functional ATen graph of `run`, as an attribute of the graph being written."""
    mode, inputs = _examples(recorder, operands)
    descs = [InputDesc("input", f"arg{i}", i) for i in range(len(inputs))]
    joint = trace(TraceRequest(run, inputs, descs, fake_mode=mode, grad=False, decompositions=recorder.decompositions))
    if any(f.changed for f in joint.facts.inputs) or any(f.kind != "value" for f in joint.facts.outputs):
        raise UnsupportedOperationError(f"{what}: the body of a higher-order operator writes to or returns its inputs")
    if single:
        output = next(iter(joint.graph.find_nodes(op="output")))
        output.args = (output.args[0][0],)  # type: ignore[index]
        joint.graph_module.recompile()
    name = f"{what}_graph{len(recorder.constants)}"
    recorder.constants[name] = joint.graph_module  # type: ignore[assignment]
    node = recorder.graph.create_node("get_attr", name, (), {})
    node.meta["phase"] = recorder.provenance.phase
    return node


def record(recorder: Recorder, operator: Any, args: tuple[Any, ...], results: Sequence[Facts]) -> list[Any]:
    """The operator's node, for results of these facts."""
    node_args = tuple(_node_argument(recorder, arg) for arg in args)
    node = recorder.graph.create_node("call_function", operator, node_args, {}, operator.name())
    node.meta.update(recorder.provenance.origin())
    template = tuple(results)
    node.meta.update(phase=recorder.provenance.phase, facts=template)
    return list(recorder.wrap(template, node))


def _node_argument(recorder: Recorder, arg: Any) -> Any:
    if isinstance(arg, Node):
        return arg
    if isinstance(arg, tuple):
        return tuple(_node_argument(recorder, a) for a in arg)
    return recorder._argument(arg, [])


def _facts_of_results(recorder: Recorder, run: Run, operands: Sequence[Any]) -> list[Facts]:
    """What a body gives, found by a trace of its own."""
    mode, inputs = _examples(recorder, operands)
    found: list[Facts] = []

    def keep(values: list[Any], inner: Recorder) -> Sequence[Any]:
        outputs = list(run(values, inner))
        found.extend(recorder.facts.of(o) for o in outputs)
        return outputs

    descs = [InputDesc("input", f"arg{i}", i) for i in range(len(inputs))]
    trace(TraceRequest(keep, inputs, descs, fake_mode=mode, grad=False, decompositions=recorder.decompositions))
    return found


# -- cond --------------------------------------------------------------------------------------------------------------
def _cond(recorder: Recorder, operator: Any, predicate: Any, yes: GraphModule, no: GraphModule, operands: Any) -> Any:
    operands = tuple(operands)
    branches = (_body(yes), _body(no))
    if torch.is_grad_enabled() and any(isinstance(o, TracedTensor) and o.requires_grad for o in operands):
        return list(_DifferentiableCond.apply(recorder, operator, branches, predicate, *operands))  # type: ignore[no-untyped-call]
    return _record_cond(recorder, operator, predicate, branches, operands)


def _record_cond(
    recorder: Recorder, operator: Any, predicate: Any, branches: Sequence[Run], operands: Sequence[Any]
) -> list[Any]:
    with torch.no_grad():
        results = _facts_of_results(recorder, branches[0], operands)
        modules = [
            subgraph(recorder, run, operands, what) for run, what in zip(branches, ("true", "false"), strict=True)
        ]
        return record(recorder, operator, (predicate, *modules, tuple(operands)), results)


class _DifferentiableCond(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, operator: Any, branches: Any, predicate: Any, *operands: Any) -> Any:
        results = _record_cond(recorder, operator, predicate, branches, operands)
        wanted = [i for i, o in enumerate(operands) if isinstance(o, TracedTensor) and o.requires_grad]
        ctx.mark_non_differentiable(*[r for r in results if not r.dtype.is_floating_point and not r.dtype.is_complex])
        ctx.facts = recorder, operator, branches, wanted, len(operands)
        ctx.numbers = [None if isinstance(o, torch.Tensor) else o for o in operands]
        ctx.save_for_backward(predicate, *[o for o in operands if isinstance(o, torch.Tensor)])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        recorder, operator, branches, wanted, count = ctx.facts
        predicate, *tensors = ctx.saved_tensors
        rest = iter(tensors)
        operands = [next(rest) if number is None else number for number in ctx.numbers]
        tangents = [g for g in grads if g is not None]
        places = [i for i, g in enumerate(grads) if g is not None]
        pulls = [_pull(run, wanted, count, places) for run in branches]
        found = _record_cond(recorder, operator, predicate, pulls, [*operands, *tangents])
        by_place = dict(zip(wanted, found, strict=True))
        return (None, None, None, None, *[by_place.get(i) for i in range(count)])


def _pull(run: Run, wanted: list[int], count: int, places: list[int]) -> Run:
    """The gradient of a branch: of operands and tangents, the gradients of the wanted operands."""

    def pulled(inputs: list[Any], recorder: Recorder) -> Sequence[Any]:
        operands, tangents = list(inputs[:count]), inputs[count:]
        with torch.enable_grad():
            for i in wanted:
                operands[i] = operands[i].detach().requires_grad_()
            outputs = run(operands, recorder)
            pairs = [(outputs[p], t) for p, t in zip(places, tangents, strict=True) if outputs[p].requires_grad]
            sources = [operands[i] for i in wanted]
            found: Sequence[Any] = [None] * len(sources)
            if pairs:
                heads, seeds = zip(*pairs, strict=True)
                found = torch.autograd.grad(heads, sources, seeds, allow_unused=True)
        with torch.no_grad():
            return [
                torch.zeros_like(s) if g is None else g.clone(memory_format=torch.contiguous_format)
                for g, s in zip(found, sources, strict=True)
            ]

    return pulled


# -- loops -------------------------------------------------------------------------------------------------------------
def _while_loop(
    recorder: Recorder, operator: Any, condition: GraphModule, body: GraphModule, carried: Any, extra: Any
) -> Any:
    operands = [*carried, *extra]
    if torch.is_grad_enabled() and any(isinstance(o, TracedTensor) and o.requires_grad for o in operands):
        raise UnsupportedOperationError("while_loop has no gradient")
    with torch.no_grad():
        results = _facts_of_results(recorder, _body(body), operands)
        modules = (
            subgraph(recorder, _body(condition), operands, "cond", single=True),
            subgraph(recorder, _body(body), operands, "body"),
        )
        return record(recorder, operator, (*modules, tuple(carried), tuple(extra)), results)


def _rows(operator: Any, sliced: Sequence[torch.Tensor]) -> int:
    rows = sliced[0].shape[0]
    if not isinstance(rows, int) or rows > MOST_ROWS:
        raise UnsupportedOperationError(f"{operator.name()} over {rows} rows")
    return rows


def _scan(recorder: Recorder, operator: Any, combine: GraphModule, init: Any, xs: Any, extra: Any = ()) -> Any:
    run, carried, stacks = _body(combine), list(init), []
    for row in range(_rows(operator, xs)):
        outputs = run([*carried, *[x[row] for x in xs], *extra], recorder)
        carried = list(outputs[: len(carried)])
        stacks.append(outputs[len(carried) :])
    return [*carried, *[torch.stack(list(rows)) for rows in zip(*stacks, strict=True)]]


def _map(recorder: Recorder, operator: Any, body: GraphModule, xs: Any, extra: Any = ()) -> Any:
    run = _body(body)
    stacks = [run([*[x[row] for x in xs], *extra], recorder) for row in range(_rows(operator, xs))]
    return [torch.stack(list(rows)) for rows in zip(*stacks, strict=True)]


def _invoke_subgraph(recorder: Recorder, operator: Any, module: GraphModule, name: Any, *operands: Any) -> Any:
    """How torch's own front end writes the call of a region. Numbers that a run finds out differ from call to call."""
    values = [n.meta.get("val", n.meta.get("example_value")) for n in module.graph.nodes if n.op != "placeholder"]
    if any(isinstance(v, SYMBOLIC) and not v.node.has_hint() for v in values):
        raise UnsupportedOperationError(f"{operator.name()}: a region that asks for numbers in tensors")
    return tuple(run_body(module, operands, recorder))


_RULES: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "invoke_subgraph": _invoke_subgraph,
}
