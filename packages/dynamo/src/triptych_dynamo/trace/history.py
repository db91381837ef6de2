"""Sizes and numbers that one frame was compiled with so far: what changed between compiles becomes symbolic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych_dynamo.sources import Source

_VARIES = object()


class History:
    """Observations by source, kept by the compiled callable over all compiles of one frame."""

    def __init__(self) -> None:
        self._sizes: dict[Source, tuple[Any, ...]] = {}
        self._numbers: dict[Source, Any] = {}

    def varying_dims(self, source: Source, sizes: tuple[int, ...]) -> frozenset[int]:
        """Note the sizes of a tensor and give the dimensions that were seen with different sizes."""
        known = self._sizes.get(source)
        if known is None or len(known) != len(sizes):
            self._sizes[source] = sizes
            return frozenset()
        merged = tuple(old if old == new else _VARIES for old, new in zip(known, sizes, strict=True))
        self._sizes[source] = merged
        return frozenset(dim for dim, size in enumerate(merged) if size is _VARIES)

    def varies(self, source: Source, number: Any) -> bool:
        """Note a number and say whether it was seen with different values (of one type)."""
        known = self._numbers.setdefault(source, number)
        if known is _VARIES:
            return True
        if type(known) is type(number) and known != number:
            self._numbers[source] = _VARIES
            return True
        return False
