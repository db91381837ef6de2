"""`tensor.register_hook(hook)` in a region: the hook's body is a subgraph that the gradient goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.utils.hooks import RemovableHandle

from triptych_dynamo.runtime_tensors import HookedTensor
from triptych_dynamo.trace.subgraphs import build
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import is_constant_equal, none
from triptych_dynamo.values.higher_order import parameter, run_body
from triptych_dynamo.values.tensor import METHODS, TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class HandleValue(Value):
    """What `register_hook` returns: `remove()` takes the hook away, as long as no gradient went through it."""

    def __init__(self, tensor: TensorValue, before: fx.Node, hooked: fx.Node) -> None:
        super().__init__()
        self.tensor, self.before, self.hooked = tensor, before, hooked

    def python_type(self) -> type:
        return RemovableHandle

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        return BuiltinMethodValue(self, name) if name == "remove" else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "remove":
            return super().call_method(tx, name, args, kwargs)
        if tx.trace.differentiation.taken or self.tensor.node is not self.hooked:
            return tx.unsupported("backward", "removing a hook that a gradient of the region went through")
        self.hooked.replace_all_uses_with(self.before)
        self.tensor.node = self.before
        return none(tx)

    def reconstruct(self, cg: Writer) -> None:
        cg.cannot_rebuild("backward", "the handle of a hook leaves the region")


def _register_hook(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The tensor's node is followed by one whose backward is the hook; all that uses the tensor uses that one."""
    tx.trace.autograd_read = True
    fake = tensor.fake
    if not fake.requires_grad:
        return tx.raise_python(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if tensor.source is not None or fake.is_leaf:
        return tx.unsupported("backward", "a hook on a tensor that is no result of the region")
    hook, outside = _subgraph(tx, tensor, args[0])
    before = tensor.node
    used = bool(before.users)
    if used and any(node.op != "placeholder" for node in outside):
        return tx.unsupported("backward", "a hook on a tensor that was used already")
    graph = tx.trace.graph.graph
    users = list(before.users)
    node = graph.create_node("call_function", HookedTensor(hook), (before, *outside))
    if used:
        before.append(node)
    node.meta.update(val=fake, stack_trace=tx.trace.graph.stack_trace())
    for user in users:
        user.replace_input_with(before, node)
    tensor.node = node
    return HandleValue(tensor, before, node)


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
