"""Guards as data: what another process can check of a captured program, on a function that need not be the original.

Facts about objects that only this process has (the identity of an instance, checks written in Python) have no such
form; they are listed as dropped, with the reason.

    >>> rows = guards_to_json(graph.guards)          # JSON
    >>> guards = guards_from_json(rows)
    >>> check_portable(guards, {"x": torch.ones(3)}, f_globals=vars(module))
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CellType
from typing import Any

import sympy

from triptych_dynamo import sources as s
from triptych_dynamo.codec import Codec, Json, NotPortable, make_codec
from triptych_dynamo.guards.facts import Apart, Guard, PythonFact, ShapeFact, TensorFacts
from triptych_dynamo.guards.number_facts import IsSame, IsTrue, IsType, NumberCheck
from triptych_dynamo.guards.python_check import Reader, Unreadable, violation
from triptych_dynamo.guards.shape_program import compile_shape

OWN = ""  # the namespace of the captured function itself
_SOURCES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(s.LocalSource, s.CellSource, s.GlobalSource, s.AttrSource, s.InstanceDictSource, s.ItemSource),
        *(s.DictKeySource, s.ContentSource, s.TypeSource, s.GradSource, s.TensorSizeSource, s.TensorStrideSource),
        *(s.TensorOffsetSource, s.LiteralSource, s.ComputedSource, s.KeyedItemSource),
    )
}
_TESTS: dict[str, type] = {cls.__name__: cls for cls in (IsSame, IsTrue, IsType)}


@dataclasses.dataclass(frozen=True)
class Namespace:
    """In place of a globals dictionary: the module's name, `OWN` for that of the captured function."""

    module: str


@functools.cache
def _namespace(module: str) -> Namespace:
    """The one of a module: sources that are pinned to it are equal."""
    return Namespace(module)


def guards_to_json(guards: Sequence[Guard]) -> list[Json]:
    """One row a guard: its kind, source, value and user line; or `{"dropped": text, "why": reason}`."""
    return [_to_row(guard) for guard in guards]


def _to_row(guard: Guard) -> Json:
    try:
        value = guard.value
        if guard.kind == "is_weak":
            value = value() if callable(value) and type(value).__name__ == "ReferenceType" else value
        return {
            "kind": "is" if guard.kind == "is_weak" else guard.kind,
            "source": source_to_json(guard.source),
            "value": CODEC.encode(value),
            "line": guard.user_line,
        }
    except NotPortable as error:
        return {"dropped": str(guard), "why": str(error)}


def guards_from_json(rows: Sequence[Json]) -> list[Guard]:
    """The guards of the rows that were not dropped.

    Raises:
        NotPortable: a row names what this process does not have.
    """
    kept = [row for row in rows if "dropped" not in row]
    return [
        Guard(row["kind"], source_from_json(row["source"]), CODEC.decode(row["value"]), row["line"]) for row in kept
    ]


def required_globals(guards: Sequence[Guard]) -> set[str]:
    """Names that `f_globals` must have."""
    steps = [step for guard in guards if guard.source is not None for step in guard.source.path()]
    return {
        step.name
        for step in steps
        if isinstance(step, s.GlobalSource) and step.base.value == Namespace(OWN) and not _may_lack(guards, step)
    }


def _may_lack(guards: Sequence[Guard], step: s.GlobalSource) -> bool:
    return any(
        guard.kind == "dict_lacks" and guard.source == step.base and guard.value == step.name for guard in guards
    )


# -- checking ----------------------------------------------------------------------------------------------------------
class PortableReader(Reader):
    """Reads sources of a call of any function.

    Args:
        variables: the parameters by name.
        f_globals: the globals of the captured function.
        cells: its closure by name.
    """

    def __init__(
        self, variables: Mapping[str, Any], f_globals: Mapping[str, Any], cells: Mapping[str, CellType] | None = None
    ) -> None:
        super().__init__(variables, None)
        self.f_globals = f_globals
        self.cells = cells or {}

    def pinned(self, value: Any) -> Any:
        """The globals of a module for its `Namespace`."""
        return self._namespace(value.module) if isinstance(value, Namespace) else value

    def _namespace(self, module: str) -> Mapping[str, Any]:
        if module == OWN:
            return self.f_globals
        try:
            return vars(importlib.import_module(module))
        except ImportError as error:
            raise Unreadable(f"module {module} cannot be imported ({error})") from error

    def cell(self, name: str) -> CellType:
        """The cell of a free variable."""
        return self.cells[name]


def check_portable(
    guards: Sequence[Guard],
    variables: Mapping[str, Any],
    *,
    f_globals: Mapping[str, Any],
    cells: Mapping[str, CellType] | None = None,
) -> tuple[Guard, str] | None:
    """The first guard that does not hold, with a sentence about it, or None.

    Args:
        guards: from `guards_from_json`.
        variables: the parameters of the call by name (`*args` a tuple, `**kwargs` a dictionary).
        f_globals: globals of the captured function.
        cells: its closure.
    """
    read = PortableReader(variables, f_globals, cells)
    for guard in guards:
        found = violation(guard, read)
        if found is not None:
            return guard, f"{guard}: {found}"
    return None


# -- sources -----------------------------------------------------------------------------------------------------------
def source_to_json(source: s.Source | None) -> Json:
    """A list: the class, then its fields; the step before is nested."""
    if source is None:
        return None
    if isinstance(source, s.PinnedSource):
        return _pinned_to_json(source)
    if type(source).__name__ not in _SOURCES:
        raise NotPortable(f"{source} is read in a way that has no other form ({type(source).__name__})")
    fields = [getattr(source, field.name) for field in dataclasses.fields(source)]  # type: ignore[arg-type]
    return [type(source).__name__, *(_field_to_json(value) for value in fields)]


