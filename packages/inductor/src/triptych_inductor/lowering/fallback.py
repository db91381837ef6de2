"""Declared fallbacks: ATen (or custom) ops called as they are, counted in the graph's `fallbacks`."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch

from triptych_inductor._torch_compat import expression, written_expression
from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.nodes import Buffer, Strided, leaves, map_leaves
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.lowering.registry import Context
from triptych_inductor.lowering.writing import lower_writing

# Ops that draw from the global generator (beyond those tagged) keep their order among each other.
_TAG_RANDOM = torch.Tag.nondeterministic_seeded


def output_buffer(ctx: Context, value: torch.Tensor) -> Buffer:
    """The buffer for a fake result that a call allocates itself."""
    strided = value.layout is torch.strided
    return Buffer(
        ctx.builder.fresh_name("buf"),
        as_extents(value.shape),
        as_extents(value.stride()) if strided else (),
        value.dtype,
        value.device,
        kind="extern",
    )


def lower_fallback(ctx: Context, args: tuple[Any, ...], kwargs: dict[str, Any], counted: bool = True) -> Any:
    """Call the node's own target on realised arguments; its results become buffers."""
    if hasattr(ctx.node.target, "writing_op"):
        found = lower_writing(ctx, args, kwargs)
        if found is not NotImplemented:
            return found
    if ctx.builder.channels_last:
        args, kwargs = map_leaves(_as_in_eager, args), map_leaves(_as_in_eager, kwargs)
    target = ctx.node.target
    value = ctx.expected
    single = not isinstance(value, (tuple, list))
    values = [value] if single else list(leaves(value))
    flat = single or len(values) == len(value)
    places = count()
    outputs = [output_buffer(ctx, v) if isinstance(v, torch.Tensor) else None for v in values]
    mutated, aliased = _effects(ctx, target, args, kwargs)
    if aliased:
        for buffer in outputs:
            if buffer is not None:
                buffer.aliased = True
    symbols = {
        written_expression(v): k
        for k, v in enumerate(values)
        if isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool))
    }
    results = ctx.builder.extern(
        target,
        args,
        kwargs,
        outputs,
        single=single,
        fallback=counted,
        ordered=_is_ordered(target),
        symbols=symbols,
        mutates=frozenset(mutated),
        nest=None if flat else map_leaves(lambda leaf: next(places), value),
    )
    for value_ in values:
        if isinstance(value_, torch.SymFloat):
            ctx.builder.number(expression(value_))
    name = str(target)
    if counted:
        ctx.builder.graph.fallbacks[name] = ctx.builder.graph.fallbacks.get(name, 0) + 1
    final = [r if r is not None else _number(v) for r, v in zip(results, values, strict=True)]
    if flat:
        return final[0] if single else final
    each = iter(final)
    return map_leaves(lambda leaf: next(each), value)


def _as_in_eager(leaf: Any) -> Any:
    """An argument in the layout that eager would give it: the call's own result layout depends on it."""
    if isinstance(leaf, LazyTensor) and leaf.stride is not None:
        return leaf.builder.realise_with(leaf, leaf.stride)
    return leaf


def _number(value: Any) -> Any:
    """A non-tensor result: the expression of its symbol, or the plain value."""
    if isinstance(value, torch.SymBool):
        return written_expression(value)
    return expression(value) if isinstance(value, (torch.SymInt, torch.SymFloat)) else value


def _is_ordered(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return True
    return _TAG_RANDOM in target.tags or not target._schema.returns or target._schema.is_mutable


def _effects(ctx: Context, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[set[str], bool]:
    """Names of buffers that the call writes in place, and whether results share memory with arguments."""
    if not isinstance(target, torch._ops.OpOverload):
        return set(), True
    mutated: set[str] = set()
    aliased = False
    for position, argument in enumerate(target._schema.arguments):
        info = argument.alias_info
        if info is None:
            continue
        given = args[position] if position < len(args) else kwargs.get(argument.name)
        for leaf in leaves(given):
            if isinstance(leaf, (LazyTensor, Strided)):
                window = ctx.builder.realise(leaf) if isinstance(leaf, LazyTensor) else leaf
                window.buffer.aliased = True
                aliased = True
                if info.is_write:
                    mutated.add(window.buffer.name)
    return mutated, aliased
