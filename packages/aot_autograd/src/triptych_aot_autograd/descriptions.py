"""What the inputs and outputs of a joint graph are, and the autocast state it was traced in: plain records."""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

RESERVED = frozenset(
    ("device", "inf", "nan", "torch", "self", "fx_pytree", "pytree", "NoneType")
)  # names in fx's generated code


@dataclass(frozen=True)
class InputDesc:
    """An input of the graph. kind: 'parameter', 'buffer', 'input' or 'tangent'; `target`: its name in the program."""

    kind: str
    target: str
    index: int = -1

    @property
    def name(self) -> str:
        """A name fit for an fx placeholder."""
        text = re.sub(r"\W", "_", self.target)
        plain = text.isidentifier() and not keyword.iskeyword(text) and text not in RESERVED
        return text if plain else f"p_{text}"

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True)
class OutputDesc:
    """An output of the joint graph.

    kind: 'output' (of the function), 'base' (memory that several outputs show), 'mutation' (new value of an input,
    written back by
    the caller), 'symbol' (a size that a replayed view needs), 'epilogue' (new value of an input, written back by the
    graph), 'gradient' (of input `index`).
    """

    kind: str
    target: str
    index: int
    differentiable: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True)
class AutocastState:
    """Whether autocast is on, by device type, and to which dtype."""

    states: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def now(cls) -> AutocastState:
        """The state of this thread."""
        types = ("cpu", "cuda")
        return cls(tuple((t, torch.is_autocast_enabled(t), torch.get_autocast_dtype(t)) for t in types))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Set it for the duration of a `with`."""
        with contextlib.ExitStack() as stack:
            for device_type, enabled, dtype in self.states:
                if enabled != torch.is_autocast_enabled(device_type):
                    stack.enter_context(torch.autocast(device_type, dtype=dtype, enabled=enabled))
            yield
