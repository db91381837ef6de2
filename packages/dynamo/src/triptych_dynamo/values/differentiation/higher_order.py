"""Higher-order operators of torch: `cond`, `while_loop`, `scan`, `map`, `associative_scan`.

Their front ends (`torch.cond` and its like) are inlined and flatten what they are given; here are the operators below.
Each body becomes a subgraph of its own. The node is torch's own operator, with subgraphs as attributes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from triptych_dynamo.polyfills import scans
from triptych_dynamo.sources import Source
from triptych_dynamo.trace.subgraphs import Body, attach, build, trace_body
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import BuiltinFunctionValue
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.registry import wraps_if
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

Handler = Callable[..., Value]
OPERATORS: dict[str, Handler] = {}


def higher_order(name: str) -> Callable[[Handler], Handler]:
    """Register what the operator `torch.ops.higher_order.<name>` does."""

    def register(handler: Handler) -> Handler:
        OPERATORS[name] = handler
        return handler

    return register


@wraps_if(lambda obj: isinstance(obj, HigherOrderOperator), order=11)
def wrap_operator(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A higher-order operator of torch."""
    tx.guard("is", source, obj)
    return HigherOrderValue(obj, source)


class HigherOrderValue(BuiltinFunctionValue):
    """The operator as a callable."""

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        handler = OPERATORS.get(self.obj.name())
        if handler is None:
            return tx.unsupported("higher-order", f"torch.ops.higher_order.{self.obj.name()}")
        return handler(tx, self.obj, *args, **kwargs)


# -- bodies ------------------------------------------------------------------------------------------------------------
def leaves_of(value: Value) -> list[Value]:
    """The leaves of a nest of sequences and dictionaries."""
    if isinstance(value, SequenceValue):
        return [leaf for item in value.items for leaf in leaves_of(item)]
    if isinstance(value, DictValue):
        return [leaf for entry in value.entries.values() for leaf in leaves_of(entry.value)]
    return [value]


def tensors_of(tx: Frame) -> Callable[[Value], list[fx.Node]]:
    """Finds the nodes of a body's result: tensors (and numbers that the run knows)."""

    def nodes(value: Value) -> list[fx.Node]:
        found = []
        for leaf in leaves_of(value):
            if isinstance(leaf, (TensorValue, SymbolicValue)):
                found.append(leaf.node)
            elif not leaf.is_constant():
                tx.unsupported("higher-order", f"a body of a higher-order operator returns {leaf!r}")
        return found

    return nodes


def run_body(tx: Frame, function: Value, args: list[Value]) -> Body:
    """Trace a body on these arguments."""
    body = trace_body(tx, lambda: tx.call(function, args), tensors_of(tx))
    floats = {node: node.meta["val"] for node in body.free if isinstance(node.meta["val"], (torch.SymFloat, float))}
    if floats:  # torch's operators take none: they are numbers of this run, guarded
        known = {node: tx.trace.shapes.specialize(tx, sym) for node, sym in floats.items()}
        for node in body.nodes:
            node.args = fx.node.map_arg(node.args, lambda used: known.get(used, used))
            node.kwargs = fx.node.map_arg(node.kwargs, lambda used: known.get(used, used))
        body.free = [node for node in body.free if node not in known]
        if any(node in known for node in body.outputs):
            tx.unsupported("higher-order", "a body of a higher-order operator returns a number")
    return body


def parameter(tx: Frame, like: torch.Tensor, name: str) -> TensorValue:
    """A tensor that a body is called with at each step: a node that only stands for it while the body is traced."""
    with tx.trace.shapes.fake_mode:
        fake = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)
        fake.requires_grad_(like.requires_grad)
    node = tx.trace.graph.graph.create_node("call_function", parameter, (), name=name)
    node.meta.update(val=fake, stack_trace="", effect=True)
    value = TensorValue(node, fake)
    tx.trace.graph.by_fake[id(fake)] = (fake, value)
    return value


def union(*groups: list[fx.Node]) -> list[fx.Node]:
    """All nodes of the groups, each once."""
    return list(dict.fromkeys(node for group in groups for node in group))


def record(tx: Frame, operator: Any, args: tuple[Any, ...], fakes: list[Any]) -> list[Value]:
    """The operator's node, and a value for each of its results."""
    graph = tx.trace.graph
    node = graph.graph.call_function(operator, args)
    node.meta.update(val=tuple(fakes), stack_trace=graph.stack_trace())
    graph.calls += 1
    graph.grad_enabled |= torch.is_grad_enabled()
    values: list[Value] = []
    for index, fake in enumerate(fakes):
        item = graph.item_of(node, index, fake)
        if isinstance(fake, torch.Tensor):
            values.append(TensorValue(item, fake))
            graph.by_fake[id(fake)] = (fake, values[-1])
        else:
            values.append(SymbolicValue.of(item, fake))
    return values


