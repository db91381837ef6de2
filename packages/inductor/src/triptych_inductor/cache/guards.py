"""Which sizes a compiled graph holds for: what its compilation decided about the symbols of its inputs.

Compiling a graph with symbolic sizes may decide something by the sizes at hand ("is s0 even?"), which becomes a guard
of the program. A graph that comes from the cache decides nothing, so its record carries these facts, as Python
expressions over the symbols, and they are asked again before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import sympy
import torch

from triptych_inductor._torch_compat import PythonPrinter, environment_of
from triptych_inductor.cache.text import SYMBOLIC, Uncacheable

NAMESPACE: dict[str, Any] = {
    "__builtins__": {"abs": abs, "int": int, "float": float},
    "max": torch.sym_max,
    "min": torch.sym_min,
    "math": math,
    "torch": torch,
}
Fact = tuple[str, list[str]]  # an expression, and the names of its symbols


def environment_text(values: Iterable[Any]) -> str:
    """What is known about the symbols of `values` (tensors, numbers, nested) before a compilation: ranges, guards."""
    environment = _environment(values)
    if environment is None:
        return ""
    symbols = sorted(_expressions(values), key=str)
    ranges = [f"{symbol} {environment.var_to_range.get(symbol)}" for symbol in symbols]
    return "\n".join([*ranges, *(str(guard.expr) for guard in environment.guards)])


class GuardRecorder:
    """Notes what is decided about the symbols of some values, from its making to `facts()`."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.environment = _environment(values)
        self.start = len(self.environment.guards) if self.environment is not None else 0

    def facts(self) -> list[Fact]:
        """The facts. Raises `Uncacheable` for one that cannot be written."""
        if self.environment is None:
            return []
        printer, found = PythonPrinter(), []
        for expr in (guard.expr for guard in self.environment.guards[self.start :]):
            names = sorted(map(str, expr.free_symbols))
            if expr.atoms(sympy.Float) or any(name.startswith(("u", "zuf")) for name in names):
                raise Uncacheable(f"the fact {expr} depends on data or on an inexact number")
            try:
                found.append((printer.doprint(expr), names))
            except Exception as error:  # printers raise what they like
                raise Uncacheable(f"the fact {expr} has no Python form") from error
        return found


def hold(facts: Iterable[Fact], values: Iterable[Any]) -> bool:
    """Whether the facts hold for the sizes behind `values`; where they all do, they become guards of the program."""
    codes = [(compile(text, "<guard>", "eval"), names) for text, names in facts]
    if not codes:
        return True
    symbols = dict(_symbols(values))
    hints = {name: value.node.hint for name, value in symbols.items() if value.node.has_hint()}
    if any(name not in hints for _, names in codes for name in names):
        return False
    if not all(eval(code, NAMESPACE, hints) for code, _ in codes):  # our own text, checksummed
        return False
    return all(bool(eval(code, NAMESPACE, symbols)) for code, _ in codes)


def _environment(values: Iterable[Any]) -> Any:
    return next(filter(None, map(environment_of, _numbers(values))), None)


def _expressions(values: Iterable[Any]) -> set[Any]:
    return {symbol for number in _numbers(values) for symbol in number.node.expr.free_symbols}


def _symbols(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for number in _numbers(values):
        if number.node.expr.is_Symbol:
            yield str(number.node.expr), number


def _numbers(values: Iterable[Any]) -> Iterator[Any]:
    """Symbolic numbers among the values, and those in the geometry of tensors."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _numbers(value)
        elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield from _numbers([*value.size(), *value.stride(), value.storage_offset()])
        elif isinstance(value, SYMBOLIC):
            yield value
