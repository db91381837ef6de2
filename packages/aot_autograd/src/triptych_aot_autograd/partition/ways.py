"""A second way to some values: elementwise, once the small results of a reduction are there.

A normalisation is a reduction, which is not run twice. But when its mean and deviation are kept, its result is a few
sums and products of its input, that code generators compute where they are needed. `way_to` gives for such a node what
the result is made of then, and how to write it. The cut may keep those instead of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from triptych_aot_autograd import _torch_compat as compat

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph

aten = torch.ops.aten
Find = Callable[[Node], Node]


@dataclass(frozen=True)
class Way:
    """statistics: small values that have to be kept; sources: what the value is made of besides.

    write: appends the computation to a graph, in which a function finds the statistics and sources; gives the value.
    always: the forward computes the value in this way as well, since the statistics are its first half.
    """

    statistics: tuple[Node, ...]
    sources: tuple[Node, ...]
    write: Callable[[Graph, Find], Node]
    always: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """All that the value is made of."""
        return (*self.statistics, *self.sources)


class _Writer:
    """Appends calls to a graph; each has the values and the provenance that other nodes have."""

    def __init__(self, graph: Graph, like: Node) -> None:
        self.graph = graph
        self.meta = {k: v for k, v in like.meta.items() if k not in ("val", "facts")}
        value = like.meta["val"]
        self.mode = compat.fake_mode_of(value if isinstance(value, (list, tuple)) else [value])

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        node = self.graph.call_function(target, args, kwargs)
        assert self.mode is not None
        given = map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode, torch.no_grad(), compat.no_autocast():
            value = target(*given[0], **given[1])
        node.meta.update(self.meta, val=value)
        return node

    def as_type(self, node: Node, dtype: torch.dtype) -> Node:
        """The node's value in this type."""
        return node if node.meta["val"].dtype is dtype else self(aten._to_copy.default, node, dtype=dtype)


def _item(node: Node, index: int) -> Node | None:
    """The part of a tuple, if the graph reads it."""
    return next((u for u in node.users if u.target is compat.getitem and u.args[1] == index), None)


def _optional(*values: Any) -> tuple[Node, ...]:
    return tuple([v for v in values if isinstance(v, Node)])


# -- normalisations: (x - mean) * rstd * weight + bias -----------------------------------------------------------------
def _affine(node: Node, x: Node, mean: Node | None, rstd: Node, parts: tuple[Any, Any], axis: int | None) -> Way:
    """axis: that of per-channel numbers; None: the numbers broadcast against `x` as they are."""
    dtype = node.meta["val"].dtype
    behind = 0 if axis is None else x.meta["val"].ndim - axis - 1

    def write(graph: Graph, find: Find) -> Node:
        call = _Writer(graph, node)

        def shaped(source: Node) -> Node:
            found = find(source)
            return call(aten.view.default, found, [-1, *[1] * behind]) if behind else found

        value = find(x)
        if mean is not None:
            value = call(aten.sub.Tensor, value, shaped(mean))
        value = call(aten.mul.Tensor, value, shaped(rstd))
        for op, part in zip((aten.mul.Tensor, aten.add.Tensor), parts, strict=True):
            if isinstance(part, Node):
                value = call(op, value, shaped(part))
        return call.as_type(value, dtype)

    return Way(_optional(mean, rstd), (x, *_optional(*parts)), write)


def _layer_norm(node: Node, op: Node) -> Way | None:
    mean, rstd = _item(op, 1), _item(op, 2)
    if mean is None or rstd is None:
        return None
    x, _, weight, bias = op.args[:4]
    return _affine(node, x, mean, rstd, (weight, bias), None)  # type: ignore[arg-type]


def _rms_norm(node: Node, op: Node) -> Way | None:
    rstd = _item(op, 1)
    return None if rstd is None else _affine(node, op.args[0], None, rstd, (op.args[2], None), None)  # type: ignore[arg-type]


def _batch_norm(node: Node, op: Node, training: bool = True) -> Way | None:
    mean, rstd = _item(op, 1), _item(op, 2)
    if mean is None or rstd is None or not training:
        return None
    return _affine(node, op.args[0], mean, rstd, (op.args[1], op.args[2]), 1)  # type: ignore[arg-type]


