"""Which family of values stands for a real object: rules by identity, then by exact type, then predicates in order.

A rule is `rule(tx, obj, source) -> Value`. Families register their rules when they are imported:

    @wraps(list)
    def wrap_list(tx, obj, source): ...

    @wraps_if(lambda obj: isinstance(obj, torch.nn.Module), order=40)
    def wrap_module(tx, obj, source): ...

`source` is None for objects that the trace made or that are constants of the program; a rule installs the guards that
make its value right (`tx.guard` ignores a None source).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo import values
from triptych_dynamo.steering import MARKED

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.values.base import Value

Rule = Callable[["Frame", Any, "Source | None"], "Value"]

_OBJECTS: dict[int, tuple[Any, Rule]] = {}
_EXACT: dict[type, Rule] = {}
_PREDICATES: list[tuple[int, Callable[[Any], bool], Rule]] = []
_loaded: list[bool] = []


def wraps_object(*objects: Any) -> Callable[[Rule], Rule]:
    """Register a rule for these very objects (functions, classes, singletons)."""

    def register(rule: Rule) -> Rule:
        for obj in objects:
            assert not isinstance(obj, (bool, int, str, type(None))), f"{obj!r} is no object of its own"
            _OBJECTS[id(obj)] = (obj, rule)
        return rule

    return register


def wraps(*types: type) -> Callable[[Rule], Rule]:
    """Register a rule for objects whose type is exactly one of `types`."""

    def register(rule: Rule) -> Rule:
        for cls in types:
            _EXACT[cls] = rule
        return rule

    return register


def wraps_if(predicate: Callable[[Any], bool], *, order: int = 50) -> Callable[[Rule], Rule]:
    """Register a rule for objects that satisfy `predicate`; the lowest `order` is asked first."""

    def register(rule: Rule) -> Rule:
        _PREDICATES.append((order, predicate, rule))
        _PREDICATES.sort(key=lambda row: row[0])
        return rule

    return register


_marked_rule: list[Callable[..., Value]] = []


def wraps_marked(rule: Callable[..., Value]) -> Callable[..., Value]:
    """Register the rule `rule(tx, mark, source)` for functions in `steering.MARKED`."""
    _marked_rule.append(rule)
    return rule


def _rule_of_mark(mark: tuple[Any, str, Any]) -> Rule:
    return lambda tx, obj, source: _marked_rule[0](tx, mark, source)


def load_families() -> None:
    """Import every module of `values`, so that their rules are known."""
    if not _loaded:
        _loaded.append(True)
        for module in pkgutil.walk_packages(values.__path__, f"{values.__name__}."):
            importlib.import_module(module.name)


def find_rule(obj: Any) -> Rule | None:
    """The rule for `obj`, or None."""
    load_families()
    mark = MARKED.get(id(obj))
    if mark is not None and mark[0] is obj:
        return _rule_of_mark(mark)
    entry = _OBJECTS.get(id(obj))
    if entry is not None and entry[0] is obj:
        return entry[1]
    rule = _EXACT.get(type(obj))
    if rule is not None:
        return rule
    for _, predicate, candidate in _PREDICATES:
        if predicate(obj):
            return candidate
    return None
