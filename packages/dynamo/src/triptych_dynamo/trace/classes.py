"""Classes that the traced program defines: real classes of stand-ins while tracing, made anew by the code after the
graph.

Attribute lookup works on real classes, so a class is really made during the trace. Its functions are real ones with
empty cells, its other attributes stand-ins; the trace knows which value each stands for. They never leave the trace:
code that needs the class makes it again from the values.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triptych_dynamo.runtime_classes import make_class, make_class_silently

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.values.base import Value


class Recipe:
    """How code makes a class again."""

    def emit(self, cg: Writer) -> None:
        """Leave the class on the stack."""
        raise NotImplementedError


@dataclass(eq=False)
class BodyRecipe(Recipe):
    """A class of a body."""

    meta: type
    name: str
    bases: tuple[type, ...]
    namespace: dict[str, Value]
    keywords: dict[str, Any]

    def emit(self, cg: Writer) -> None:
        """Call `make_class` with the values of the body."""
        cg.load_object(make_class)
        _load_body(cg, self)
        for keyword, item in self.keywords.items():
            cg.load_const(keyword)
            cg.load_object(item)
        cg.build("MAP", len(self.keywords))
        cg.call(5)


@dataclass(eq=False)
class SilentRecipe(Recipe):
    """A class of a body whose bases or metaclass have hooks of the program: those ran in the trace."""

    meta: type
    name: str
    bases: tuple[type, ...]
    namespace: dict[str, Value]

    def emit(self, cg: Writer) -> None:
        """Call `make_class_silently` with the values of the body."""
        cg.load_object(make_class_silently)
        _load_body(cg, self)
        cg.call(4)


def _load_body(cg: Writer, recipe: BodyRecipe | SilentRecipe) -> None:
    """Push what `make_class` takes of a body: metaclass, name, bases and namespace."""
    cg.load_object(recipe.meta)
    cg.load_const(recipe.name)
    for base in recipe.bases:
        cg.load_object(base)
    cg.build("TUPLE", len(recipe.bases))
    for key, value in recipe.namespace.items():
        cg.load_const(key)
        cg.load(value)
    cg.build("MAP", len(recipe.namespace))


@dataclass(eq=False)
class CallRecipe(Recipe):
    """A class that a function makes of constants and classes: `namedtuple(...)`, `dataclass(cls)`."""

    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    def emit(self, cg: Writer) -> None:
        """Call the function again."""
        cg.load_object(self.function)
        for item in (*self.args, *self.keywords.values()):
            cg.load_object(item)
        cg.call(len(self.args) + len(self.keywords), tuple(self.keywords))


@dataclass(eq=False)
class Decorated(Recipe):
    """A class that a function changed in place."""

    before: Recipe
    function: Any
    keywords: dict[str, Any]

    def emit(self, cg: Writer) -> None:
        """Make it, then call the function on it."""
        cg.load_object(self.function)
        self.before.emit(cg)
        for item in self.keywords.values():
            cg.load_object(item)
        cg.call(1 + len(self.keywords), tuple(self.keywords))


class MadeClasses:
    """The classes of one trace, with their values and recipes."""

    def __init__(self) -> None:
        self._made: dict[type, tuple[Value, Recipe]] = {}

    def add(self, cls: type, value: Value, recipe: Recipe) -> None:
        """Remember a class."""
        self._made[cls] = (value, recipe)

    def __contains__(self, cls: Any) -> bool:
        return isinstance(cls, type) and cls in self._made

    def __bool__(self) -> bool:
        return bool(self._made)

    def recipe(self, cls: type) -> Recipe:
        """How the class is made."""
        return self._made[cls][1]

    def emit_object(self, cg: Writer, obj: Any) -> bool:
        """Emit a class of the trace, or a member of an enumeration of the trace; False for any other object."""
        if obj in self:
            cg.load(self._made[obj][0])
            return True
        if type(obj) not in self:
            return False
        if not isinstance(obj, enum.Enum):
            cg.cannot_rebuild("class-definition", f"an object of {type(obj).__qualname__}, a class of the region")
        cg.load(self._made[type(obj)][0])
        cg.load_attr(obj.name)
        return True
