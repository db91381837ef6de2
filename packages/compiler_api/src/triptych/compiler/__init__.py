"""The `triptych.compiler` namespace: names and meanings of `torch.compiler`, as far as there is something behind them.

Names that concern capture are those of `triptych_dynamo` itself, so that marks set through either are the same.
"""

from __future__ import annotations

from triptych_dynamo import allow_in_graph, assume_constant_result, disable, is_compiling, reset

from triptych.backends import get_default_backend, list_backends, set_default_backend
from triptych.entry import compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "get_default_backend",
    "is_compiling",
    "list_backends",
    "reset",
    "set_default_backend",
]