def _field_to_json(value: Any) -> Json:
    if isinstance(value, s.Source):
        return {"source": source_to_json(value)}
    if type(value) is tuple and value and all(isinstance(item, s.Source) for item in value):
        return {"sources": [source_to_json(item) for item in value]}
    return {"value": CODEC.encode(value)}


def _pinned_to_json(source: s.PinnedSource) -> Json:
    if isinstance(source.value, Namespace):
        return ["globals", source.value.module]
    if isinstance(source.value, dict) and (source.label == "G" or source.label.startswith("G(")):
        module = source.value.get("__name__")
        importable = isinstance(module, str) and vars(sys.modules.get(module, s)) is source.value
        if importable and module != "__main__" and (source.label != "G" or str(module).startswith("torch.")):
            return ["globals", module]
        if source.label == "G":
            return ["globals", OWN]
        raise NotPortable(f"{source.label} belongs to no module that can be imported")
    return ["pinned", CODEC.encode(source.value), source.label]


def source_from_json(data: Json) -> Any:
    """The source, or None."""
    if data is None:
        return None
    kind, *fields = data
    if kind == "globals":
        return s.PinnedSource(_namespace(fields[0]), "G" if fields[0] == OWN else f"G({fields[0]})")
    if kind == "pinned":
        return s.PinnedSource(CODEC.decode(fields[0]), fields[1])
    if kind not in _SOURCES:
        raise NotPortable(f"unknown kind of source {kind!r}")
    decoded = tuple(map(_field_from_json, fields))
    try:
        return _shared(_SOURCES[kind], decoded, tuple(map(type, decoded)))
    except TypeError:  # a key that does not hash
        return _SOURCES[kind](*decoded)


@functools.lru_cache(maxsize=16384)
def _shared(cls: type, fields: tuple[Any, ...], types: tuple[type, ...]) -> Any:
    """The one source of these fields: paths share their steps, as they do where they are made."""
    return cls(*fields)


def _field_from_json(data: Json) -> Any:
    if "source" in data:
        return source_from_json(data["source"])
    if "sources" in data:
        return tuple(map(source_from_json, data["sources"]))
    return CODEC.decode(data["value"])


# -- values that only guards have --------------------------------------------------------------------------------------
def _shape_to_json(fact: ShapeFact) -> Json:
    steps = compile_shape(fact.expr, [symbol for symbol, _ in fact.symbols])
    if steps is None:
        raise NotPortable(f"{fact} is no arithmetic of integers")
    return {
        "steps": [list(step) for step in steps],
        "symbols": [[str(symbol), source_to_json(source)] for symbol, source in fact.symbols],
    }


_STEPS: dict[str, Callable[..., Any]] = {
    "add": sympy.Add,
    "mul": sympy.Mul,
    "min": sympy.Min,
    "max": sympy.Max,
    "pow": sympy.Pow,
    "mod": sympy.Mod,
    "floordiv": lambda a, b: sympy.floor(a / b),
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "lt": sympy.Lt,
    "le": sympy.Le,
    "gt": sympy.Gt,
    "ge": sympy.Ge,
    "and": sympy.And,
    "or": sympy.Or,
}
_SINGLE: dict[str, Callable[..., Any]] = {"neg": lambda a: -a, "not": sympy.Not}


def expression_of(steps: Sequence[Sequence[Any]], symbols: Sequence[Any]) -> Any:
    """The sympy expression of a program of `compile_shape`."""
    stack: list[Any] = []
    for name, operand in steps:
        if name in ("const", "input"):
            stack.append(sympy.Integer(operand) if name == "const" else symbols[operand])
        elif name in _SINGLE:
            stack.append(_SINGLE[name](stack.pop()))
        else:
            right = stack.pop()
            stack.append(_STEPS[name](stack.pop(), right))
    return stack[0]


def _shape_from_json(data: Json) -> ShapeFact:
    symbols = [sympy.Symbol(f"v{index}", integer=True) for index in range(len(data["symbols"]))]
    found = [source_from_json(source) for _, source in data["symbols"]]
    return ShapeFact(expression_of(data["steps"], symbols), tuple(zip(symbols, found, strict=True)))


def _number_to_json(fact: PythonFact) -> Json:
    check = fact.check
    if not isinstance(check, NumberCheck) or type(check.test).__name__ not in _TESTS:
        raise NotPortable(f"{fact} is a check written in Python")
    fields = [CODEC.encode(getattr(check.test, field.name)) for field in dataclasses.fields(check.test)]
    return {
        "test": [type(check.test).__name__, *fields],
        "sources": [source_to_json(source) for source in check.sources],
        "label": fact.label,
    }


def _number_from_json(data: Json) -> PythonFact:
    name, *fields = data["test"]
    test = _TESTS[name](*map(CODEC.decode, fields))
    return NumberCheck(test, tuple(map(source_from_json, data["sources"]))).fact(data["label"])


def _record(codec: Codec, cls: type, tag: str) -> None:
    """A dataclass of plain values: its fields in order."""
    names = [field.name for field in dataclasses.fields(cls)]
    codec.row(
        cls,
        tag,
        lambda obj: [codec.encode(getattr(obj, name)) for name in names],
        lambda data: cls(*map(codec.decode, data)),
    )


CODEC = make_codec()
_record(CODEC, TensorFacts, "tensor")
_record(CODEC, Apart, "apart")
CODEC.row(ShapeFact, "shape", _shape_to_json, _shape_from_json)
CODEC.row(PythonFact, "number", _number_to_json, _number_from_json)
for _source in (*_SOURCES.values(), s.PinnedSource):
    CODEC.row(_source, f"source {_source.__name__}", source_to_json, source_from_json)
