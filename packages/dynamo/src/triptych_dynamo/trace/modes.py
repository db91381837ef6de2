"""The modes of torch that a trace sets for real while it runs (gradients, autocast, defaults), and the guards
on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import (
    dispatch_mode_count,
    function_mode_count,
    set_saved_tensor_hooks_message,
    transform_level,
    without_saved_tensor_hooks,
)

if TYPE_CHECKING:
    from triptych_dynamo.trace.trace import Trace

_AUTOCAST_DEVICES = ("cpu", "cuda")


# Numbers of modes of torch that see every call; frames under them run as they are (`under_active_modes`).
ACTIVE_MODES: dict[str, Callable[[], int]] = {
    "dispatch_modes": dispatch_mode_count,
    "function_modes": function_mode_count,
    "function_transforms": transform_level,
}


def under_active_modes() -> bool:
    """Whether a torch function or dispatch mode, or a function transform, is active around the call."""
    return any(count() for count in ACTIVE_MODES.values())


# How code after the graph sets a mode that the program left changed.
MODE_SETTERS: dict[str, Any] = {
    "grad_mode": torch._C._set_grad_enabled,
    "saved_tensor_hooks_message": set_saved_tensor_hooks_message,
}


def read_modes() -> dict[str, Any]:
    """The state of every mode, by the names that guards use."""
    state: dict[str, Any] = {
        "grad_mode": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast_cache": torch.is_autocast_cache_enabled(),
    }
    for device in _AUTOCAST_DEVICES:
        state[f"autocast_{device}"] = torch.is_autocast_enabled(device)
        state[f"autocast_{device}_dtype"] = torch.get_autocast_dtype(device)
    return state


def write_modes(state: dict[str, Any]) -> None:
    """Bring the modes back to `state` (inference mode is left by the context that entered it)."""
    torch._C._set_grad_enabled(state["grad_mode"])
    if torch.get_default_dtype() != state["default_dtype"]:
        torch.set_default_dtype(state["default_dtype"])
    torch.set_autocast_cache_enabled(state["autocast_cache"])
    for device in _AUTOCAST_DEVICES:
        torch.set_autocast_enabled(device, state[f"autocast_{device}"])
        torch.set_autocast_dtype(device, state[f"autocast_{device}_dtype"])


@contextmanager
def preserved_modes() -> Iterator[dict[str, Any]]:
    """Give the modes at entry and restore them on the way out, whatever happens. Hooks on saved tensors do not see
    those of the trace.
    """
    state = read_modes()
    depth = torch._C._len_torch_dispatch_stack()
    try:
        with without_saved_tensor_hooks():
            yield state
    finally:
        write_modes(state)
        assert torch._C._len_torch_dispatch_stack() == depth


def guard_modes(trace: Trace, state: dict[str, Any]) -> None:
    """The trace is right only under the modes that it began with."""
    trace.guard("mode", None, ("grad_mode", state["grad_mode"]))
    trace.guard("mode", None, ("inference_mode", state["inference_mode"]))
    trace.guard("mode", None, ("default_dtype", state["default_dtype"]))
    for name in ACTIVE_MODES:
        trace.guard("mode", None, (name, 0))
    for device in _AUTOCAST_DEVICES:
        enabled = state[f"autocast_{device}"]
        trace.guard("mode", None, (f"autocast_{device}", enabled))
        if enabled:
            trace.guard("mode", None, (f"autocast_{device}_dtype", state[f"autocast_{device}_dtype"]))
