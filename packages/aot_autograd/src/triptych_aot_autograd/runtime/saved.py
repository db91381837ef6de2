"""What one call keeps from its forward for its backward, so that the backward frees each value once it has used it.

Autograd holds what `save_for_backward` was given until the backward has returned: a backward graph over all layers of a
model would end with all activations still alive. Values that nobody but the backward can see are therefore kept beside
autograd and handed over; inputs and results of the function go through autograd, which watches for changes in place and
avoids cycles. Where hooks on saved tensors are active, everything goes through autograd, so that the hooks see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from triptych_aot_autograd import _torch_compat as compat


class Saved:
    """Keeps and hands over the saved tensors of the calls of one function, on their autograd contexts."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs  # how many of the saved tensors are inputs of the function

    def keep(self, ctx: Any, inputs: Sequence[Any], values: Sequence[Any], results: Sequence[Any]) -> None:
        """Note saved inputs and saved values, some of which may be results of the function too."""
        visible: Any = range(len(values))
        if not compat.saved_tensor_hooks_active():
            seen = {id(r) for r in results}
            visible = [i for i, v in enumerate(values) if id(v) in seen]
        ctx.save_for_backward(*inputs, *[values[i] for i in visible])
        ctx.visible = visible
        own = list(values)
        for i in visible:
            own[i] = None
        ctx.own = own

    def take(self, ctx: Any, keep: bool) -> list[Any]:
        """Inputs, then values; unless they are to be kept for a further backward, the caller's are the last references.

        Raises: RuntimeError, as torch does, where an earlier backward has freed them.
        """
        through_autograd: Sequence[torch.Tensor] = ctx.saved_tensors
        own = ctx.own
        if own is None:
            raise RuntimeError(compat.FREED_GRAPH)
        if not keep:
            ctx.own = None
        inputs = [*through_autograd[: self._inputs], *own]
        for i, value in zip(ctx.visible, through_autograd[self._inputs :], strict=True):
            inputs[self._inputs + i] = value
        return inputs
