"""What a finished graph may have done when its call fails half-way: facts for running the program again from the start.

A graph without random numbers that writes to none of its inputs has done nothing. Numbers drawn can be given back when
the generators' states were noted before, which is done where a call of the graph may fail for the numbers it is given.
Writes cannot be taken back; a graph that runs node by node has counted them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.trace.purity import draws_numbers

if TYPE_CHECKING:
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace

# Functions that may fail for the numbers in their tensors, whatever the shapes.
_FAILING: frozenset[str] = frozenset(
    {
        *("__getitem__", "getitem", "setitem", "index_select", "index_add", "index_copy", "index_fill", "index_put"),
        *("gather", "take", "take_along_dim", "put", "scatter", "scatter_add", "scatter_reduce", "masked_scatter"),
        *("embedding", "embedding_bag", "nll_loss", "cross_entropy", "multi_margin_loss", "multilabel_margin_loss"),
        *("ctc_loss", "one_hot", "bincount", "histc", "histogram", "repeat_interleave", "multinomial", "bernoulli"),
        *("poisson", "normal", "binary_cross_entropy", "inverse", "cholesky", "cholesky_solve", "cholesky_inverse"),
        *("lu_solve", "svd", "qr", "logdet", "slogdet", "pinverse", "matrix_power", "lstsq", "item", "div"),
        *("floordiv", "floor_divide", "mod", "truediv", "fmod", "max_unpool2d", "remainder", "grid_sample"),
        *("_assert", "_assert_async", "_assert_scalar", "_check", "assert_async", "require", "searchsorted", "unbind"),
    }
)
# Where the functions live that graphs are known to hold; others may do anything, also to what is no tensor.
_KNOWN = frozenset({"torch", "operator", "_operator", "math", "builtins", "numpy", "triptych_dynamo"})


def call_nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The calls of a graph and of the graphs in it."""
    for inner in module.modules():
        if isinstance(inner, fx.GraphModule):
            for node in inner.graph.nodes:
                if node.op.startswith("call_"):
                    yield node


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def may_fail(node: fx.Node) -> bool:
    """Whether the numbers that a call is given may make it fail."""
    name = _name(node.target).partition(".")[0]
    module = getattr(node.target, "__module__", "") or ""
    return name.rstrip("_") in _FAILING or name.startswith("linalg_") or "linalg" in module or not is_known(node)


def is_known(node: fx.Node) -> bool:
    """Whether a call does nothing beside its result and writes to tensors."""
    if node.op != "call_function" or isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    return (getattr(node.target, "__module__", "") or "torch").partition(".")[0] in _KNOWN


class Failing:
    """What a graph of `trace` may leave behind when it fails.

    Attributes:
        repeatable: the program may run again from the start, when nothing of the following stands against it.
        written: where the tensors are read that the graph writes.
        draws: it draws random numbers.
        noted: states of generators are worth their time.
        devices: whose generators may be used, beside the CPU's.
    """

    def __init__(self, trace: Trace, module: fx.GraphModule) -> None:
        nodes = list(call_nodes(module))
        inputs = trace.graph.inputs
        written = [node for node in trace.graph.mutated_inputs() if node in inputs]
        self.written: list[Source] = [inputs[node] for node in written]
        uncounted = any(_is_inference(node) for node in inputs) and any(node.meta.get("effect") for node in nodes)
        self.repeatable = all(map(is_known, nodes)) and not uncounted
        self.draws = any(draws_numbers(node.target) for node in nodes)
        self.noted = self.draws and any(map(may_fail, nodes))
        self.devices = sorted({index for node in inputs for index in _cuda_devices(node.meta["val"])})

    @property
    def leaves_nothing(self) -> bool:
        """Whether a failed graph can be taken back wherever it failed, run in whatever order."""
        return self.repeatable and not self.written


def _is_inference(node: fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.is_inference()


def _cuda_devices(value: Any) -> list[int]:
    if isinstance(value, torch.Tensor) and value.device.type == "cuda":
        return [value.device.index or 0]
    return []
