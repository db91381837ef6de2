"""Guards from another process as a program for C, so that checking them costs what it costs where they were made.

>>> check = PortableCheck(guards, ("x",), f_globals=vars(module))
>>> check({"x": torch.ones(3)})       # None, or (guard, a sentence about it)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any, cast

from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.portable import Namespace, PortableReader, check_portable
from triptych_dynamo.guards.program import ProgramBuilder
from triptych_dynamo.sources import PinnedSource, Source


class _Builder(ProgramBuilder):
    """Reads the globals of a module where a source names its namespace."""

    def __init__(self, guards: Sequence[Guard], names: Any, reader: PortableReader) -> None:
        super().__init__(guards, names)
        self.reader = reader

    def _read_step(self, step: Source, base: int, slot: int, guard: int) -> None:
        if isinstance(step, PinnedSource) and isinstance(step.value, Namespace):
            self.emit("pinned", guard, base, slot, 0, self.reader.pinned(step.value))
        else:
            super()._read_step(step, base, slot, guard)


class PortableCheck:
    """Checks the guards of a function that is called with `parameters`.

    Args:
        guards: from `guards_from_json`.
        parameters: names, in the order of the values that calls give.
        f_globals, cells: as of `check_portable`.
    """

    def __init__(
        self,
        guards: Sequence[Guard],
        parameters: Sequence[str],
        *,
        f_globals: Mapping[str, Any],
        cells: Mapping[str, CellType],
    ) -> None:
        self.guards, self.f_globals, self.cells = guards, f_globals, cells
        names = SimpleNamespace(co_varnames=tuple(parameters), co_freevars=tuple(cells))
        reader = PortableReader({}, f_globals, cells)
        self._program = _Builder(guards, cast(CodeType, names), reader).build()
        self._function = _with_cells(cells)

    def __call__(self, variables: Mapping[str, Any]) -> tuple[Guard, str] | None:
        """The first guard that does not hold, with a sentence about it, or None."""
        if self._program.failed(tuple(variables.values()), self._function) is None:
            return None
        return check_portable(self.guards, variables, f_globals=self.f_globals, cells=self.cells)


def _with_cells(cells: Mapping[str, CellType]) -> FunctionType:
    """A function with this closure; it is never called."""
    code = (lambda: None).__code__.replace(co_freevars=tuple(cells))
    return FunctionType(code, {}, "surroundings", None, tuple(cells.values()))
