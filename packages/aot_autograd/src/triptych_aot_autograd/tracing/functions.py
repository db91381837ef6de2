"""Rules for whole torch functions, where the ops they would run below autograd cannot be traced.

Recurrent layers pick a kernel by looking at tensor memory; torch has decompositions of them, which its Python
dispatcher uses. Attention is asked for without masks that say nothing (see `attention`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing.attention import MaskReader

BY_PYTHON_DISPATCHER = frozenset(compat.recurrent_functions)


class FunctionRules(TorchFunctionMode):
    """Active while the function is traced."""

    def __init__(self) -> None:
        super().__init__()
        self._masks = MaskReader()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in BY_PYTHON_DISPATCHER:
            args = (_as_differentiable(args), *args[1:])
            with compat.python_dispatcher():
                return func(*args, **(kwargs or {}))
        if func is torch.nn.functional.interpolate and args[0]._facts.symbolic:  # the C++ code asks for plain sizes
            with compat.python_dispatcher():
                return func(*args, **(kwargs or {}))
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._masks.attention(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _as_differentiable(args: Any) -> Any:
    """The input of a recurrent layer, marked as requiring a gradient when any argument does.

    torch's decomposition takes a kernel without a backward when the input alone requires none.
    """
    source = args[0]
    if not torch.is_grad_enabled() or source.requires_grad or not source.dtype.is_floating_point:
        return source
    others = any(isinstance(t, torch.Tensor) and t.requires_grad for t in tree_leaves(args))
    return source.detach().requires_grad_() if others else source
