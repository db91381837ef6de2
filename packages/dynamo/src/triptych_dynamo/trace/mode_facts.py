"""Facts about autocast and the default dtype that nothing in a trace depended on are taken back at its end.

A call depends on autocast of a device where it has tensors there, and torch has a kernel for it under autocast, or it
is made of other calls, which may have. It
depends on the default dtype if its result has that dtype and no tensor among its arguments has. (Gradients and
inference mode are in `autograd_facts`.)
"""

from __future__ import annotations

from functools import cache
from types import BuiltinFunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from triptych_dynamo._torch_compat import has_kernel
from triptych_dynamo.sources import PinnedSource

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.trace.trace import Trace

_AUTOCAST_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_MADE_OF_OTHERS = "CompositeImplicitAutograd"
# Made of other calls that autocast does not know, or functions of `operator` for such.
_HARMLESS = frozenset(
    {
        *("getitem", "setitem", "size", "stride", "dim", "numel", "to", "contiguous", "reshape", "reshape_as"),
        *("flatten", "ravel", "unflatten", "chunk", "split", "tensor_split", "narrow", "swapaxes", "swapdims", "item"),
        *("movedim", "type_as", "view_as", "expand_as", "broadcast_to", "float", "double", "half", "bfloat16", "int"),
        *(
            "long",
            "bool",
            "where",
            "max",
            "min",
            "empty",
            "pad",
            "dropout",
            "truediv",
            "floordiv",
            "and_",
            "or_",
            "xor",
        ),
        *("xor", "iadd", "isub", "imul", "itruediv", "__getitem__", "__setitem__", "T", "is_floating_point"),
    }
)


def note_modes(trace: Trace) -> None:
    """Note which modes the calls that are in the graph now depend on; dead ones too, of which the program may have read
    the dtype.
    """
    nodes = list(trace.graph.graph.nodes)
    devices = {value.device.type for node in nodes for value in _tensors(node)}
    for device in _AUTOCAST_KEYS:
        if device in devices and not all(_ignores_autocast(node, device) for node in nodes):
            trace.modes_read.add(f"autocast_{device}")
    pinned = any(isinstance(source, PinnedSource) for source in trace.graph.inputs.values())
    if pinned or any(map(_takes_default_dtype, nodes)):
        trace.modes_read.add("default_dtype")


def relax_modes(trace: Trace) -> None:
    """Drop the trace's guards on modes that it did not depend on."""
    note_modes(trace)
    free = {"default_dtype"} - trace.modes_read
    if "autocast" not in trace.modes_read:
        devices = {f"autocast_{device}" for device in _AUTOCAST_KEYS} - trace.modes_read
        free |= devices | {f"{name}_dtype" for name in devices}
    for key in [key for key, guard in trace.guards.items() if guard.kind == "mode" and guard.value[0] in free]:
        del trace.guards[key]


def _ignores_autocast(node: fx.Node, device: str) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "call_method":
        return _is_plain(str(node.target), device)
    if node.op != "call_function" or not isinstance(node.target, (BuiltinFunctionType, MethodDescriptorType)):
        return False
    return _is_of_torch(node.target) and _is_plain(node.target.__name__, device)


def _is_of_torch(target: Any) -> bool:
    """Whether it is a function of torch or `operator`, and no operator of a library or one that runs other graphs."""
    module = getattr(target, "__module__", None) or "torch"
    known = module.partition(".")[0] in ("torch", "_operator", "math", "builtins")
    return known and not isinstance(target, (torch._ops.OperatorBase, torch._ops.OpOverloadPacket))


@cache
def _is_plain(name: str, device: str) -> bool:
    """Whether the operator of this name is one whole, and none that autocast knows."""
    if name in _HARMLESS:
        return True
    operator = getattr(torch.ops.aten, name, None)
    if operator is None:
        return False
    named = [overload for overload in operator.overloads() if "name" in overload.lower()]  # call one of the others
    overloads = ["" if o == "default" else f".{o}" for o in operator.overloads() if o not in named]
    keys = (_AUTOCAST_KEYS[device], _MADE_OF_OTHERS)
    return not any(has_kernel(f"aten::{name}{overload}", key) for overload in overloads for key in keys)


def _takes_default_dtype(node: fx.Node) -> bool:
    if node.op in ("call_module", "get_attr"):
        return True
    if node.op not in ("call_function", "call_method") or node.kwargs.get("dtype") is not None:
        return False
    if node.op == "call_function" and not _is_of_torch(node.target):
        return True
    default = torch.get_default_dtype()
    kinds = {default, default.to_complex()}
    given = {value.dtype for argument in node.all_input_nodes for value in _tensors(argument)}
    return not kinds & given and any(value.dtype in kinds for value in _tensors(node))


def _tensors(node: fx.Node) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