NORMALISATIONS: dict[Any, Callable[[Node, Node], Way | None]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_batch_norm.default: lambda node, op: _batch_norm(node, op, op.args[5] is True),
    aten._native_batch_norm_legit.no_stats: lambda node, op: _batch_norm(node, op, op.args[3] is True),
    aten._native_batch_norm_legit_functional.default: lambda node, op: _batch_norm(node, op, op.args[5] is True),
    aten._batch_norm_with_update_functional.default: _batch_norm,
}
if hasattr(aten, "_fused_rms_norm"):
    NORMALISATIONS[aten._fused_rms_norm.default] = _rms_norm
"""Ops whose first result has a second way, which uses their other results."""


def _of_normalisation(node: Node) -> Way | None:
    op = node.args[0]
    rule = NORMALISATIONS.get(op.target)  # type: ignore[union-attr]
    return rule(node, op) if rule is not None else None  # type: ignore[arg-type]


# -- log_softmax: (x - largest) - log(sum(exp(x - largest))) -----------------------------------------------------------
def _of_log_softmax(node: Node) -> Way | None:
    kept = node.meta.get("statistics")
    if kept is None:
        return None
    x: Any = node.args[0]
    dtype = node.meta["val"].dtype

    def write(graph: Graph, find: Find) -> Node:
        call = _Writer(graph, node)
        # Negative, so as not to be the difference whose powers were summed: one value for both would be stored.
        below = call(aten.sub.Tensor, find(kept[0]), call.as_type(find(x), kept[0].meta["val"].dtype))
        return call.as_type(call(aten.neg.default, call(aten.add.Tensor, below, find(kept[1]))), dtype)

    return Way(kept, (x,), write, always=True)


def _split_log_softmax(joint: JointGraph, node: Node) -> None:
    """Its result is as large as its input, often wider: the loss of a language model is a good part of its memory."""
    x: Any = node.args[0]
    value = x.meta["val"]
    if value.ndim == 0:
        return
    wide = torch.float32 if value.dtype in (torch.float16, torch.bfloat16) else value.dtype
    with joint.graph.inserting_before(node):
        call = _Writer(joint.graph, node)
        x = call.as_type(x, wide)
        top = call(aten.amax.default, x, [node.args[1]], True)
        powers = call(aten.exp.default, call(aten.sub.Tensor, x, top))
        norm = call(aten.log.default, call(aten.sum.dim_IntList, powers, [node.args[1]], True))
    node.meta["statistics"] = (top, norm)


# -- indices within a plane: a narrower integer holds them -------------------------------------------------------------
def _narrow_indices(joint: JointGraph, op: Node) -> None:
    node, x = _item(op, 1), op.args[0]
    if node is None or not isinstance(x, Node):
        return
    height, width = x.meta["val"].shape[-2:]
    if type(height) is not int or type(width) is not int:
        return
    dtype = next((d for d in INDICES if height * width - 1 <= torch.iinfo(d).max), None)
    if dtype is None or "statistics" in node.meta:
        return
    with joint.graph.inserting_after(node):
        kept = _Writer(joint.graph, node)(aten._to_copy.default, node, dtype=dtype)
    kept.meta["recompute"] = "MUST_SAVE"  # it and the indices would be made of each other
    node.meta["statistics"] = (kept,)


INDICES = (torch.uint8, torch.int16, torch.int32)


def _of_indices(node: Node) -> Way | None:
    kept = node.meta.get("statistics")
    if kept is None:
        return None
    dtype = node.meta["val"].dtype
    return Way(kept, (), lambda graph, find: _Writer(graph, node).as_type(find(kept[0]), dtype))


# -- all ---------------------------------------------------------------------------------------------------------------
SPLIT: dict[Any, Callable[[JointGraph, Node], None]] = {
    aten._log_softmax.default: _split_log_softmax,
    aten.max_pool2d_with_indices.default: _narrow_indices,
}


def add_statistics(joint: JointGraph) -> None:
    """Puts the statistics that no op gives into the graph, where nothing reads them unless the cut chooses them."""
    for target, rule in SPLIT.items():
        for node in joint.graph.find_nodes(op="call_function", target=target):
            if node.meta.get("phase") == "forward" and "statistics" not in node.meta and _read_by_backward(node):
                rule(joint, node)


def _read_by_backward(node: Node) -> bool:
    return any(
        user.meta.get("phase") == "backward" or (user.target is compat.getitem and _read_by_backward(user))
        for user in node.users
    )


def way_to(node: Node) -> Way | None:
    """The second way to a value of the forward, if there is one."""
    if node.op != "call_function":
        return None
    if node.target is compat.getitem:
        return _of_normalisation(node) if node.args[1] == 0 else _of_indices(node)
    return _of_log_softmax(node) if node.target is aten._log_softmax.default else None
