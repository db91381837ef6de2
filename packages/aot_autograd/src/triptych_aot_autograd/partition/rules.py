"""Rules of recomputation, as tables: which ops may be run again in the backward, and which can be fused with others.

`Recompute` levels: CHEAP ops are always candidates; REDUCTION ones only under a memory budget; COSTLY ones
(products, convolutions,
attention) only under a tight one; NEVER those that draw random numbers or have an effect.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import torch
from torch.fx import Node

from triptych_aot_autograd import _torch_compat as compat

aten = torch.ops.aten


class Recompute(enum.IntEnum):
    """How readily an op is run again."""

    CHEAP = 0
    REDUCTION = 1
    COSTLY = 2
    NEVER = 3


def _packets(names: str) -> frozenset[Any]:
    return frozenset(getattr(aten, name) for name in names.split() if hasattr(aten, name))


# Cheap without the tag that elementwise ops carry: copies, fills, index arithmetic, joins.
CHEAP = _packets(
    "_to_copy clone copy full full_like zeros zeros_like ones ones_like new_zeros new_ones new_full empty_like "
    "arange scalar_tensor "
    "empty new_empty where masked_fill lift_fresh_copy constant_pad_nd cat stack tril triu flip roll select_scatter "
    "slice_scatter "
    "diagonal_scatter as_strided_scatter expand_copy slice_backward select_backward unsqueeze_copy fill zero "
    "conj_physical eye hardswish log_sigmoid_forward glu _prelu_kernel rsub repeat"
)
REDUCTIONS = _packets(
    "sum mean amax amin max min prod any all var var_mean std std_mean _softmax _log_softmax _safe_softmax "
    "native_layer_norm "
    "native_group_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional logsumexp norm "
    "linalg_vector_norm argmax argmin cumsum nll_loss_forward nll_loss2d_forward embedding index gather mse_loss "
    "rms_norm "
    "_fused_rms_norm max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d nll_loss_backward embedding_dense_backward"
)
# Fused by code generators although not elementwise: reading through indices counts as such.
FUSIBLE_TOO = _packets(
    "embedding index gather cumsum nll_loss_forward nll_loss_backward avg_pool2d max_pool2d_with_indices"
)
# Elementwise in what they read of the forward, without a tag that says so: reading a value there costs no memory.
FUSIBLE_BACKWARD = _packets(
    "hardswish_backward hardsigmoid_backward hardtanh_backward leaky_relu_backward elu_backward softplus_backward "
    "mish_backward log_sigmoid_backward glu_backward _prelu_kernel_backward softshrink_backward hardshrink_backward "
    "rrelu_with_noise_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward "
    "soft_margin_loss_backward binary_cross_entropy_backward _log_softmax_backward_data avg_pool2d_backward "
    "_adaptive_avg_pool2d_backward max_pool2d_with_indices_backward"
)
# Read a value of the forward more than once, row by row: a change of its type costs them nothing, more than that does.
ROW_BACKWARD = _packets(
    "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward batch_norm_backward "
    "_fused_rms_norm_backward _softmax_backward_data"
)


@functools.lru_cache(maxsize=8192)
def target_level(target: Any) -> Recompute:
    """The level of an fx target."""
    if not isinstance(target, compat.OpOverload):
        return Recompute.CHEAP  # size arithmetic, getitem
    if compat.is_random(target) or target._schema.is_mutable:
        return Recompute.NEVER
    if compat.is_view_target(target) or torch.Tag.pointwise in target.tags or target._overloadpacket in CHEAP:
        return Recompute.CHEAP
    if target._overloadpacket in REDUCTIONS:
        return Recompute.REDUCTION
    return Recompute.COSTLY


def level(node: Node) -> Recompute:
    """The level of a node: an item of a tuple has that of the op that made the tuple."""
    if node.op != "call_function":
        return Recompute.CHEAP if node.op == "get_attr" else Recompute.NEVER
    tag = node.meta.get("recompute")
    if tag is not None:
        wanted = TAGS.get(getattr(tag, "name", str(tag)))
        if wanted is not None:
            return wanted
    if node.target is compat.getitem:
        return level(node.args[0])  # type: ignore[arg-type]
    if compat.is_random(node.target) and not compat.draws(node):
        return Recompute.COSTLY
    return target_level(node.target)


# Selective checkpointing policies, as they stand in a node's meta["recompute"].
TAGS = {
    "MUST_SAVE": Recompute.NEVER,
    "PREFER_SAVE": Recompute.COSTLY,
    "MUST_RECOMPUTE": Recompute.CHEAP,
    "PREFER_RECOMPUTE": Recompute.CHEAP,
}


def fusible(node: Node) -> bool:
    """Whether code generators compute the node inside a kernel with its neighbours, so it need not reach memory."""
    if node.op != "call_function":
        return False
    target = node.args[0].target if node.target is compat.getitem else node.target  # type: ignore[union-attr]
    found = target_level(target)
    if found is Recompute.REDUCTION or getattr(target, "_overloadpacket", None) in FUSIBLE_BACKWARD:
        return True
    return found is Recompute.CHEAP and isinstance(target, compat.OpOverload)


def reads_in_place(user: Node, value: Node) -> bool:
    """Whether an op of the backward computes the value where it reads it, rather than have it in memory."""
    if fusible(user):
        return True
    if getattr(user.target, "_overloadpacket", None) not in ROW_BACKWARD or value.target is not aten._to_copy.default:
        return False
    return node_dtype(value) == torch.promote_types(node_dtype(value), node_dtype(value.args[0]))


def node_dtype(node: Any) -> torch.dtype:
    """The type of a tensor node."""
    return node.meta["val"].dtype


def cost(node: Node, bytes_of: Any) -> float:
    """A rough price of running the node again, in units of bytes moved."""
    own = float(bytes_of(node.meta.get("val")))
    if level(node) is not Recompute.COSTLY:
        return own
    inputs = [float(bytes_of(n.meta.get("val"))) for n in node.all_input_nodes]
    largest = max([own, *inputs])
    # A product of large operands: arithmetic grows as the geometric mean of the three sizes to the 3/2.
    volume = (own * (inputs[0] if inputs else 1.0) * (inputs[-1] if inputs else 1.0)) ** 0.5
    return max(4 * largest, volume / 64)
