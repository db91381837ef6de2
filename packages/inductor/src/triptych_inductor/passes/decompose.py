"""Ops without a lowering that torch decomposes: replaced by their decomposition, traced on the node's fake arguments.

Only the ops of `CHOSEN` are treated so: small arithmetic ones, where fusing the parts beats torch's own kernel.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from triptych_inductor._torch_compat import detect_fake_mode, forget_unclaimed_symbols, get_decompositions
from triptych_inductor.lowering.registry import find_lowering

CHOSEN = """
mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward soft_margin_loss
soft_margin_loss_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
glu glu_backward celu nan_to_num addr nansum trace linspace logaddexp2 isposinf isneginf deg2rad rad2deg sinc heaviside
special_entr special_xlog1py special_log_ndtr pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d
reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d upsample_nearest1d
upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d _upsample_nearest_exact1d
_upsample_nearest_exact2d im2col rot90 diag_embed count_nonzero dist expand_copy permute_copy squeeze_copy t_copy
transpose_copy unsqueeze_copy view_copy unfold_copy diagonal_copy as_strided_copy narrow_copy unbind_copy slice_copy
select_copy split_copy detach_copy embedding_renorm index_fill norm _adaptive_avg_pool2d masked_fill diagonal_scatter
diagonal_backward unfold_backward _fused_dropout logit_backward hardshrink_backward softshrink_backward
rrelu_with_noise_backward linalg_cross mvlgamma special_ndtr select_scatter slice_scatter square clip
_fused_rms_norm_backward native_group_norm_backward renorm _chunk_cat lerp ldexp frac affine_grid_generator """.split()


@cache
def _table() -> dict[Any, Any]:
    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in CHOSEN if hasattr(aten, name)]
    return dict(get_decompositions(packets))


def decompose(gm: GraphModule) -> None:
    """In: a graph with fake values. Out: nodes of chosen ops without lowering replaced by simpler ones."""
    table = None
    for node in list(gm.graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload) or find_lowering(node.target) is not None:
            continue
        table = table if table is not None else _table()
        rule = table.get(node.target)
        if rule is not None:
            _expand(gm, node, rule)


def _expand(gm: GraphModule, node: Node, rule: Any) -> None:
    """Trace `rule` on the node's fake arguments and put its nodes in the node's place."""
    sources = node.all_input_nodes
    tensors = [n for n in sources if isinstance(n.meta.get("val"), torch.Tensor)]
    mode = detect_fake_mode([n.meta["val"] for n in tensors])
    if mode is None or len(tensors) != len([n for n in sources if not _is_symbolic(n)]):
        return

    def run(*values: Any) -> Any:
        known = dict(zip(tensors, values, strict=True))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: known.get(n, n.meta.get("val")))
        return rule(*args, **kwargs)

    forget_unclaimed_symbols(mode)
    with mode, torch.no_grad():
        traced = make_fx(run, tracing_mode="real", _allow_non_fake_inputs=True)(*[n.meta["val"] for n in tensors])
    _splice(gm, node, traced, tensors)


def _is_symbolic(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def _splice(gm: GraphModule, node: Node, traced: GraphModule, tensors: list[Node]) -> None:
    values: dict[Node, Any] = {}
    inputs = iter(tensors)
    with gm.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                values[inner] = next(inputs)
            elif inner.op == "output":
                _replace(gm, node, torch.fx.node.map_arg(inner.args[0], values.__getitem__))
            elif inner.op == "get_attr":
                name = _fresh_attribute(gm)
                setattr(gm, name, getattr(traced, inner.target))
                values[inner] = gm.graph.get_attr(name)
                values[inner].meta = dict(inner.meta)
            else:
                values[inner] = gm.graph.node_copy(inner, values.__getitem__)
                if "stack_trace" in node.meta:
                    values[inner].meta["stack_trace"] = node.meta["stack_trace"]


def _fresh_attribute(gm: GraphModule) -> str:
    k = 0
    while hasattr(gm, f"_decomposed_constant{k}"):
        k += 1
    return f"_decomposed_constant{k}"


def _replace(gm: GraphModule, node: Node, result: Any) -> None:
    """Point the node's users at the decomposition's result; of a tuple, each `getitem` at its part."""
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(result[user.args[1]])
            gm.graph.erase_node(user)
    gm.graph.erase_node(node)
