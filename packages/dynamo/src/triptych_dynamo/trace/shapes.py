"""Symbolic sizes and numbers of one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import ShapeEnv, make_fake_mode

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.base import Value


class Shapes:
    """The fake mode and its shape environment."""

    def __init__(self) -> None:
        self.env = ShapeEnv()
        self.fake_mode = make_fake_mode(self.env)

    def number_input(self, tx: Frame, obj: Any, source: Source) -> Value | None:
        """The symbolic value of a number from outside, or None when it is taken as a constant."""
        return None

    def fake_input(self, obj: torch.Tensor, source: Source | None) -> torch.Tensor:
        """The fake tensor of a real one."""
        return self.fake_mode.from_tensor(obj, static_shapes=True)

    def add_guards(self, trace: Trace) -> None:
        """Guards of the symbolic sizes."""
