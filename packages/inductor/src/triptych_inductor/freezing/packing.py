"""Weights of convolutions and products, brought into the layout that the library computes on.

On CPUs oneDNN keeps weights in blocks: of an unpacked weight it makes them at each call. Convolutions are packed; of
products those of half types and the large ones, while for smaller float32 products MKL on a weight of contiguous rows
is the fastest (one thread, AVX-512: 0.8 of the time of a transposed one; packed 1.1). On GPUs tensor cores convolve
channels-last: the weights of graphs that are laid out so are too, instead of by a kernel at each call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import Constants
from triptych_inductor.lowering import externs
from triptych_inductor.passes.layout import is_convolution, wants_channels_last

aten = torch.ops.aten
LARGE = 1 << 21  # elements of a float32 weight from which on packing wins
FEW_ROWS = 2  # below, a product is a matter of reading the weight once


def packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes this dtype on this processor."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled and hasattr(torch.ops, "mkldnn")):
        return False
    check = CHECKS.get(dtype)
    return check is not None and (not check or bool(getattr(torch.ops.mkldnn, check)()))


CHECKS = {
    torch.float32: "",
    torch.bfloat16: "_is_mkldnn_bf16_supported",
    torch.float16: "_is_mkldnn_fp16_supported",
}
"""dtype -> the operator that says whether the processor has it; "": all do."""


def pack_weights(constants: Constants) -> int:
    """In: a graph with constants. Out: calls whose weight is constant read it in their library's best layout."""
    count = 0
    channels_last = wants_channels_last(constants.gm, constants.options)
    for node in list(constants.graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if value.device.type in externs.OWN_LAYOUT:
            count += channels_last and is_convolution(node) and _lay_out_convolution(constants, node)
        elif value.device.type == "cpu":
            rule = RULES.get(node.target)
            count += bool(rule is not None and rule(constants, node))
    return count


def _lay_out_convolution(constants: Constants, node: Node) -> bool:
    """Lay a constant weight out channels-last now, where a kernel would at each call."""
    weight, form = constants.value(node.args[1]), torch.channels_last
    if weight is None or node.args[6] or weight.is_contiguous(memory_format=form):
        return False
    made = constants.insert(weight.contiguous(memory_format=form), node)
    node.args = (node.args[0], made, *node.args[2:])
    return True


def _convolution(constants: Constants, node: Node) -> bool:
    x, weight, bias, stride, padding, dilation, transposed, more, groups = node.args
    known = constants.value(weight)
    window = [list(padding), *([list(more)] if transposed else []), list(stride), list(dilation)]  # type: ignore[arg-type]
    if known is None or not _can_pack(node, known, [n for part in window for n in part]):
        return False
    image = x.meta["val"]  # type: ignore[union-attr]
    size = list(image.shape) if all(type(n) is int for n in image.shape) else None
    ops, middle = torch.ops.mkldnn, "_convolution_transpose" if transposed else "_convolution"
    packed = getattr(ops, f"_reorder{middle}_weight")(known, *window, groups, size)
    second = constants.insert(packed, node, like=known)
    call = getattr(ops, f"{middle}_pointwise").default
    _replace(constants, node, call, (x, second, bias, *window, groups, "none", [], ""))
    return True


def _can_pack(node: Node, weight: torch.Tensor, numbers: list[Any]) -> bool:
    """Whether a convolution is two-dimensional, of one dtype that oneDNN has, and of a plain window."""
    operands = [a.meta["val"] for a in (node.args[0], node.args[2]) if isinstance(a, Node)]
    if weight.ndim != 4 or operands[0].ndim != 4 or not packs(weight.dtype) or weight.numel() == 0:
        return False
    if any(value.dtype is not weight.dtype for value in operands) or any(
        type(n) is int and n == 0 for n in operands[0].shape
    ):
        return False
    return all(type(n) is int for n in numbers) and not (node.args[6] and node.args[8] != 1)


def _mm(constants: Constants, node: Node) -> bool:
    return _product(constants, node, node.args[0], node.args[1], None)


def _addmm(constants: Constants, node: Node) -> bool:
    bias = constants.value(node.args[0])
    if node.kwargs or bias is None or bias.ndim != 1:
        return _lay_out(constants, node, node.args[2])
    return _product(constants, node, node.args[1], node.args[2], node.args[0])


def _product(constants: Constants, node: Node, left: Any, right: Any, bias: Any) -> bool:
    weight = constants.value(right)
    if weight is None or not _gains_from_packing(weight, left.meta["val"].shape[0]):
        return _lay_out(constants, node, right)
    kept = weight.t().contiguous()
    packed = torch.ops.mkldnn._reorder_linear_weight(kept)
    second = constants.insert(packed, node, like=kept)
    _replace(constants, node, torch.ops.mkldnn._linear_pointwise.default, (left, second, bias, "none", [], ""))
    return True


def _gains_from_packing(weight: torch.Tensor, rows: Any) -> bool:
    if not packs(weight.dtype) or weight.numel() == 0 or (type(rows) is int and rows == 0):
        return False
    if weight.dtype is not torch.float32:
        return True
    return weight.numel() >= LARGE and not (type(rows) is int and rows < FEW_ROWS)


def _lay_out(constants: Constants, node: Node, right: Any) -> bool:
    """Make the rows of a constant right operand contiguous."""
    weight = constants.value(right)
    if weight is None or weight.is_contiguous():
        return False
    node.replace_input_with(right, constants.insert(weight.contiguous(), node))
    return True


def _replace(constants: Constants, node: Node, target: Any, args: tuple[Any, ...]) -> Node:
    """A call of a library function in a node's place, with its metadata."""
    with constants.graph.inserting_before(node):
        made = constants.graph.call_function(target, args)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    constants.graph.erase_node(node)
    return made


RULES = {aten.convolution.default: _convolution, aten.mm.default: _mm, aten.addmm.default: _addmm}
