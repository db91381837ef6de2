"""Writes into memory that an operand shares in part, which kernels refuse although shape functions take them.

Whether torch refuses hangs on how the two lie in their common memory, which the trace knows. So where an operand of a
write shares the target's memory, or the target's elements share theirs, the call runs once for real on tensors that
lie in the same way, and what torch says against that is raised while tracing. Symbolic sizes have the values of this
call; where torch refuses these, they are fixed.
"""

from __future__ import annotations

import operator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.utils import _pytree

from triptych_dynamo._torch_compat import function_mode_count, transform_level
from triptych_dynamo.trace.trials import error_of

_TEXT = "single memory location"  # what torch writes when it refuses
_WRITING = frozenset(
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "setitem")
)
_MOST = 1 << 24  # elements of a memory that is made to ask


def conflict(target: Any, args: Any, kwargs: Any) -> Exception | None:
    """What torch says against the places of the operands, or None.

    Args:
        target: the name of a method of tensors, or a function.
        args: arguments with fake tensors.
        kwargs: the same by name.
    """
    written = _written(target, args, kwargs)
    if written is None or not _is_plain(written) or function_mode_count() or transform_level():
        return None
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    memory = _memory(written)
    others = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf is not written]
    if not _shares_with_itself(written) and not any(_memory(other) == memory for other in others):
        return None
    if not all(map(_is_plain, others)) or not all(map(_is_known, leaves)):
        return None
    error = _try(target, leaves, spec, written)
    if error is not None:
        for tensor in (written, *others):
            _fix(tensor)
    return error


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _is_known(number: Any) -> bool:
    """Whether a number has a value in this call; what is no symbol has."""
    return type(number) not in _SYMBOLIC or number.node.has_hint()


def _now(number: Any) -> Any:
    """The value in this call, which nothing is to hang on."""
    return number.node.hint if type(number) in _SYMBOLIC else number


def _places(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.shape, *tensor.stride(), tensor.storage_offset())


def _fix(tensor: torch.Tensor) -> None:
    """The trace holds for the values of this call alone."""
    for number in _places(tensor):
        int(number)


def _written(target: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The tensor that a call writes, if it writes one."""
    if isinstance(target, str):
        writes = target.endswith("_") and not target.endswith("__")
    elif isinstance(target, (BuiltinFunctionType, FunctionType)):
        name = target.__name__
        of_torch = (getattr(target, "__module__", "") or "torch").partition(".")[0] == "torch"
        writes = target in _WRITING or (of_torch and name.endswith("_") and not name.endswith("__"))
    else:
        return None
    found = args[0] if writes and args else kwargs.get("out")
    return found if isinstance(found, torch.Tensor) else None


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor's place is known in this call, and can be made again on the CPU."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type not in ("cpu", "cuda"):
        return False
    return all(map(_is_known, _places(tensor)))


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else 0


def _shares_with_itself(tensor: torch.Tensor) -> bool:
    rows = zip(map(_now, tensor.shape), map(_now, tensor.stride()), strict=True)
    return any(stride == 0 and size > 1 for size, stride in rows)


def _try(target: Any, leaves: list[Any], spec: Any, written: torch.Tensor) -> Exception | None:
    nbytes = written.untyped_storage().nbytes()
    if not _is_known(nbytes) or _now(nbytes) // written.dtype.itemsize > _MOST:
        return None
    size = _now(nbytes) // written.dtype.itemsize
    memory = _memory(written)
    buffer = torch.zeros(size, dtype=written.dtype)

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return _now(leaf)
        shape, stride = tuple(map(_now, leaf.shape)), tuple(map(_now, leaf.stride()))
        if _memory(leaf) == memory and leaf.dtype is written.dtype:
            return buffer.as_strided(shape, stride, _now(leaf.storage_offset()))
        return torch.zeros(shape, dtype=leaf.dtype)

    known: dict[int, Any] = {}  # one object stays one: a tensor may be its own operand
    try:
        again = [known.setdefault(id(leaf), made(leaf)) for leaf in leaves]
    except Exception:  # operands that cannot be made so
        return None
    error = error_of(target, *_pytree.tree_unflatten(again, spec))
    return error if error is not None and _TEXT in str(error) else None
