"""Binding of the C extension to torch: done once, when the first guards are compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from triptych_dynamo import _eval_frame
from triptych_dynamo.guards.facts import TensorFacts

ANY_INDEX = -2  # a device index that is not checked


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The raw set of dispatch keys of a tensor, as `TensorFacts.dispatch_keys` has it."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def bind(direct: bool = True) -> bool:
    """Hand torch's functions to the extension. True when tensor facts are read through the C ABI.

    Args:
        direct: False reads them by attribute, as on a torch without that interface.
    """
    sample = torch.empty(1)
    base: Any = torch._C.TensorBase
    return _eval_frame.init_torch(
        sample, sample._cdata, base, vars(base)["requires_grad"], dispatch_keys, direct=direct
    )


_bound: list[bool] = []


def ensure_bound() -> None:
    """`bind`, the first time."""
    if not _bound:
        _bound.append(bind())


@cache
def dtype_code(dtype: torch.dtype) -> int:
    """The C ABI's number of a dtype."""
    return _eval_frame.tensor_facts(torch.empty(0, dtype=dtype))[0]


@cache
def device_code(device: torch.device) -> tuple[int, int]:
    """The C ABI's numbers of a device: (type, index), the index `ANY_INDEX` for devices that have only one."""
    kind, index = _eval_frame.tensor_facts(torch.empty(0, device=device))[1:]
    return kind, index if device.index is not None else ANY_INDEX


def constant_of(facts: TensorFacts) -> tuple[Any, ...]:
    """The constant of a `tensor` operation."""
    kind, index = device_code(facts.device)
    return (
        facts.cls,
        dtype_code(facts.dtype),
        kind,
        index,
        bool(facts.requires_grad),
        tuple(facts.sizes),
        None if facts.strides is None else tuple(facts.strides),
        facts.dispatch_keys,
        facts.dtype,
        facts.device,
    )
