"""`co_linetable`: the source position of every code unit (the format of PEP 626 and PEP 657)."""

from __future__ import annotations

from collections.abc import Iterable

Position = tuple[int | None, int | None, int | None, int | None]  # line, end line, column, end column
NO_POSITION: Position = (None, None, None, None)

_NONE, _LONG, _NO_COLUMNS, _ONE_LINE, _MAX_UNITS = 15, 14, 13, 10, 8


def _unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _signed(out: bytearray, value: int) -> None:
    _unsigned(out, (-value << 1 | 1) if value < 0 else value << 1)


def _entry(out: bytearray, position: Position, units: int, line: int) -> int:
    """Write one entry for at most eight units; gives back the line that the next is relative to."""
    start, end, column, end_column = position

    def head(kind: int) -> None:
        out.append(0x80 | kind << 3 | units - 1)

    if start is None:
        head(_NONE)
        return line
    delta = start - line
    if (column is None or end_column is None) and end in (start, None):
        head(_NO_COLUMNS)
        _signed(out, delta)
    elif column is not None and end_column is not None and end == start and _short(delta, column, end_column):
        head(column >> 3)
        out.append((column & 7) << 4 | end_column - column)
    elif (
        column is not None
        and end_column is not None
        and end == start
        and 0 <= delta < 3
        and max(column, end_column) < 128
    ):
        head(_ONE_LINE + delta)
        out.extend((column, end_column))
    else:
        head(_LONG)
        _signed(out, delta)
        _unsigned(out, (start if end is None else end) - start)
        _unsigned(out, 0 if column is None else column + 1)
        _unsigned(out, 0 if end_column is None else end_column + 1)
    return start


def _short(delta: int, column: int, end_column: int) -> bool:
    return delta == 0 and column < 80 and 0 <= end_column - column < 16


def encode(spans: Iterable[tuple[Position | None, int]], first_line: int) -> bytes:
    """The table for (position, code units) spans in order; `first_line` is the code's `co_firstlineno`."""
    out = bytearray()
    line = first_line
    for position, units in spans:
        while units > 0:
            line = _entry(out, position or NO_POSITION, min(units, _MAX_UNITS), line)
            units -= _MAX_UNITS
    return bytes(out)
