"""Rules for whole torch functions, where the ops they would run below autograd cannot be traced.

Recurrent layers pick a kernel by looking at tensor memory; torch has decompositions of them, which its Python
dispatcher uses.
"""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from triptych_aot_autograd import _torch_compat as compat

BY_PYTHON_DISPATCHER = frozenset(compat.recurrent_functions)


class FunctionRules(TorchFunctionMode):
    """Active while the function is traced."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in BY_PYTHON_DISPATCHER:
            with compat.python_dispatcher():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))
