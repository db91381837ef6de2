"""Types that a kernel refuses although shape functions take them: a product of booleans, a difference from `True`.

Compiled code would compute such a call. So a call of a kind that was not met before, with operands that are not all of
one floating type, runs once for real on tensors of two elements a side; what torch says against the types is raised
while tracing. Errors that usual types meet as well come from the stand-ins and mean nothing.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.utils import _pytree

from triptych_dynamo._torch_compat import function_mode_count, transform_level
from triptych_dynamo.trace.trials import error_of

# What torch writes when it refuses types.
_TEXTS = ("implemented for", "support", "dtype", "can't be cast", "result type", "alpha", "Integ", "scalar type")
# What is asked: operations on single elements, reductions, products, and reads and writes at places that tensors tell
# (zeros here), whose kernels take tensors of any size. (With stand-ins that do not fit together, kernels of other kinds
# may do anything.)
_ASKED = frozenset(
    {
        *("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow"),
        *(
            "remainder",
            "fmod",
            "and",
            "or",
            "xor",
            "lshift",
            "rshift",
            "invert",
            "neg",
            "negative",
            "truediv",
            "matmul",
        ),
        *("floordiv", "mod", "radd", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "abs", "absolute"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift"),
        *("maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "gcd", "lcm", "xlogy", "logaddexp", "heaviside"),
        *("addcmul", "addcdiv", "lerp", "clamp", "clip", "sign", "sgn", "signbit", "frac", "erf", "erfinv", "lgamma"),
        *("digamma", "i0", "logit", "relu", "gelu", "silu", "elu", "celu", "selu", "mish", "softplus", "hardtanh"),
        *("hardswish", "leaky_relu", "logsigmoid", "softsign", "softmax", "log_softmax", "logsumexp", "logcumsumexp"),
        *("std", "var", "mean", "median", "nanmedian", "nansum", "amax", "amin", "max", "min", "argmax", "argmin"),
        *("sort", "argsort", "topk", "kthvalue", "mode", "cummax", "cummin", "mm", "bmm", "dot", "mv", "addmm"),
        *(
            "index_put",
            "index_copy",
            "index_add",
            "index_fill",
            "index_reduce",
            "index_select",
            "masked_fill",
            "setitem",
        ),
        *("masked_scatter", "scatter", "scatter_add", "scatter_reduce", "gather", "put", "take", "take_along_dim"),
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "lt", "le", "gt", "ge"),
    }
)
# Fewest tensors with which a call is asked: assignments without a tensor as index convert what is assigned.
_FEWEST = {"setitem": 3}
_known: dict[Any, Exception | None] = {}


def refusal(target: Any, args: Any, kwargs: Any) -> Exception | None:
    """What torch says against the types of the operands, or None.

    Args:
        target: the name of a method of tensors, or a function.
        args: arguments with fake tensors.
        kwargs: the same by name.
    """
    name = _name_asked(target)
    if name is None:
        return None
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(tensors) < _FEWEST.get(name, 1) or not _are_mixed(tensors, leaves) or not all(map(_is_plain, tensors)):
        return None
    key = (target, spec, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), *map(_kind, leaves))
    try:
        if key not in _known:
            _known[key] = _try(target, leaves, spec)
    except TypeError:  # an argument without a hash
        return None
    return _known[key]


def _name_asked(target: Any) -> str | None:
    """The name of a call that is asked about; None for others."""
    if isinstance(target, str):
        name = target.strip("_") if target.startswith("__") else target
    elif isinstance(target, (BuiltinFunctionType, FunctionType)):
        if (getattr(target, "__module__", "") or "torch").partition(".")[0] not in ("torch", "_operator"):
            return None
        name = target.__name__
    else:
        return None
    name = name.rstrip("_")
    return name if name in _ASKED and not function_mode_count() and not transform_level() else None


def _are_mixed(tensors: list[torch.Tensor], leaves: list[Any]) -> bool:
    """Whether there is more than one type, or one of few kernels."""
    first = tensors[0].dtype
    if not first.is_floating_point or any(tensor.dtype is not first for tensor in tensors):
        return True
    return any(type(leaf) in (bool, complex) for leaf in leaves)


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.is_quantized


def _kind(leaf: Any) -> Any:
    """What the answer hangs on: types, ranks, and all that is no tensor."""
    if isinstance(leaf, torch.Tensor):
        return ("tensor", leaf.dtype, leaf.ndim, leaf.requires_grad)
    return (type(leaf), leaf if not isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) else None)


def _stand_in(leaf: Any, usual: torch.dtype | None) -> Any:
    """A small tensor or number in place of an operand; `usual`: of this type, for one of another."""
    if isinstance(leaf, torch.Tensor):
        shape = [1 if isinstance(size, int) and size == 1 else 2 for size in leaf.shape]
        masking = leaf.dtype is torch.bool and usual is None
        return torch.full(shape, masking, dtype=usual or leaf.dtype)  # a mask that takes all: as many as are assigned
    if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return 1
    unusual = (bool, complex) if usual is torch.float32 else (bool, complex, float)
    return 1 if usual and type(leaf) in unusual else leaf


def _try(target: Any, leaves: list[Any], spec: Any) -> Exception | None:
    error = _error_of(target, leaves, spec, None)
    if error is None or not any(text in str(error) for text in _TEXTS):
        return None
    controls = [_error_of(target, leaves, spec, usual) for usual in (torch.float32, torch.int64)]
    return error if None in controls else None


def _error_of(target: Any, leaves: list[Any], spec: Any, usual: torch.dtype | None) -> Exception | None:
    return error_of(target, *_pytree.tree_unflatten([_stand_in(leaf, usual) for leaf in leaves], spec))
