"""Whether the trace kept what the user said of marked sizes: a size that it fixed or narrowed is an error.

The guards of the trace are tried out: with other values for the marked size (alone, together with all others, and in
proportion), some must let it through. That finds what algebra may miss, such as `a <= b`, `a >= b` and `a + b == 10`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from triptych_dynamo._torch_compat import number_of_expression
from triptych_dynamo.errors import ConstraintViolationError
from triptych_dynamo.marks import Mark

_TRIED = (*range(0, 70), *range(72, 1100, 8), *range(1152, 17000, 128))
_UNBOUNDED = 2**31


@dataclass(frozen=True)
class Condition:
    """A boolean over symbols that the trace relies on, and the line of the program that asked."""

    expression: Any
    line: str


class Conditions:
    """The conditions of one trace, as functions of the symbols' values."""

    def __init__(self, conditions: list[Condition], values: dict[Any, int]) -> None:
        self.values = {symbol: value for symbol, value in values.items() if symbol.is_integer}
        self.rows: list[tuple[Condition, list[Any], Callable[..., Any]]] = []
        for condition in conditions:
            symbols = sorted(condition.expression.free_symbols, key=str)
            if symbols and all(symbol in self.values for symbol in symbols):
                self.rows.append((condition, symbols, number_of_expression(condition.expression, symbols)))

    def check(self, symbol: Any, mark: Mark, name: str) -> None:
        """Raises ConstraintViolationError where `symbol`, the size called `name`, is not as free as `mark` says."""
        rows = [row for row in self.rows if self._bears_on(row[1], symbol)]
        own = [row for row in rows if row[1] == [symbol]]
        for bound in (mark.least, mark.most):
            if bound is not None and bound < _UNBOUNDED:
                broken = next((row[0] for row in own if not _holds(row, {symbol: bound})), None)
                if broken is not None:
                    raise ConstraintViolationError(self._text(name, mark, [broken], f"of {bound}"))
        if rows and not any(all(_holds(row, values) for row in rows) for values in self._others(symbol)):
            narrow = [row[0] for row in rows if not all(_holds(row, {**self.values, symbol: n}) for n in range(2, 70))]
            raise ConstraintViolationError(self._text(name, mark, narrow, "but this one"))

    def _bears_on(self, symbols: list[Any], symbol: Any) -> bool:
        related, grown = {symbol}, True
        while grown:
            before = len(related)
            for _, others, _ in self.rows:
                if related & set(others):
                    related |= set(others)
            grown = len(related) > before
        return bool(related & set(symbols))

    def _others(self, symbol: Any) -> Iterator[dict[Any, int]]:
        """Values of all symbols with another one for `symbol`."""
        now = self.values[symbol]
        for value in _TRIED:
            if value != now:
                yield {**self.values, symbol: value}
                yield dict.fromkeys(self.values, value)
        for factor in (2, 3, 4, 8, 16):
            yield {other: number * factor for other, number in self.values.items()}

    def _text(self, name: str, mark: Mark, conditions: list[Condition], what: str) -> str:
        said = {"dynamic": "mark_dynamic", "unbacked": "mark_unbacked"}[mark.kind]
        bounds = f" (min={mark.least}, max={mark.most})" if mark.least is not None or mark.most is not None else ""
        lines = [f"{said}{bounds} says that {name} varies, but the program does not allow a size {what}:"]
        lines += [
            f"  it needs {condition.expression} at {condition.line or 'a place unknown'}" for condition in conditions
        ]
        lines.append("  hint: change the line, narrow the mark, or use maybe_mark_dynamic")
        return "\n".join(lines)


def _holds(row: tuple[Condition, list[Any], Callable[..., Any]], values: dict[Any, int]) -> bool:
    _, symbols, function = row
    try:
        return bool(function(*[values[symbol] for symbol in symbols]))
    except (ArithmeticError, ValueError):
        return False
