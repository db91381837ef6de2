"""`co_exceptiontable`: entries of (start, end, target, depth, lasti) in code units, as six-bit varints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Entry(NamedTuple):
    """Instructions in [start, end) jump to `target` with the stack cut to `depth`; all in code units."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def _read_number(stream: Iterator[int], first: int) -> int:
    value = first & 63
    byte = first
    while byte & 64:
        byte = next(stream)
        value = value << 6 | byte & 63
    return value


def parse(table: bytes) -> list[Entry]:
    """All entries of a table, in its order."""
    stream = iter(table)
    entries = []
    for first in stream:
        start = _read_number(stream, first)
        size = _read_number(stream, next(stream))
        target = _read_number(stream, next(stream))
        packed = _read_number(stream, next(stream))
        entries.append(Entry(start, start + size, target, packed >> 1, bool(packed & 1)))
    return entries


def _write_number(out: bytearray, value: int, first_bit: int = 0) -> None:
    digits = [value & 63]
    while value := value >> 6:
        digits.append(value & 63)
    digits.reverse()
    for digit in digits[:-1]:
        out.append(digit | 64 | first_bit)
        first_bit = 0
    out.append(digits[-1] | first_bit)


def encode(entries: Iterable[Entry]) -> bytes:
    """The inverse of `parse`; entries must be sorted by `start` and not overlap."""
    out = bytearray()
    for entry in entries:
        _write_number(out, entry.start, 128)  # the high bit marks the first byte of an entry, for the binary search
        _write_number(out, entry.end - entry.start)
        _write_number(out, entry.target)
        _write_number(out, entry.depth << 1 | entry.lasti)
    return bytes(out)
