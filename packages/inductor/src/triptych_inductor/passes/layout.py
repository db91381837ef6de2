"""The layout decision: whether a graph with convolutions is laid out channels-last.

oneDNN's convolutions, and cuDNN's of half types, run on channels-last tensors as they are, while contiguous ones are
reordered
on each call. Results that
follow a convolution keep the layout; what leaves the graph, or goes to an op of unknown taste, gets eager's layout
back. Where many
large results leave the graph (activations saved for a backward graph) those copies would cost more than is won.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from triptych_inductor.options import Options

aten = torch.ops.aten


def is_convolution(node: Node) -> bool:
    """Whether a node is a two-dimensional convolution, of a packed weight or not."""
    value = node.meta.get("val")
    named = node.target is aten.convolution.default or str(node.target).startswith("mkldnn._convolution")
    return named and isinstance(value, torch.Tensor) and value.ndim == 4


def wants_channels_last(gm: GraphModule, options: Options) -> bool:
    """In: a graph with fake values. Out: whether convolutions and what follows them should be channels-last."""
    if options.channels_last != "auto":
        return options.channels_last == "always"
    convolutions = [n for n in gm.graph.nodes if is_convolution(n)]
    if not convolutions or not all(_runs_faster(n.meta["val"]) for n in convolutions):
        return False
    backward = any(n.target is aten.convolution_backward.default for n in gm.graph.nodes)
    leaving = [n for n in gm.graph.output_node().all_input_nodes if _is_image(n)]
    return not backward and 4 * len(leaving) <= len(convolutions)


CHANNELS_LAST_DTYPES: dict[str, frozenset[torch.dtype]] = {
    "cpu": frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16}),
    "cuda": frozenset({torch.bfloat16, torch.float16}),
}
"""Device type -> dtypes whose convolutions run faster on channels-last tensors (tensor cores want them so)."""


def _runs_faster(value: torch.Tensor) -> bool:
    return value.dtype in CHANNELS_LAST_DTYPES.get(value.device.type, ())


def _is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        node.op == "call_function" and isinstance(value, torch.Tensor) and value.ndim == 4 and value.is_floating_point()
    )
