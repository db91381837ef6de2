"""Facts about gradients that nothing in a trace depended on are taken back at its end.

Without them a call under `no_grad` does not compile again because a weight was frozen, nor any call because its input
was made in inference mode, nor a function of plain data because gradients are enabled or not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import torch

from triptych_dynamo._torch_compat import dispatch_keys, set_grad_enabled, torch_names

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.trace.trace import Trace

# Functions that ask about gradients, or change what is known of them (methods are noted when they are called).
_ASKING: frozenset[object] = frozenset(
    {set_grad_enabled, *torch_names("is_inference", "is_grad_enabled", "nn.Parameter", "autograd.grad")}
)


@cache
def inference_keys() -> int:
    """The dispatch keys in which plain tensors and those made in inference mode differ."""
    with torch.inference_mode(False):
        plain = dispatch_keys(torch.empty(0, device="cpu"))
    with torch.inference_mode():
        return plain ^ dispatch_keys(torch.empty(0, device="cpu"))


def _requires_grad(node: fx.Node) -> bool:
    values = node.meta.get("val")
    many = values if isinstance(values, (list, tuple)) else (values,)
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in many)


def _asks(node: fx.Node) -> bool:
    """Whether the call may look at gradients itself: a user's `autograd.Function`, a higher-order operator."""
    if node.op not in ("call_function", "call_method"):
        return False
    module = getattr(node.target, "__module__", None) or ""
    known = isinstance(node.target, str) or module.partition(".")[0] in ("torch", "_operator", "builtins", "math")
    return not known or node.target in _ASKING or isinstance(node.target, torch._ops.HigherOrderOperator)


def relax_autograd(trace: Trace) -> None:
    """Replace the trace's guards on gradients by what it depended on: that none is asked for."""
    nodes = list(trace.graph.graph.nodes)
    if trace.autograd_read or any(map(_asks, nodes)):
        return
    if trace.graph.grad_enabled and any(map(_requires_grad, nodes)):
        return
    written = bool(trace.graph.mutated_inputs())
    keys = -1 if written else ~inference_keys()
    inputs = set(trace.graph.inputs.values())
    free = ("grad_mode",) if written else ("grad_mode", "inference_mode")
    tensors = []
    for key, guard in list(trace.guards.items()):
        if guard.kind == "mode" and guard.value[0] in free:
            del trace.guards[key]
        elif guard.kind == "tensor":
            if guard.source in inputs:  # others were read, but nothing is computed from them
                tensors.append(guard.source)
            facts = replace(guard.value, requires_grad=None, key_mask=keys)
            trace.guards[key] = replace(guard, value=facts)
    if tensors:
        trace.guard("no_gradients", None, tuple(tensors))
