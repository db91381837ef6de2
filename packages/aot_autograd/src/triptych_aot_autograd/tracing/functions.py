"""Rules for whole torch functions, where the ops they would run below autograd cannot be traced.

Recurrent layers pick a kernel by looking at tensor memory; torch has decompositions of them, which its Python
dispatcher uses. Attention is asked for without masks that say nothing (see `attention`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing import recurrent
from triptych_aot_autograd.tracing.attention import MaskReader
from triptych_aot_autograd.tracing.facts import TracedTensor

# Their C++ code asks for plain sizes; torch has them in Python as well.
_OF_PLAIN_SIZES = frozenset({torch.nn.functional.interpolate, compat.pad_sequence})


def _any_symbolic(tensors: Any) -> bool:
    if isinstance(tensors, (list, tuple)):
        return any(map(_any_symbolic, tensors))
    return isinstance(tensors, TracedTensor) and tensors._facts.symbolic


class FunctionRules(TorchFunctionMode):
    """Active while the function is traced."""

    def __init__(self) -> None:
        super().__init__()
        self._masks = MaskReader()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in recurrent.FUNCTIONS:
            return recurrent.run(func, args, kwargs or {})
        if func in _OF_PLAIN_SIZES and _any_symbolic(args[0]):
            with compat.python_dispatcher():
                return func(*args, **(kwargs or {}))
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._masks.attention(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))
