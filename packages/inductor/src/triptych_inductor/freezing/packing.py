"""Weights of convolutions and products, brought into the layout that the library computes on.

On CPUs oneDNN keeps weights in blocks: of an unpacked weight it makes them at each call. Convolutions are packed; of
products those of half types and the large ones, while for smaller float32 products MKL on a weight of contiguous rows
is the fastest (one thread, AVX-512: 0.8 of the time of a transposed one; packed 1.1).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from triptych_inductor.freezing.constants import Constants

aten = torch.ops.aten
LARGE = 1 << 21  # elements of a float32 weight from which on packing wins
FEW_ROWS = 2  # below, a product is a matter of reading the weight once

CONVOLUTION = "_convolution_pointwise"
PRODUCT = "_linear_pointwise"


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
    """In: a graph with constants. Out: calls on the CPU whose weight is constant read it in its best layout."""
    count = 0
    for node in list(constants.graph.nodes):
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and value.device.type == "cpu":
            rule = RULES.get(node.target)
            count += bool(rule is not None and rule(constants, node))
    return count


def _convolution(constants: Constants, node: Node) -> bool:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = node.args
    known, image = constants.value(weight), x.meta.get("val")  # type: ignore[union-attr]
    if known is None or transposed or known.ndim != 4 or image.ndim != 4 or not packs(known.dtype):
        return False
    if image.dtype is not known.dtype or (bias is not None and bias.meta["val"].dtype is not known.dtype):  # type: ignore[union-attr]
        return False
    window = [list(padding), list(stride), list(dilation)]  # type: ignore[arg-type]
    if not all(type(n) is int for n in [*known.shape, groups, *window[0], *window[1], *window[2]]):
        return False
    size = list(image.shape) if all(type(n) is int for n in image.shape) else None
    if known.numel() == 0 or (size is not None and 0 in size):
        return False
    packed = torch.ops.mkldnn._reorder_convolution_weight(known, *window, groups, size)
    second = constants.insert(packed, node, like=known)
    args = (x, second, bias, *window, groups, "none", [], "")
    _replace(constants, node, torch.ops.mkldnn._convolution_pointwise.default, args)
    return True


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
