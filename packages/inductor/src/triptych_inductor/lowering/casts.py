"""Casts of many small weights by one library call.

Under autocast each weight of a convolution or product is cast when the graph runs. Weights of one size share a kernel
of ours; a network of many small weights of all sizes would launch one for each. These are cast some megabytes at a time
by torch's multi-tensor copy, before the first of them is needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph
from torch.fx import Node as FxNode

from triptych_inductor.ir.alignment import PRODUCTS, VIEWS, packet_of, room_for
from triptych_inductor.ir.builder import Builder
from triptych_inductor.ir.extents import as_extents
from triptych_inductor.ir.tensors import LazyTensor, new_buffer
from triptych_inductor.loops.table import HALF

aten = torch.ops.aten

DEVICES = frozenset({"cuda"})  # where a launch costs more than a small cast
SMALL = 1 << 21  # elements of a weight that is not worth a kernel of its own
FIRST = 1 << 16  # bytes of the results of the first call: what is taken before it is needed. Each call takes four times
BYTES = 16 << 20  # the one before, up to this: a network of images begins with small weights and large activations
FEWEST = 4  # casts in one call

_USERS = PRODUCTS | {aten.bmm, aten.convolution}


class CastBatches:
    """Which cast nodes of a graph are made together, and their results once they are."""

    def __init__(self, graph: Graph) -> None:
        self._batch: dict[FxNode, list[FxNode]] = {}
        self._made: dict[FxNode, LazyTensor] = {}
        for batch in _batches([n for n in graph.nodes if _is_small_cast(n)]):
            self._batch.update(dict.fromkeys(batch, batch))

    def result(self, node: FxNode, builder: Builder, env: dict[FxNode, Any]) -> LazyTensor | None:
        """The result of a node that is in a batch, which is cast now if it has not been; None for other nodes."""
        batch = self._batch.get(node)
        if batch is None:
            return None
        if node not in self._made:
            results = [_empty(n, builder) for n in batch]
            targets = [r.strided for r in results]
            names = frozenset(t.buffer.name for t in targets if t is not None)
            sources = [env[n.args[0]] for n in batch]  # type: ignore[index]
            builder.extern("torch._foreach_copy_", (targets, sources), {}, [], mutates=names)
            self._made.update(zip(batch, results, strict=True))
        return self._made[node]


def _empty(node: FxNode, builder: Builder) -> LazyTensor:
    value = node.meta["val"]
    stride = as_extents(value.stride())
    return builder.of_buffer(new_buffer(builder, as_extents(value.shape), stride, value.dtype, value.device))


def _is_small_cast(node: FxNode) -> bool:
    """A cast of an input to a half type, in the input's layout, that only library calls read."""
    if node.target is not aten._to_copy.default or set(node.kwargs) - {"dtype", "layout", "device"}:
        return False
    source, value = node.args[0], node.meta.get("val")
    if not isinstance(source, FxNode) or source.op != "placeholder" or not isinstance(value, torch.Tensor):
        return False
    before = source.meta["val"]
    if value.dtype not in HALF or value.device.type not in DEVICES or before.device != value.device:
        return False
    static = all(type(n) is int for n in (*value.shape, *value.stride(), *before.stride()))
    if not static or value.numel() > SMALL or before.stride() != value.stride() or not before.is_contiguous():
        return False
    return room_for(node, value) is None and _only_read_by_libraries(node)


def _only_read_by_libraries(node: FxNode) -> bool:
    for user in node.users:
        packet = packet_of(user)
        if packet in VIEWS:
            if not _only_read_by_libraries(user):
                return False
        elif packet is aten.convolution:
            size = node.meta["val"].shape
            if len(size) == 4 and size[1] > 1 and size[2] * size[3] > 1:
                return False  # it may be wanted channels-last, which is another order in memory
        elif packet not in _USERS and user.op != "output":
            return False
    return bool(node.users)


def _batches(nodes: list[FxNode]) -> list[list[FxNode]]:
    """Nodes of one kind in program order, in batches from `FIRST` up to `BYTES`, or of the fewest nodes.

    The last is left out if it is of too few.
    """
    kinds: dict[Any, list[list[FxNode]]] = {}
    room: dict[Any, int] = {}
    for node in nodes:
        value = node.meta["val"]
        kind = (node.args[0].meta["val"].dtype, value.dtype, value.device)  # type: ignore[union-attr]
        size = value.numel() * value.dtype.itemsize
        if kind not in kinds or (size > room[kind] and len(kinds[kind][-1]) >= FEWEST):
            kinds.setdefault(kind, []).append([])
            room[kind] = min(BYTES, FIRST << 2 * (len(kinds[kind]) - 1))
        kinds[kind][-1].append(node)
        room[kind] -= size
    return [batch for batches in kinds.values() for batch in batches if len(batch) >= FEWEST]
