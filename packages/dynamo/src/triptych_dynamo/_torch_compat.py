"""The private names of torch that capture needs, in one place, with the differences between supported releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import Source as TorchSource
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx._symbolic_trace import is_fx_symbolic_tracing as is_symbolic_tracing
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
)

__all__ = [
    "CANNOT_FAKE",
    "FakeTensor",
    "FakeTensorMode",
    "ShapeEnv",
    "TensorBase",
    "dispatch_keys",
    "dispatch_mode_count",
    "function_mode_count",
    "enable_python_dispatcher",
    "is_fake",
    "is_symbolic_tracing",
    "make_fake_mode",
    "mark_dim",
    "new_symbol",
    "symbolic_int",
    "tensor_version",
    "transform_level",
    "user_marks",
]

# What a fake run raises when shapes alone do not tell the result: a limit of tracing, not an error of the program.
CANNOT_FAKE: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)

# Where torch's own marking functions and ours leave their marks on a tensor.
_DYNAMIC_MARKS = ("_triptych_dynamic_dims", "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
_STATIC_MARKS = ("_triptych_static_dims", "_dynamo_static_indices")


class NamedSource(TorchSource):
    """The name that torch's shape environment wants for a symbol."""

    def __init__(self, name: str) -> None:
        self._text = name

    @property
    def _name_template(self) -> str:
        return self._text

    @property
    def name(self) -> str:
        """The text of the source."""
        return self._text

    def guard_source(self) -> Any:
        """Not used: guards are our own."""
        return None


def make_fake_mode(shape_env: ShapeEnv) -> FakeTensorMode:
    """A fake tensor mode over `shape_env` that lets constants (real tensors of the program) be mixed in."""
    return FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)


def new_symbol(shape_env: ShapeEnv, value: int, name: str, *, duck: bool) -> Any:
    """A sympy symbol for a number that is `value` in this run.

    With `duck` it is a size (at least 2), and sizes that are equal now share a symbol; else any integer.
    """
    if duck:
        return shape_env.create_symbol(value, NamedSource(name), DimDynamic.DUCK)
    return shape_env.create_symbol(
        value, NamedSource(name), DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True
    )


def symbolic_int(shape_env: ShapeEnv, expression: Any) -> Any:
    """A SymInt of a sympy expression over symbols of `shape_env`."""
    hint = int(expression.xreplace(dict(shape_env.backed_var_to_val)))
    return shape_env.create_symintnode(expression, hint=hint)


def is_fake(obj: Any) -> bool:
    """Whether `obj` is a fake tensor."""
    return isinstance(obj, FakeTensor)


def tensor_version(tensor: torch.Tensor) -> int:
    """How often the tensor was written in place; -1 for inference tensors, which do not count."""
    return -1 if tensor.is_inference() else tensor._version


def user_marks(tensor: torch.Tensor) -> tuple[frozenset[int], frozenset[int]]:
    """The dimensions that the user marked as dynamic, and as static."""
    dynamic: set[int] = set()
    static: set[int] = set()
    if tensor.__dict__:
        for name in _DYNAMIC_MARKS:
            dynamic.update(tensor.__dict__.get(name, ()))
        for name in _STATIC_MARKS:
            static.update(tensor.__dict__.get(name, ()))
    return frozenset(dynamic), frozenset(static)


def mark_dim(tensor: torch.Tensor, dims: int | list[int] | tuple[int, ...] | None, *, dynamic: bool) -> None:
    """Leave a mark for `user_marks`; None marks every dimension."""
    if dims is None:
        chosen: list[int] = list(range(tensor.ndim))
    else:
        chosen = [dims] if isinstance(dims, int) else list(dims)
    name = _DYNAMIC_MARKS[0] if dynamic else _STATIC_MARKS[0]
    marks = set(tensor.__dict__.get(name, ()))
    marks.update(dim % max(tensor.ndim, 1) for dim in chosen)
    setattr(tensor, name, marks)


TensorBase: Any = torch._C.TensorBase  # the class in C whose objects hold the tensor's pointer


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The raw set of dispatch keys of a tensor."""
    return torch._C._dispatch_keys(tensor).raw_repr()


dispatch_mode_count: Callable[[], int] = torch._C._len_torch_dispatch_stack
function_mode_count: Callable[[], int] = torch._C._len_torch_function_stack


def transform_level() -> int:
    """How many transforms (vmap, grad ...) are under way; 0 outside of all."""
    return torch._C._functorch.maybe_current_level() or 0
