"""The lowering table, and the context a lowering function works in.

A lowering function has the op's own signature with a `Context` before it; tensors arrive as `LazyTensor`, symbolic
sizes as extents. It gives a `LazyTensor`, a tuple or list of them, or `NotImplemented` to leave the call to the
fallback.

    @register_lowering(torch.ops.mylib.twice)
    def twice(ctx, x):
        return ctx.pointwise(lambda v: ctx.ops.add(v, v), x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node as FxNode

from triptych_inductor.ir.builder import Builder
from triptych_inductor.ir.tensors import LazyTensor
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value
from triptych_inductor.lowering.common import pointwise
from triptych_inductor.options import Options

Lowering = Callable[..., Any]

LOWERINGS: dict[Any, Lowering] = {}


def register_lowering(*targets: Any) -> Callable[[Lowering], Lowering]:
    """Decorator: the function lowers `targets`, which are ATen (or custom) op packets or overloads.

    A packet stands for all its overloads; an overload's own entry goes first. Later registrations replace earlier ones.
    """
    for target in targets:
        if not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            raise TypeError(f"register_lowering takes ops such as torch.ops.aten.relu, not {target!r}")

    def register(fn: Lowering) -> Lowering:
        for target in targets:
            LOWERINGS[target] = fn
        return fn

    return register


def find_lowering(target: Any) -> Lowering | None:
    """The function for an overload, its own or its packet's; None where there is none."""
    found = LOWERINGS.get(target)
    if found is None and isinstance(target, torch._ops.OpOverload):
        if target._overloadname.endswith("out"):
            return None
        found = LOWERINGS.get(target.overloadpacket)
    return found


def foreign_lowering(target: Any) -> bool:
    """Whether the function that lowers `target` was registered by somebody else than this package."""
    found = find_lowering(target)
    return found is not None and not str(getattr(found, "__module__", "")).startswith("triptych_inductor.")


class Context:
    """What a lowering function may ask: the builder, the node's expected result and the number of its users."""

    __slots__ = ("builder", "node", "options")

    def __init__(self, builder: Builder, node: FxNode, options: Options) -> None:
        self.builder = builder
        self.node = node
        self.options = options

    @property
    def expected(self) -> Any:
        """The fake result: a tensor, a tuple of tensors, a SymInt ..."""
        return self.node.meta["val"]

    @property
    def dtype(self) -> torch.dtype:
        """The result's dtype."""
        return self.expected.dtype

    @property
    def device(self) -> torch.device:
        return self.expected.device

    ops = ops
    """The functions of loop bodies (`loops/vocabulary.md`)."""

    def pointwise(self, fn: Callable[..., Value], *operands: Any, weight: int = 4) -> LazyTensor:
        """`fn` of the operands' elements, broadcast and promoted as torch does; the result has the expected dtype."""
        return pointwise(fn, *operands, dtype=self.dtype, weight=weight)