def rebuilt(tx: Frame, shape: Value, values: list[Value]) -> Value:
    """A nest like `shape` with these values in place of its tensors."""
    rest = iter(values)

    def make(value: Value) -> Value:
        if isinstance(value, SequenceValue):
            return tx.trace.make_sequence(value.python_type(), [make(item) for item in value.items])
        if isinstance(value, DictValue):
            return tx.trace.make_dict([(entry.key, make(entry.value)) for entry in value.entries.values()])
        return value if isinstance(value, ConstantValue) else next(rest)

    return make(shape)


def own_fakes(tx: Frame, body: Body, parameters: list[fx.Node]) -> list[Any]:
    """The fakes of a body's results; one that is a parameter's own is a new one."""
    taken = {id(node.meta["val"]) for node in parameters}
    fakes = []
    for node in body.outputs:
        fake = node.meta["val"]
        if id(fake) in taken:
            with tx.trace.shapes.fake_mode:
                fake = fake.clone()
        taken.add(id(fake))
        fakes.append(fake)
    return fakes


def fresh_like(tx: Frame, fakes: list[torch.Tensor], rows: Any = None) -> list[torch.Tensor]:
    """New fakes with the facts of `fakes`, stacked `rows` times where that is given."""
    made = []
    with tx.trace.shapes.fake_mode:
        for fake in fakes:
            size = (rows, *fake.shape) if rows is not None else tuple(fake.shape)
            new = torch.empty(size, dtype=fake.dtype, device=fake.device)
            made.append(new)
    return made


def facts_of(fake: Any) -> Any:
    """What two bodies have to agree on."""
    if not isinstance(fake, torch.Tensor):
        return type(fake)
    return tuple(fake.shape), fake.dtype, fake.device


# -- operators ---------------------------------------------------------------------------------------------------------
@higher_order("cond")
def _cond(tx: Frame, operator: Any, predicate: Value, yes: Value, no: Value, operands: Value) -> Value:
    """A predicate that is known chooses now; both branches of any other become subgraphs."""
    args = iterators.items_of(tx, operands)
    if not isinstance(predicate, TensorValue):
        return tx.call(yes if predicate.truth(tx) else no, args)
    bodies = [run_body(tx, branch, args) for branch in (yes, no)]
    first, second = ([facts_of(node.meta["val"]) for node in body.outputs] for body in bodies)
    if first != second:
        tx.unsupported("higher-order", f"the branches of cond give different results: {first} and {second}")
    parameters = union(*(body.free for body in bodies))
    differentiable = [any(_requires_grad(body.outputs[k]) for body in bodies) for k in range(len(first))]
    source = bodies[0] if any(map(_requires_grad, bodies[0].outputs)) or not any(differentiable) else bodies[1]
    fakes = own_fakes(tx, source, parameters)
    modules = [
        attach(tx.trace, name, build(tx.trace, body, parameters))
        for name, body in zip(("true_graph", "false_graph"), bodies, strict=True)
    ]
    values = record(tx, operator, (predicate.node, *modules, tuple(parameters)), fakes)
    return rebuilt(tx, bodies[0].result, values)


def _requires_grad(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], torch.Tensor) and node.meta["val"].requires_grad


@higher_order("while_loop")
def _while_loop(
    tx: Frame, operator: Any, condition: Value, step: Value, carried: Value, additional: Value | None = None
) -> Value:
    """Both bodies take the carried values, then what they use of the surroundings."""
    start = iterators.items_of(tx, carried)
    extra = [] if additional is None else iterators.items_of(tx, additional)
    if not all(isinstance(value, TensorValue) for value in start):
        return tx.unsupported("higher-order", "while_loop over what is no tensor")
    if torch.is_grad_enabled() and any(_requires_grad(value.node) for value in start):  # type: ignore[attr-defined]
        return tx.unsupported("higher-order", "gradients through while_loop")
    placeholders = [parameter(tx, value.fake.detach(), "carried") for value in start]  # type: ignore[attr-defined]
    bodies = [run_body(tx, body, [*placeholders, *extra]) for body in (condition, step)]
    fakes = [value.fake for value in placeholders]
    given = [node.meta["val"] for node in bodies[1].outputs]
    if [facts_of(fake) for fake in given] != [facts_of(fake) for fake in fakes]:
        return tx.unsupported("higher-order", "the body of while_loop changes the facts of what it carries")
    own = [value.node for value in placeholders]
    outside = [node for node in union(*(body.free for body in bodies)) if node not in own]
    names = ("cond_graph", "body_graph")
    parts = [*own, *outside]
    modules = [
        attach(tx.trace, name, build(tx.trace, body, parts, single=body is bodies[0]))
        for name, body in zip(names, bodies, strict=True)
    ]
    _drop(own)
    first = tuple(value.node for value in start)  # type: ignore[attr-defined]
    values = record(tx, operator, (*modules, first, tuple(outside)), fresh_like(tx, fakes))
    return rebuilt(tx, bodies[1].result, values)


