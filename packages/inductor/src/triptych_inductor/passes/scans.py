"""Scans from the end: `flip(cumsum(flip(x)))`, which the gradient of every `cumsum` is, becomes one call."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
RUNNING = frozenset({aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default})


def scan_from_the_end(op: Any, x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The running results of `op` (a member of `RUNNING`) along `dim`, the last element first."""
    named = {} if dtype is None else {"dtype": dtype}
    return op(x.flip(dim), dim, **named).flip(dim)


def reverse_scans(gm: GraphModule) -> None:
    """In: any graph. Out: scans between two flips along their dimension are scans from the end."""
    for last in list(gm.graph.find_nodes(op="call_function", target=aten.flip.default)):
        scan = last.args[0]
        if not isinstance(scan, Node) or scan.target not in RUNNING or len(scan.users) != 1:
            continue
        first, dim = scan.args[0], scan.args[1]
        if not isinstance(first, Node) or first.target is not aten.flip.default or not isinstance(dim, int):
            continue
        rank = last.meta["val"].ndim
        if not _along(last.args[1], dim, rank) or not _along(first.args[1], dim, rank):
            continue
        with gm.graph.inserting_before(last):
            made = gm.graph.call_function(scan_from_the_end, (scan.target, first.args[0], dim), dict(scan.kwargs))
        made.meta = dict(last.meta)
        last.replace_all_uses_with(made)
        for node in (last, scan, first):
            if not node.users:
                gm.graph.erase_node(node)


def _along(dims: Any, dim: int, rank: int) -> bool:
    """Whether a flip is along one dimension alone."""
    return rank > 0 and len(dims) == 1 and dims[0] % rank == dim % rank
