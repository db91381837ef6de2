"""Binding of the C extension to torch: done once, when the first guards are compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from triptych_dynamo import _eval_frame
from triptych_dynamo._torch_compat import TensorBase, dispatch_keys
from triptych_dynamo.guards.facts import TensorFacts

ANY_INDEX = -2  # a device index that is not checked
ANY_FLAG = -1  # a flag that is not checked


def bind(direct: bool = True) -> bool:
    """Hand torch's functions to the extension. True when tensor facts are read through the C ABI.

    Args:
        direct: False reads them by attribute, as on a torch without that interface.
    """
    sample = torch.empty(1, dtype=torch.get_default_dtype(), device="cpu", requires_grad=True)
    others = (torch.empty(1, dtype=torch.complex64, device="cpu").conj(), torch.empty(1, device="meta"))
    bound = _eval_frame.init_torch(
        (sample, *others),
        sample._cdata,
        TensorBase,
        vars(TensorBase)["requires_grad"],
        dispatch_keys,
        torch.is_inference_mode_enabled(),
        direct=direct,
    )
    if not _state_follows_modes():
        _eval_frame.forget_dispatch_state()
    return bound


def _state_follows_modes() -> bool:
    """Whether the words of `dispatch_state` change with a mode and change back: a check of what the extension found."""
    device = "cpu"
    before, enabled = _eval_frame.dispatch_state(), torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, not enabled)
    inside = _eval_frame.dispatch_state()
    torch.set_autocast_enabled(device, enabled)
    with torch.inference_mode(not torch.is_inference_mode_enabled()):
        inferring = _eval_frame.dispatch_state()
    return before not in (inside, inferring) and before == _eval_frame.dispatch_state()


_bound: list[bool] = []


def ensure_bound() -> None:
    """`bind`, the first time."""
    if not _bound:
        _bound.append(bind())


def _codes(**where: Any) -> tuple[int, int, int]:
    sample = torch.empty(0, **where)
    if type(sample) is not torch.Tensor:
        raise RuntimeError("guards are compiled outside of tensor modes")
    return _eval_frame.tensor_facts(sample)


@cache
def dtype_code(dtype: torch.dtype) -> int:
    """The C ABI's number of a dtype."""
    return _codes(dtype=dtype, device="cpu")[0]


@cache
def device_code(device: torch.device) -> tuple[int, int]:
    """The C ABI's numbers of a device: (type, index), the index `ANY_INDEX` for devices that have only one."""
    kind, index = _codes(device=device)[1:]
    return kind, index if device.index is not None else ANY_INDEX


def constant_of(facts: TensorFacts) -> tuple[Any, ...]:
    """The constant of a `tensor` operation."""
    kind, index = device_code(facts.device)
    return (
        facts.cls,
        dtype_code(facts.dtype),
        kind,
        index,
        ANY_FLAG if facts.requires_grad is None else int(facts.requires_grad),
        tuple(facts.sizes),
        None if facts.strides is None else tuple(facts.strides),
        facts.dispatch_keys,
        facts.dtype,
        facts.device,
        facts.key_mask,
    )