def _drop(nodes: list[fx.Node]) -> None:
    for node in nodes:
        node.graph.erase_node(node)


def _stepped(
    tx: Frame, operator: Any, function: Value, carried: list[Value], sliced: list[Value], extra: list[Value], name: str
) -> tuple[Body, fx.Node, list[fx.Node]]:
    """The body of an operator that goes over the first dimension: its subgraph and what it uses of the surroundings."""
    if not all(isinstance(value, TensorValue) for value in (*carried, *sliced)):
        return tx.unsupported("higher-order", f"{operator.name()} over what is no tensor")
    carries = [parameter(tx, value.fake, "carried") for value in carried]  # type: ignore[attr-defined]
    with tx.trace.shapes.fake_mode:
        rows = [parameter(tx, value.fake[0], "row") for value in sliced]  # type: ignore[attr-defined]
    body = run_body(tx, function, [*carries, *rows, *extra])
    own = [value.node for value in (*carries, *rows)]
    outside = [node for node in body.free if node not in own]
    module = attach(tx.trace, name, build(tx.trace, body, [*own, *outside]))
    _drop(own)
    return body, module, outside


@higher_order("scan")
def _scan(
    tx: Frame, operator: Any, combine: Value, init: Value, xs: Value, additional_inputs: Value | None = None
) -> Value:
    """The last carried values, then a stack of each row's results."""
    carried, sliced = iterators.items_of(tx, init), iterators.items_of(tx, xs)
    extra = [] if additional_inputs is None else iterators.items_of(tx, additional_inputs)
    body, module, outside = _stepped(tx, operator, combine, carried, sliced, extra, "combine_graph")
    fakes = [node.meta["val"] for node in body.outputs]
    length = sliced[0].fake.shape[0]  # type: ignore[attr-defined]
    results = fresh_like(tx, fakes[: len(carried)]) + fresh_like(tx, fakes[len(carried) :], length)
    with_history = _with_history(tx, results, [*carried, *sliced], outside)
    args = (module, _nodes(carried), _nodes(sliced), tuple(outside))
    return rebuilt(tx, body.result, record(tx, operator, args, with_history))


@higher_order("map_impl")
def _map(tx: Frame, operator: Any, function: Value, xs: Value, additional: Value | None = None) -> Value:
    """A stack of each row's results."""
    sliced = iterators.items_of(tx, xs)
    extra = [] if additional is None else iterators.items_of(tx, additional)
    body, module, outside = _stepped(tx, operator, function, [], sliced, extra, "body_graph")
    length = sliced[0].fake.shape[0]  # type: ignore[attr-defined]
    results = fresh_like(tx, [node.meta["val"] for node in body.outputs], length)
    with_history = _with_history(tx, results, sliced, outside)
    return rebuilt(tx, body.result, record(tx, operator, (module, _nodes(sliced), tuple(outside)), with_history))


@higher_order("associative_scan")
def _associative_scan(
    tx: Frame, operator: Any, combine: Value, xs: Value, additional_inputs: Value | None = None
) -> Value:
    """Level by level, over the first dimension, as torch's own operator does it without a compiler."""
    extra = [] if additional_inputs is None else iterators.items_of(tx, additional_inputs)
    return tx.call(tx.wrap(scans.associative_scan, None), [combine, xs, tx.trace.make_sequence(tuple, extra)])


def _nodes(values: list[Value]) -> tuple[fx.Node, ...]:
    return tuple(value.node for value in values)  # type: ignore[attr-defined]


def _with_history(
    tx: Frame, results: list[torch.Tensor], operands: list[Value], outside: list[fx.Node]
) -> list[torch.Tensor]:
    """Results that depend, for autograd, on all operands that require gradients."""
    nodes = [*_nodes(operands), *outside]
    sources = [node.meta["val"] for node in nodes if _requires_grad(node)]
    if not sources or not torch.is_grad_enabled():
        return results
    with tx.trace.shapes.fake_mode:
        tie = sum(source.sum() for source in sources) * 0
        return [result + tie.to(result.dtype) if result.is_floating_point() else result for result in results]
