"""Stored profiles: which sizes and numbers of a frame varied, kept by somebody (`Options.profile`) between processes.

A frame is known by its name, the name of its file, the place in its code where the compiled part begins, and the code
itself, so that a changed program has no profile. Sizes and numbers are known by the text of their source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from triptych_dynamo.emit.continuation import Layout


@dataclass(frozen=True)
class Varied:
    """What varied in one frame.

    Attributes:
        sizes: source as text -> dimensions.
        numbers: sources as text.
    """

    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    numbers: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.sizes or self.numbers)

    def joined(self, other: Varied) -> Varied:
        """What varied in either."""
        sizes = {name: set(dims) for name, dims in self.sizes.items()}
        for name, dims in other.sizes.items():
            sizes.setdefault(name, set()).update(dims)
        return Varied({name: sorted(sizes[name]) for name in sorted(sizes)}, sorted({*self.numbers, *other.numbers}))


class Profile(Protocol):
    """Where profiles are kept."""

    def load(self, frame: str) -> Varied:
        """What varied in the frame so far."""

    def save(self, frame: str, varied: Varied) -> None:
        """Keep it."""


def frame_name(layout: Layout) -> str:
    """A frame's name in profiles: the same in every process and folder."""
    code = layout.origin
    state = hashlib.sha256()
    _add(state, code)
    return f"{code.co_qualname}@{PurePath(code.co_filename).name}+{layout.position}:{state.hexdigest()[:16]}"


def _add(state: hashlib._Hash, code: CodeType) -> None:
    state.update(code.co_code)
    state.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(state, constant)
        elif isinstance(constant, (int, float, str, bytes)):
            state.update(repr(constant).encode())
