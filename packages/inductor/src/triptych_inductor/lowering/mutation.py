"""Writing results back into graph inputs: the `copy_` epilogue of functional graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.lowering.common import broadcast, to_dtype
from triptych_inductor.lowering.registry import Context, register_lowering

aten = torch.ops.aten


@register_lowering(aten.copy_.default)
def copy_(ctx: Context, target: LazyTensor, source: LazyTensor, non_blocking: bool = False) -> Any:
    window = ctx.builder.realise(target)
    if source.device != target.device:
        return NotImplemented
    if source.strided is not None and source.strided == window:
        return target
    value_node = ctx.node.args[1]
    again = isinstance(value_node, FxNode) and len(value_node.users) > 1
    ctx.builder.finish_readers(window.buffer.name, source, again)
    value = to_dtype(broadcast(source, target)[0], target.dtype)
    ctx.builder.store(value, window)
    return target


@register_lowering(aten.copy.default)
def copy(ctx: Context, target: LazyTensor, source: LazyTensor, non_blocking: bool = False) -> Any:
    if source.device != target.device:
        return NotImplemented
    return to_dtype(broadcast(source, target)[0], target.dtype)
