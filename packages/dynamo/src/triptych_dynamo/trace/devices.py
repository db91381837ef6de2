"""Devices without a number: `"cuda"` is the thread's current device, which `torch.cuda.device` and `set_device` change.

The graph holds the device that was current while it was traced, so the current device is guarded wherever a call names
an accelerator without its number. On machines with one device there is nothing to guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import PinnedSource

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

CURRENT: dict[str, Any] = {"cuda": torch.cuda, "xpu": torch.xpu}
"""Types of devices of which a machine may have several, with the module that knows the current one."""


@dataclass(frozen=True)
class CurrentDevice:
    """A check: `module.current_device` still gives `index`."""

    index: int

    def __call__(self, module: Any) -> bool:
        return bool(module.current_device() == self.index)


def note_devices(tx: Frame, target: Any, args: Any, kwargs: Any) -> None:
    """Guard the current device where a call names a type of device alone."""
    for kind in _unnumbered(target, args, kwargs):
        module = CURRENT[kind]
        if module.device_count() > 1:
            index = module.current_device()
            fact = PythonFact(CurrentDevice(index), f"torch.{kind}.current_device() == {index}")
            tx.guard("python", PinnedSource(module, f"torch.{kind}"), fact)


def _unnumbered(target: Any, args: Any, kwargs: Any) -> Iterator[str]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, str) and value in CURRENT:
            yield value
        elif isinstance(value, torch.device) and value.index is None and value.type in CURRENT:
            yield value.type
    if isinstance(target, str) and target in CURRENT and len(args) == 1 and not kwargs.get("device"):
        yield target  # x.cuda()
