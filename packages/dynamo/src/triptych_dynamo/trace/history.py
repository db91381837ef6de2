"""Sizes and numbers that one frame was compiled with so far: what changed between compiles becomes symbolic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from triptych_dynamo.profiles import Varied
from triptych_dynamo.sources import ItemSource, Source

_VARIES = object()


class History:
    """Observations by source, kept by the compiled callable over all compiles of one frame."""

    def __init__(self) -> None:
        self._sizes: dict[Source, tuple[Any, ...]] = {}
        self._numbers: dict[Source, Any] = {}
        self._general: frozenset[Source] = frozenset()
        self._declared: dict[str, frozenset[int]] = {}
        self._declared_numbers: frozenset[str] = frozenset()
        self.fixed = False  # the backend failed with symbolic sizes: all are constants
        self.exporting = False  # the graph leaves the program: its sizes have this call's as hints, none is open
        self.backed: set[Source] = set()  # sizes that the program decides by: no open symbols for them

    def varying_dims(self, source: Source, sizes: tuple[int, ...]) -> frozenset[int]:
        """Note the sizes of a tensor and give the dimensions that were seen with different sizes."""
        if source in self._general:
            return frozenset(range(len(sizes)))
        declared = self._declared.get(str(source), frozenset()) if self._declared else frozenset()
        known = self._sizes.get(source)
        if known is None or len(known) != len(sizes):
            self._sizes[source] = sizes
            return declared
        merged = tuple(old if old == new else _VARIES for old, new in zip(known, sizes, strict=True))
        self._sizes[source] = merged
        return declared | frozenset(dim for dim, size in enumerate(merged) if size is _VARIES)

    def varies(self, source: Source, number: Any) -> bool:
        """Note a number and say whether it was seen with different values (of one type)."""
        if source in self._general or (self._declared_numbers and str(source) in self._declared_numbers):
            return True
        known = self._numbers.setdefault(source, number)
        if known is _VARIES:
            return True
        if type(known) is type(number) and known != number:
            self._numbers[source] = _VARIES
            return True
        return False

    def note(self, source: Source, value: Any) -> None:
        """Note a tensor's sizes or a number, also inside tuples, lists and dictionaries."""
        if isinstance(value, torch.Tensor):
            self.varying_dims(source, tuple(value.shape))
        elif type(value) in (int, float):
            self.varies(source, value)
        elif type(value) in (tuple, list):
            for index, item in enumerate(value):
                self.note(ItemSource(source, index), item)
        elif type(value) is dict:
            for key, item in value.items():
                if not isinstance(key, torch.Tensor):  # whom a source would keep alive
                    self.note(ItemSource(source, key), item)

    def declare(self, dims: Mapping[str, frozenset[int]]) -> None:
        """These dimensions vary: source as text -> dimensions."""
        self._declared.update(dims)

    def recall(self, varied: Varied) -> None:
        """What varied in other processes varies here."""
        self.declare({name: frozenset(dims) for name, dims in varied.sizes.items()})
        self._declared_numbers |= frozenset(varied.numbers)

    def varied(self) -> Varied:
        """What varied so far."""
        sizes = {
            str(source): [dim for dim, size in enumerate(sizes) if size is _VARIES or source in self._general]
            for source, sizes in self._sizes.items()
        }
        numbers = [str(source) for source, number in self._numbers.items() if number is _VARIES]
        numbers += [str(source) for source in self._general if source not in self._sizes]
        own = Varied({name: dims for name, dims in sizes.items() if dims}, numbers)
        return own.joined(
            Varied({name: sorted(dims) for name, dims in self._declared.items()}, tuple(self._declared_numbers))
        )

    def is_general(self, source: Source) -> bool:
        """Whether everything about this source varies on its own account."""
        return source in self._general

    def generalise(self, sources: list[Source]) -> bool:
        """All dimensions of these tensors, and these numbers, vary from now on. False when they did already."""
        new = frozenset(sources) - self._general
        self._general |= new
        return bool(new)
