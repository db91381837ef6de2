"""Functional forms of ops that write their arguments: the writing op is called on memory of the graph's own.

Such an op has the attribute `writing_op` (the original, by whose schema some arguments are written) and returns the
original's results, then the new value of each written argument. What nobody else reads, fresh memory most of all, is
written where it lies; anything else is copied first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.nodes import leaves, map_leaves
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.lowering.registry import Context

aten = torch.ops.aten
_FRESH = frozenset(
    {
        *(aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided),
        *(aten.zeros, aten.zeros_like, aten.new_zeros, aten.ones, aten.ones_like, aten.full, aten.full_like),
        *(aten.new_full, aten.clone),
    }
)


def lower_writing(ctx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of `ctx.node`, whose target has a `writing_op`; NotImplemented for what is no plain tensor."""
    original = ctx.node.target.writing_op
    arguments = original._schema.arguments
    written = [k for k, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    given = dict(enumerate(args)) | {k: kwargs[a.name] for k, a in enumerate(arguments) if a.name in kwargs}
    if original._schema.returns or not all(
        isinstance(leaf, LazyTensor) for k in written for leaf in leaves(given.get(k))
    ):
        return NotImplemented
    nodes = {k: ctx.node.args[k] if k < len(args) else None for k in written}
    results = {k: _memories(ctx, nodes[k], given[k]) for k in written}
    own = [results.get(k, value) for k, value in enumerate(args)]
    named = {a.name: results.get(k, given[k]) for k, a in enumerate(arguments) if a.name in kwargs}
    windows = [ctx.builder.realise(value) for value in leaves(list(results.values()))]
    for window in windows:
        window.buffer.aliased = True  # written behind the scheduler's back: never shared with another buffer
    names = frozenset(w.buffer.name for w in windows)
    ctx.builder.extern(original, own, named, [None], fallback=True, ordered=True, mutates=names)
    ctx.builder.graph.fallbacks[str(original)] = ctx.builder.graph.fallbacks.get(str(original), 0) + 1
    each = iter(windows)
    made = [map_leaves(lambda leaf: ctx.builder.of_buffer(next(each).buffer), results[k]) for k in written]
    return made[0] if len(made) == 1 else made


def _memories(ctx: Context, node: Any, value: Any) -> Any:
    """`_memory` of a tensor or of each in a list."""
    if isinstance(value, LazyTensor):
        return _memory(ctx, node, value)
    nodes = node if isinstance(node, (list, tuple)) else [None] * len(value)
    return [_memory(ctx, one, item) for one, item in zip(nodes, value, strict=True)]


def _memory(ctx: Context, node: Any, value: LazyTensor) -> LazyTensor:
    """Memory that holds a written argument's old value and may be overwritten."""
    if isinstance(node, FxNode) and _is_fresh(node):
        window = ctx.builder.realise(value)
        if window.is_whole and window.buffer.kind == "temporary" and not window.buffer.aliased:
            return value
    stride = as_extents(node.meta["val"].stride()) if isinstance(node, FxNode) else value.stride
    return ctx.builder.of_buffer(ctx.builder.copy(value, stride).buffer)  # type: ignore[arg-type]


def _is_fresh(node: FxNode) -> bool:
    """Whether a node makes memory of its own that only one other node sees."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.overloadpacket in _FRESH and len(node.users) == 1
