"""`torch.utils.checkpoint.checkpoint`: the function is inlined, its nodes are marked for being computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.utils.checkpoint

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.builtin_functions import builtin

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


@builtin(torch.utils.checkpoint.checkpoint)
def _checkpoint(tx: Frame, function: Value, *args: Value, **kwargs: Value) -> Value:
    """Values and gradients are those of the plain call. `meta["recompute"]` numbers the region a node belongs to."""
    graph = tx.trace.graph.graph
    before = set(graph.nodes)
    rest = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
    result = tx.call(function, list(args), rest)
    region = 1 + max((node.meta.get("recompute", 0) for node in before), default=0)
    for node in graph.nodes:
        if node not in before and node.op != "placeholder":
            node.meta.setdefault("recompute", region)
    return result
