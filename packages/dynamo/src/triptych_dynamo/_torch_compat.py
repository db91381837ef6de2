"""The private names of torch that capture needs, in one place, with the differences between supported releases."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
)

__all__ = [
    "CANNOT_FAKE",
    "DimDynamic",
    "FakeTensor",
    "FakeTensorMode",
    "ShapeEnv",
    "is_fake",
    "make_fake_mode",
    "tensor_version",
]

# What a fake run raises when shapes alone do not tell the result: a limit of tracing, not an error of the program.
CANNOT_FAKE: tuple[type[BaseException], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)


def make_fake_mode(shape_env: ShapeEnv) -> FakeTensorMode:
    """A fake tensor mode over `shape_env` that lets constants (real tensors of the program) be mixed in."""
    return FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)


def is_fake(obj: Any) -> bool:
    """Whether `obj` is a fake tensor."""
    return isinstance(obj, FakeTensor)


def tensor_version(tensor: torch.Tensor) -> int:
    """How often the tensor was written in place; -1 for inference tensors, which do not count."""
    return -1 if tensor.is_inference() else tensor._version
