"""Making any fx graph fit for lowering: every call an ATen overload, every node with a fake value.

Graphs from AOT stages have both already and pass through untouched. Hand-built graphs get their shapes by
propagation; graphs with torch functions, methods, submodules or in-place calls are traced again to functional ATen.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from triptych_inductor._torch_compat import FakeTensor, FakeTensorMode, detect_fake_mode

aten = torch.ops.aten

_SCALAR_MODULES = ("_operator", "math", "torch", "torch._sym")


def prepare(gm: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
    """A graph of ATen overloads whose nodes all carry `meta["val"]`; `gm` (a copy of the user's) may be changed."""
    if not all(_is_aten(node) for node in gm.graph.nodes):
        gm = _retrace(gm, example_inputs)
    if len({id(m) for m in map(detect_fake_mode, _values(gm)) if m is not None}) > 1:
        for node in gm.graph.nodes:
            node.meta.pop("val", None)  # traced on real tensors: each value has a mode of its own
    if any("val" not in node.meta for node in gm.graph.nodes if node.op not in ("output", "get_attr")):
        _propagate(gm, example_inputs)
    return gm


def _values(gm: GraphModule) -> list[list[Any]]:
    """The values of the nodes, each as a list."""
    values = [n.meta.get("val") for n in gm.graph.nodes]
    return [list(v) if isinstance(v, (tuple, list)) else [v] for v in values]


def _is_aten(node: Node) -> bool:
    if node.op in ("placeholder", "output", "get_attr"):
        return True
    if node.op != "call_function":
        return False
    target = node.target
    if target is operator.getitem:
        return True
    if isinstance(target, torch._ops.OpOverload):
        return not target._schema.is_mutable or target in _EPILOGUE or target.namespace != "aten"
    value = node.meta.get("val")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
        return True
    return isinstance(target, torch._ops.HigherOrderOperator)


# In-place calls that lowering takes: writing a result back into an input.
_EPILOGUE = frozenset({aten.copy_.default})


def _fake_inputs(example_inputs: Sequence[Any], known: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """The inputs as fake tensors of one mode."""
    mode = detect_fake_mode([*example_inputs, *known]) or FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [
        mode.from_tensor(v, static_shapes=True) if isinstance(v, torch.Tensor) and not isinstance(v, FakeTensor) else v
        for v in example_inputs
    ]
    return mode, fakes


def _retrace(gm: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
    """The same computation as functional ATen."""
    owner = getattr(gm, "owner", gm)
    mode, fakes = _fake_inputs(example_inputs)

    def run(*args: Any) -> Any:
        return torch.fx.Interpreter(owner, graph=gm.graph).run(*args)

    with mode, torch.no_grad():
        functional = torch.func.functionalize(run, remove="mutations")
        return make_fx(functional, tracing_mode="real", _allow_non_fake_inputs=True)(*fakes)


def _propagate(gm: GraphModule, example_inputs: Sequence[Any]) -> None:
    """Fake values for the nodes that lack them, from the inputs on."""
    mode, fakes = _fake_inputs(example_inputs, [n.meta.get("val") for n in gm.graph.nodes])
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node, value in zip(placeholders, fakes, strict=True):
        node.meta.setdefault("val", value)
    with mode, torch.no_grad():
        for node in gm.graph.nodes:
            if node.op == "call_function" and "val" not in node.meta:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _value(gm, n, mode))
                node.meta["val"] = node.target(*args, **kwargs)


def _value(gm: GraphModule, node: Node, mode: FakeTensorMode) -> Any:
    if node.op != "get_attr":
        return node.meta["val"]
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value
