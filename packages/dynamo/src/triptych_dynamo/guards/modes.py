"""Modes of the process and thread that guards may speak of, by name: a table of readers.

`autocast_<device>` and `autocast_<device>_dtype` exist for every device type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from triptych_dynamo import _torch_compat

READERS: dict[str, Callable[[], Any]] = {
    "grad_mode": torch.is_grad_enabled,
    "inference_mode": torch.is_inference_mode_enabled,
    "default_dtype": torch.get_default_dtype,
    "default_device": torch.get_default_device,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "autocast_cache": torch.is_autocast_cache_enabled,
    "num_threads": torch.get_num_threads,
    "dispatch_modes": _torch_compat.dispatch_mode_count,
    "function_modes": _torch_compat.function_mode_count,
    "function_transforms": _torch_compat.transform_level,
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "saved_tensor_hooks": _torch_compat.saved_tensor_hooks_active,
}


@cache
def reader(name: str) -> Callable[[], Any]:
    """The function that tells the present state of mode `name`.

    Raises:
        KeyError: no mode has that name.
    """
    if name in READERS:
        return READERS[name]
    if name.startswith("autocast_"):
        device = name.removeprefix("autocast_")
        if device.endswith("_dtype"):
            return partial(torch.get_autocast_dtype, device.removesuffix("_dtype"))
        return partial(torch.is_autocast_enabled, device)
    raise KeyError(f"no mode is called {name!r}; there are {', '.join(READERS)}, autocast_<device>[_dtype]")


def shows_in_dispatch_state(name: str, expected: Any) -> bool:
    """Whether the mode cannot leave `expected` without a change of the thread's dispatch state.

    The state has one bit for "some dispatch mode" and "some function transform", not their number.
    """
    if name in ("dispatch_modes", "function_transforms"):
        return expected == 0
    return name.startswith("autocast_") and not name.endswith("_dtype") and name not in READERS
