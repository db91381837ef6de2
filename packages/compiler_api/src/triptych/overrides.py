"""Backends and options by number of the graph, from the environment: to find the one graph that misbehaves.

`TRIPTYCH_OVERRIDE_BACKENDS="0-3:eager;>7:aot_eager"` compiles graphs 0 to 3 with `eager` and all from 8 on with
`aot_eager`. Graphs are numbered in the order in which this process compiles them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

from triptych import configuration
from triptych.errors import ConfigError

_SELECTOR = re.compile(r"(\d+)(?:-(\d+))?|(>=|<=|>|<)(\d+)")
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Rule:
    """Graphs first to last (both included; None: no end) get `value`."""

    first: int
    last: int | None
    value: str

    def holds(self, number: int) -> bool:
        """Whether the rule is for this graph."""
        return self.first <= number and (self.last is None or number <= self.last)


def parse(name: str, text: str) -> list[Rule]:
    """The rules of a setting's text, `SELECTOR:VALUE;SELECTOR:VALUE`. Raises `ConfigError`."""
    rules = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        selector, separator, value = part.partition(":")
        match = _SELECTOR.fullmatch(selector.strip())
        if not separator or match is None or not value.strip():
            raise ConfigError(f"{name}: {part!r} is no rule; rules look like 3:eager, 0-3:eager or >7:aot_eager")
        rules.append(Rule(*_bounds(match), value.strip()))
    return rules


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    first, last, sign, bound = match.groups()
    if sign is None:
        return int(first), int(last if last is not None else first)
    at = int(bound)
    return {">": (at + 1, None), ">=": (at, None), "<": (0, at - 1), "<=": (0, at)}[sign]


def options_of(text: str) -> dict[str, Any]:
    """Options from `name=value,name=value`; values are numbers, 1/0 for switches, or text."""
    found: dict[str, Any] = {}
    for item in text.split(","):
        name, separator, value = (part.strip() for part in item.partition("="))
        if not separator:
            raise ConfigError(f"override_options: {item!r} is no option; options look like fusion=0")
        found[name] = _typed(name, value)
    return found


def _typed(name: str, value: str) -> Any:
    from triptych_inductor import Options  # noqa: PLC0415  (only where an override is set)

    kind = type(getattr(Options(), name.replace("-", "_"), value))
    if kind is bool:
        return configuration.PARSERS["bool"](value)
    return kind(value) if kind in (int, float) else value


class Numbered:
    """A backend that numbers its graphs and lets the overrides of the environment have their say.

    settings: of the compile call. report: what is compiled is noted there. backend: what compiles all other graphs.
    """

    def __init__(self, backend: Any, settings: Any, report: Any, resolve: Any) -> None:
        self._backend, self._settings, self._report, self._resolve = backend, settings, report, resolve
        self._backends = parse("override_backends", configuration.get("override_backends"))
        self._options = parse("override_options", configuration.get("override_options"))
        for rule in self._options:
            options_of(rule.value)

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Any:
        number = next(_numbers)
        backend = next((rule.value for rule in self._backends if rule.holds(number)), None)
        options = next((rule.value for rule in self._options if rule.holds(number)), None)
        if backend is None and options is None:
            return self._backend(gm, example_inputs)
        changes: dict[str, Any] = {"mode": None, "options": options_of(options) if options else None}
        if backend is not None:
            changes["backend"] = backend
        chosen = dataclasses.replace(self._settings, **changes)
        return self._resolve(chosen, self._report)(gm, example_inputs)


def wanted() -> bool:
    """Whether the environment (or `config`) asks for overrides."""
    return bool(configuration.get("override_backends") or configuration.get("override_options"))
