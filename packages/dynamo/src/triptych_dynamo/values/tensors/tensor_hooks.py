"""Hooks of tensors in a region.

A hook on a result of the region is a node of the graph: its body is a subgraph, registered on the tensor where the
program does so. A hook on a tensor from outside stays when the region has ended: registering it is an effect, behind
the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.utils.hooks import RemovableHandle

from triptych_dynamo._torch_compat import tensor_version
from triptych_dynamo.runtime_tensors import HookedTensor, hook_registered
from triptych_dynamo.trace.subgraphs import build
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import is_constant_equal, none
from triptych_dynamo.values.differentiation.higher_order import parameter, run_body
from triptych_dynamo.values.tensors.tensor import METHODS, TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class HandleValue(Value):
    """What `register_hook` returns: `remove()` takes the hook away, as long as no gradient went through it."""

    def python_type(self) -> type:
        return RemovableHandle

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "remove":
            return BuiltinMethodValue(self, name)
        if name == "__class__":
            return super().get_attr(tx, name)
        return tx.unsupported("attribute", f"reading {name!r} of the handle of a hook")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "remove":
            return super().call_method(tx, name, args, kwargs)
        self.remove(tx)
        return none(tx)

    def remove(self, tx: Frame) -> None:
        """`handle.remove()`."""
        raise NotImplementedError


class NodeHandle(HandleValue):
    """The handle of a hook that is a node of the graph; None: it is removed."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__()
        self.node: fx.Node | None = node

    def remove(self, tx: Frame) -> None:
        if self.node is None:
            return
        if tx.trace.differentiation.taken:
            tx.unsupported("backward", "removing a hook that a gradient of the region went through")
        self.node.graph.erase_node(self.node)
        self.node = None

    def reconstruct(self, cg: Writer) -> None:
        cg.cannot_rebuild("backward", "the handle of a hook leaves the region")


class EffectHandle(HandleValue):
    """The handle of a hook on a tensor from outside, and the effect that registers it."""

    def __init__(self, name: str, tensor: TensorValue, hook: Value) -> None:
        super().__init__()
        self.name, self.tensor, self.hook = name, tensor, hook
        self._version = tensor_version(tensor.fake)

    def remove(self, tx: Frame) -> None:
        if self in tx.effects:
            tx.effects.withdraw([self])
            tx.trace.differentiation.hooked.remove(self.tensor)

    def replay(self, cg: Writer) -> None:
        cg.load(self)
        cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        if self not in cg.trace.effects:
            cg.cannot_rebuild("backward", "the handle of a removed hook leaves the region")
        if tensor_version(self.tensor.fake) != self._version:
            cg.cannot_rebuild("backward", "a tensor from outside is hooked, and written to afterwards")
        cg.load_object(hook_registered)
        cg.load_const(self.name)
        cg.load(self.tensor)
        cg.load(self.hook)
        cg.call(3)


def _register_effect(tx: Frame, name: str, tensor: TensorValue, hook: Value) -> Value:
    handle = EffectHandle(name, tensor, hook)
    tx.trace.differentiation.hooked.append(tensor)
    tx.effects.mutated(handle)
    return handle


def _register_hook(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`tensor.register_hook(hook)`."""
    tx.trace.autograd_read = True
    (hook,) = [*args, *kwargs.values()]
    fake = tensor.fake
    if not fake.requires_grad:
        return tx.raise_python(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if tensor.source is not None:
        return _register_effect(tx, "register_hook", tensor, hook)
    if fake.is_leaf:
        return tx.unsupported("backward", "a hook on a leaf that the region made")
    body, outside = _subgraph(tx, tensor, hook)
    graph = tx.trace.graph.graph
    node = graph.create_node("call_function", HookedTensor(body), (tensor.node, *outside))
    node.meta.update(val=None, effect=True, stack_trace=tx.trace.graph.stack_trace())
    return NodeHandle(node)


def _register_accumulate_hook(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`tensor.register_post_accumulate_grad_hook(hook)`."""
    tx.trace.autograd_read = True
    (hook,) = [*args, *kwargs.values()]
    fake = tensor.fake
    if not fake.requires_grad:
        return tx.raise_python(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if fake.grad_fn is not None:
        return tx.raise_python(RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors")
    if tensor.source is None:
        return tx.unsupported("backward", "a hook on a leaf that the region made")
    return _register_effect(tx, "register_post_accumulate_grad_hook", tensor, hook)


def _subgraph(tx: Frame, tensor: TensorValue, hook: Value) -> tuple[fx.GraphModule, list[fx.Node]]:
    with torch.no_grad():
        grad = parameter(tx, tensor.fake.detach(), "grad")
        body = run_body(tx, hook, [grad])
    outside = [node for node in body.free if node is not grad.node]
    keeps = is_constant_equal(body.result, None)
    if not keeps and (len(body.outputs) != 1 or body.outputs[0].meta["val"].shape != tensor.fake.shape):
        tx.unsupported("backward", "a hook that does not give one gradient of the tensor's shape")
    if keeps:
        body.outputs = [grad.node]
    module = build(tx.trace, body, [grad.node, *outside], single=True)
    grad.node.graph.erase_node(grad.node)
    return module, outside


METHODS["register_hook"] = _register_hook
METHODS["register_post_accumulate_grad_hook"] = _register_accumulate_hook
