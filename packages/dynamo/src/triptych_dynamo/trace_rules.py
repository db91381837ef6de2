"""Which frames, reached under a compiled callable and not inlined, are worth compiling on their own."""

from __future__ import annotations

import inspect
import os
import sysconfig
from types import CodeType

import torch

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_STDLIB = sysconfig.get_paths()["stdlib"]
_SITE = sysconfig.get_paths()["purelib"]
_TORCH_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep
_AUTOGRAD_FUNCTIONS = os.path.join(_TORCH_MODULES, "_functions.py")  # their `forward` is no module's
# Libraries without tensor programs of their own, by folder.
_LIBRARIES = tuple(
    os.path.join(_SITE, name) + os.sep
    for name in ("numpy", "sympy", "networkx", "_pytest", "pytest", "hypothesis", "rich", "pluggy", "mpmath", "triton")
)
_ALGEBRA = tuple(os.path.join(_SITE, name) + os.sep for name in ("sympy", "mpmath"))
_OURS = ("triptych_dynamo", "triptych_aot_autograd", "triptych_inductor", "triptych")


def is_skipped(code: CodeType) -> bool:
    """Whether frames of `code` run as they are; frames under them are still looked at."""
    flags = code.co_flags
    if not flags & inspect.CO_OPTIMIZED or not flags & inspect.CO_NEWLOCALS:  # a module or class body
        return True
    path = code.co_filename
    if path.startswith("<"):
        return path != "<stdin>" and not path.startswith("<ipython")
    if path.startswith(_TORCH + os.sep):
        is_module = path.startswith(_TORCH_MODULES) and path != _AUTOGRAD_FUNCTIONS
        return not (is_module and code.co_name == "forward")
    if path.startswith(_LIBRARIES):
        return True
    if path.startswith(_STDLIB) and not path.startswith(_SITE):
        return True
    return _is_ours(path)


def is_of_torch(code: CodeType) -> bool:
    """Whether `code` is torch's, or of the algebra under its sizes."""
    return code.co_filename.startswith((_TORCH + os.sep, *_ALGEBRA))


def is_of_compiler(module: str) -> bool:
    """Whether a module of this name is ours."""
    return module.partition(".")[0] in _OURS


def _is_ours(path: str) -> bool:
    parts = path.split(os.sep)
    return path.startswith(_PACKAGE) or any(part in _OURS and "tests" not in parts for part in parts[:-1])
