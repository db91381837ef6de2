"""`MyFunction.apply(...)`: one node of the graph, differentiated by its own `backward`.

What the bodies read (globals, closures, attributes) may be built into what a backend makes of the node. So the bodies
are traced once beside the graph, for the guards; their nodes are taken out again.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.errors import TracedException, Unsupported
from triptych_dynamo.polyfills.function_context import FunctionContext
from triptych_dynamo.sources import ContentSource, GlobalSource, Source
from triptych_dynamo.triton_kernels.bodies import with_operators
from triptych_dynamo.triton_kernels.launch import is_launch
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.objects.classes import class_method
from triptych_dynamo.values.tensors.tensor import TensorValue
from triptych_dynamo.values.tensors.torch_functions import graphable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from triptych_dynamo.interpreter.frame import Frame

_BODIES = ("forward", "setup_context", "backward")


def _apply(tx: Frame, cls: Value, *args: Value, **kwargs: Value) -> Value:
    function = cls.as_constant()
    if not all(graphable(arg) for arg in (*args, *kwargs.values())):
        return tx.unsupported("graph-argument", f"an argument of {function.__qualname__}.apply")
    changed = len(tx.effects.changed())
    with _beside_the_graph(tx) as made:
        try:
            _Rehearsal(tx, cls, function, args).run()
        except Unsupported:  # what cannot be traced is read by name
            for name in _BODIES:
                _guard_names(tx, vars(function).get(name), set())
    if len(tx.effects.changed()) > changed:
        tx.unsupported("graph-argument", f"{function.__qualname__} changes objects in its forward or backward")
    tx.trace.autograd_read = True
    if any(is_launch(node.target) for node in made):
        function = with_operators(function)
    return tx.call_graph(named_apply(function), list(args), kwargs)


if isinstance(torch.autograd.Function.apply, MethodType):
    builtin(torch.autograd.Function.apply.__func__)(_apply)
else:  # newer releases have it in C
    class_method(torch.autograd.Function, "apply")(_apply)


def named_apply(cls: Any) -> Any:
    """`cls.apply` as a function with a name of its own, which printed graphs need."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)

    apply.__name__ = apply.__qualname__ = f"{cls.__name__}_apply"
    apply.__module__ = __name__  # what names a module of torch is looked for there
    return apply


# -- the bodies, traced ------------------------------------------------------------------------------------------------
@contextmanager
def _beside_the_graph(tx: Frame) -> Iterator[list[fx.Node]]:
    """Nodes made inside are erased at the end; numbers read inside are constants; tensors, the very objects.

    The list given is filled with the erased nodes.
    """
    made: list[fx.Node] = []
    graph, shapes = tx.trace.graph, tx.trace.shapes
    before, inputs, dynamic = set(graph.graph.nodes), set(graph.inputs), shapes.dynamic
    shapes.dynamic = False
    try:
        yield made
    finally:
        shapes.dynamic = dynamic
        made += [node for node in graph.graph.nodes if node not in before and node.op != "placeholder"]
        _specialize_numbers(tx, made)
        for node in reversed(made):
            graph.graph.erase_node(node)
        for node, source in list(graph.inputs.items()):
            if node not in inputs and isinstance(node.meta["val"], torch.Tensor):
                tx.guard("is_weak", source, tx.trace.object_at(source))


def _specialize_numbers(tx: Frame, nodes: list[fx.Node]) -> None:
    """Numbers of the program that were symbolic already and are read by the bodies."""
    numbers = {known.node: known for known in tx.trace.number_inputs.values()}
    for node in nodes:
        for source in node.all_input_nodes:
            if source in numbers:
                tx.trace.shapes.specialize(tx, source.meta["val"])


class _Rehearsal:
    """One run of the bodies on stand-ins for the arguments."""

    def __init__(self, tx: Frame, cls: Value, function: Any, args: tuple[Value, ...]) -> None:
        self.tx = tx
        self.cls = cls
        self.function = function
        self.needs = tuple(isinstance(arg, TensorValue) and arg.fake.requires_grad for arg in args)
        self.args = [self._stand_in(arg) if isinstance(arg, TensorValue) else arg for arg in args]

    def _stand_in(self, value: TensorValue) -> Value:
        """A tensor with the same facts that the body may change."""
        return self.tx.call_graph("view_as", [value, value])

    def run(self) -> None:
        """Forward, and backward where a gradient can be asked for. What they raise is raised by the node itself."""
        tx, differentiable = self.tx, any(self.needs) and torch.is_grad_enabled()
        frames = len(tx.trace.frames)
        enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            context = tx.call(tx.wrap(FunctionContext, None), [tx.trace.make_tuple([*map(ConstantValue, self.needs)])])
            outputs = self._forward(context)
            if differentiable:
                grads = [self._gradient(output) for output in outputs]
                tx.call(self.cls.get_attr(tx, "backward"), [context, *grads])
        except TracedException:
            del tx.trace.frames[frames:]
        finally:
            torch._C._set_grad_enabled(enabled)

    def _forward(self, context: Value) -> list[Value]:
        tx, forward = self.tx, self.cls.get_attr(self.tx, "forward")
        if self.function.setup_context is torch.autograd.Function.setup_context:
            result = tx.call(forward, [context, *self.args])
        else:
            result = tx.call(forward, list(self.args))
            setup = self.cls.get_attr(tx, "setup_context")
            tx.call(setup, [context, tx.trace.make_tuple(list(self.args)), result])
        return list(result.items) if isinstance(result, SequenceValue) else [result]

    def _gradient(self, output: Value) -> Value:
        if not isinstance(output, TensorValue):
            return ConstantValue(None)
        return self.tx.call_graph(torch.empty_like, [output])


# -- the bodies, read by name ------------------------------------------------------------------------------------------
def _guard_names(tx: Frame, body: Any, seen: set[CodeType]) -> None:
    """Guard the identity of every global and closure variable that a body, or a function of it, names."""
    body = getattr(body, "__func__", body)
    if not isinstance(body, FunctionType) or body.__code__ in seen:
        return
    seen.add(body.__code__)
    scope = tx.trace.scope_of(body.__globals__)
    if scope.trusted:
        return
    for code in _codes(body.__code__):
        for name in code.co_names:
            if name in body.__globals__:
                _guard_named(tx, GlobalSource(scope.source, name), body.__globals__[name], seen)
    for cell in body.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        _guard_named(tx, ContentSource(tx.trace.pin(cell)), content, seen)


def _guard_named(tx: Frame, source: Source, found: Any, seen: set[CodeType]) -> None:
    kind = "equals" if type(found) in ConstantValue.ATOMS else "is_weak"
    tx.guard(kind, source, found)
    _guard_names(tx, found, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
