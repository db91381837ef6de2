"""`class` statements, `type(name, bases, namespace)` and functions that make classes, inside a traced program."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import functools
import inspect
import types
from _abc import _abc_init  # type: ignore[import-not-found]
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException
from triptych_dynamo.runtime_classes import make_class_silently
from triptych_dynamo.trace.classes import BodyRecipe, CallRecipe, Decorated, Recipe, SilentRecipe
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.callables.functions import FunctionValue
from triptych_dynamo.values.callables.wrapped_functions import PropertyValue, WrappedFunctionValue
from triptych_dynamo.values.common import constant_of, fold, lookup
from triptych_dynamo.values.containers import iterators
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import ListValue
from triptych_dynamo.values.containers.sets import SetValue
from triptych_dynamo.values.objects.classes import REAL_PARTS, class_method, constructs
from triptych_dynamo.values.objects.instances import makes
from triptych_dynamo.values.objects.objects import ObjectValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_READ_BY_C = frozenset({"__slots__", "__annotations__", "__match_args__", "__conditional_annotations__"})


class StandIn:
    """An attribute of a class of the trace; the trace knows its value."""


# -- the real parts of a class -----------------------------------------------------------------------------------------
def real_part(tx: Frame, name: str, value: Value) -> Any:
    """The real object that stands for a value in the namespace of a class."""
    if isinstance(value, FunctionValue) and value.obj is None:
        return _real_function(tx, value)
    if isinstance(value, CellValue) and value.obj is None:
        return _real_cell(tx, value)
    if isinstance(value, WrappedFunctionValue):
        return _remembered(tx, value.cls(real_part(tx, name, value.function)), value)
    if isinstance(value, PropertyValue):
        parts = {key: real_part(tx, name, part) for key, part in value.parts.items()}
        return _remembered(tx, property(**parts), value)
    changes = isinstance(value, (ListValue, DictValue, SetValue))
    if value.is_constant() and (not changes or name in _READ_BY_C):
        return value.as_constant()
    if isinstance(value, ObjectValue) and value.is_new and not value.storage:
        return _stand_in_object(tx, name, value)
    return _remembered(tx, StandIn(), value)


def _remembered(tx: Frame, real: Any, value: Value) -> Any:
    tx.trace.remember(real, value)
    return real


def _real_function(tx: Frame, value: FunctionValue) -> FunctionType:
    known = tx.trace.real_functions.get(value)
    if known is not None:
        return known
    cells = tuple(_real_cell(tx, cell) for cell in value.closure)
    defaults = tuple(real_part(tx, "", item) for item in value.defaults) or None
    made = FunctionType(value.code, value.namespace, value.code.co_name, defaults, cells)
    made.__qualname__ = value.code.co_qualname
    if value.kwdefaults:
        made.__kwdefaults__ = {key: real_part(tx, "", item) for key, item in value.kwdefaults.items()}
    tx.trace.real_functions[value] = made
    for key, item in value.attributes.items():
        if item.is_constant():
            setattr(made, key, item.as_constant())
    return _remembered(tx, made, value)  # type: ignore[no-any-return]


def _real_cell(tx: Frame, value: CellValue) -> CellType:
    if value.obj is not None:
        return value.obj
    known = tx.trace.real_cells.get(value)
    if known is None:
        known = tx.trace.real_cells[value] = CellType()
        tx.trace.remember(known, value)
    return known


def _stand_in_object(tx: Frame, name: str, value: ObjectValue) -> Any:
    """An object with a protocol of its own (a descriptor): an empty one of its class."""
    if value.cls is functools.cached_property:
        function = value.get_attr(tx, "func")
        return _remembered(tx, functools.cached_property(real_part(tx, name, function)), value)
    try:
        return _remembered(tx, object.__new__(value.cls), value)
    except TypeError:
        return tx.unsupported("class-definition", f"a {value.cls.__qualname__} as an attribute of a new class")


# -- making ------------------------------------------------------------------------------------------------------------
REAL_PARTS.append(real_part)


def build(tx: Frame, meta: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Value], kwds: Any) -> Value:
    """The class of these parts, as `type.__new__` makes it: hooks of the program are traced."""
    late: dict[str, Value] = {}
    hooked = _has_hooks(meta, bases)
    prepared: Any = {} if hooked else meta.__prepare__(name, bases, **kwds)  # type: ignore[attr-defined]
    for key, value in namespace.items():
        if isinstance(value, ObjectValue) and value.is_new and hasattr(value.cls, "__set_name__"):
            late[key] = value  # torch and the standard library may run their hook: the program's is traced
        else:
            prepared[key] = real_part(tx, key, value)
    try:
        cls = make_class_silently(meta, name, bases, prepared) if hooked else meta(name, bases, prepared, **kwds)
    except TypeError as error:
        if hooked:
            return tx.unsupported("class-definition", f"{name}: {error}")
        return tx.raise_python(type(error), *error.args)
    except Exception as error:
        return tx.raise_python(type(error), *error.args)
    recipe = SilentRecipe(meta, name, bases, namespace) if hooked else BodyRecipe(meta, name, bases, namespace, kwds)
    made = remember_class(tx, cls, recipe)
    cell = namespace.get("__classcell__")
    if isinstance(cell, CellValue):
        cell.write(tx, made)
    for key, value in late.items():
        real = real_part(tx, key, value)
        type.__setattr__(cls, key, real)
        if isinstance(real, functools.cached_property):
            real.__set_name__(cls, key)
        try:
            value.call_method(tx, "__set_name__", [made, tx.constant(key)], {})
        except TracedException:  # Python puts words of its own around it, others in each version
            tx.unsupported("class-definition", f"{name}.{key}: __set_name__ raises")
    if hooked:
        _init_subclass(tx, cls, made, kwds)
    return made


def _init_subclass(tx: Frame, cls: type, made: Value, kwds: dict[str, Any]) -> None:
    """`super(cls, cls).__init_subclass__(**kwds)`."""
    for base in cls.__mro__[1:]:
        found = vars(base).get("__init_subclass__")
        if isinstance(found, classmethod):
            function = tx.wrap(found.__func__, attributes.class_source(base, "__init_subclass__", found))
            tx.call(function, [made], {key: tx.constant(value) for key, value in kwds.items()})
            return
        if found is not None:
            return


def remember_class(tx: Frame, cls: type, recipe: Recipe) -> Value:
    """The value of a class that the trace made."""
    value = tx.wrap(cls, None)
    tx.trace.made_classes.add(cls, value, recipe)
    return value


_META_HOOKS = ("__new__", "__init__", "__prepare__")


def _own_hooks(meta: type) -> list[str]:
    """The hooks of a metaclass that are the program's code."""
    found = ((hook, *lookup(meta, hook)) for hook in _META_HOOKS)
    kinds = (FunctionType, staticmethod, classmethod)
    return [hook for hook, owner, raw in found if isinstance(raw, kinds) and not attributes.is_trusted(owner)]


def _has_hooks(meta: type, bases: tuple[Any, ...]) -> bool:
    """Whether making a class would run code of the program."""
    owners = (lookup(base, "__init_subclass__")[0] for base in bases)
    return bool(_own_hooks(meta)) or any(owner is not object and not attributes.is_trusted(owner) for owner in owners)


@makes(lambda cls: issubclass(cls, type))
def _new_class(tx: Frame, meta: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__new__(meta, name, bases, namespace, **keywords)`, called by a metaclass of the program."""
    if len(args) != 3 or issubclass(meta, enum.EnumMeta):
        return tx.unsupported("class-definition", f"{meta.__qualname__}.__new__")
    return _from_values(tx, meta, args, kwargs)


@builtin(_abc_init)
def _init_abstract(tx: Frame, cls: Value) -> Value:
    return tx.constant(None)  # done where the class was made


def _from_values(tx: Frame, meta: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A class of its name, bases and namespace."""
    name, bases, mapping = args
    if not isinstance(mapping, DictValue):
        return tx.unsupported("class-definition", "a namespace that is no dictionary")
    plain = tuple(constant_of(tx, base, "a base class") for base in iterators.items_of(tx, bases))
    namespace = {entry.key.as_constant(): entry.value for entry in mapping.all_entries(tx)}
    namespace.setdefault("__module__", tx.constant(tx.scope.namespace.get("__name__")))
    keywords = {key: constant_of(tx, value, key) for key, value in kwargs.items()}
    return build(tx, meta, constant_of(tx, name, "a name"), plain, namespace, keywords)


@builtin(builtins.__build_class__)
def _build_class(tx: Frame, body: Value, name: Value, *bases: Value, **kwargs: Value) -> Value:
    """A `class` statement: the body runs symbolically over a namespace of values."""
    if not isinstance(body, FunctionValue):
        return tx.unsupported("class-definition", "a class body that is no function")
    plain = tuple(constant_of(tx, base, "a base class") for base in bases)
    keywords = {key: constant_of(tx, value, key) for key, value in kwargs.items()}
    text = constant_of(tx, name, "the name of a class")
    resolved = types.resolve_bases(plain)
    meta, _, keywords = types.prepare_class(text, resolved, keywords)
    namespace = run_body(tx, body, meta, text, resolved, keywords)
    if resolved is not plain:
        namespace["__orig_bases__"] = tx.constant(plain)
    if _own_hooks(meta):
        mapping = tx.trace.make_dict([(tx.constant(key), value) for key, value in namespace.items()])
        given = [tx.constant(text), tx.trace.make_tuple([tx.wrap(base, None) for base in resolved]), mapping]
        return tx.call(tx.wrap(meta, None), given, {key: tx.constant(value) for key, value in keywords.items()})
    return build(tx, meta, text, resolved, namespace, keywords)


def run_body(
    tx: Frame, body: FunctionValue, meta: type, name: str, bases: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Value]:
    """The namespace that the body leaves."""
    cells = dict(zip(body.code.co_freevars, body.closure, strict=True))
    names: dict[str, Value] = {}
    frame = tx.trace.new_frame(body.code, body.namespace, names, cells, tx)
    if "__prepare__" in _own_hooks(meta):
        names.update(_prepared(tx, meta, name, bases, keywords))
    else:
        prepared = meta.__prepare__(name, bases, **keywords)  # type: ignore[attr-defined]
        frame.class_namespace = None if type(prepared) is dict else prepared
    result = frame.run()
    if isinstance(result, CellValue):
        names["__classcell__"] = result
    return names


def _prepared(tx: Frame, meta: type, name: str, bases: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Value]:
    """What the metaclass's own `__prepare__` puts into a namespace."""
    given = [tx.constant(name), tx.trace.make_tuple([tx.wrap(base, None) for base in bases])]
    prepare = tx.wrap(meta, None).get_attr(tx, "__prepare__")
    mapping = tx.call(prepare, given, {key: tx.constant(value) for key, value in keywords.items()})
    if not isinstance(mapping, DictValue) or mapping.source is not None:
        return tx.unsupported("class-definition", f"{meta.__qualname__}.__prepare__ of a {mapping.python_type()}")
    return {entry.key.as_constant(): entry.value for entry in mapping.all_entries(tx)}


@constructs(type)
def _type(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type(obj)`, or a new class."""
    if len(args) == 1 and not kwargs:
        return tx.wrap(args[0].python_type(), None)
    if len(args) != 3:
        return tx.raise_python(TypeError, "type() takes 1 or 3 arguments")
    bases = iterators.items_of(tx, args[1])
    plain = tuple(constant_of(tx, base, "a base class") for base in bases)
    meta = types.prepare_class(constant_of(tx, args[0], "a name"), plain, {})[0]
    if _own_hooks(meta):
        return tx.call(tx.wrap(meta, None), args, kwargs)
    return _from_values(tx, meta, args, kwargs)


@class_method(type, "__prepare__")
def _prepare(tx: Frame, cls: Value, *args: Value, **kwargs: Value) -> Value:
    return tx.trace.make_dict([])


# -- functions that make or change classes -----------------------------------------------------------------------------
def _plain(tx: Frame, args: tuple[Value, ...], kwargs: dict[str, Value], what: str) -> tuple[list[Any], dict[str, Any]]:
    plain = [constant_of(tx, arg, f"an argument of {what}") for arg in args]
    return plain, {key: constant_of(tx, value, key) for key, value in kwargs.items()}


def _makes_class(function: Any) -> None:
    def make(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        plain, named = _plain(tx, args, kwargs, function.__name__)
        if "module" in inspect.signature(function).parameters:
            named.setdefault("module", tx.scope.namespace.get("__name__"))
        try:
            cls = function(*plain, **named)
        except Exception as error:
            return tx.raise_python(type(error), *error.args)
        return remember_class(tx, cls, CallRecipe(function, tuple(plain), named))

    builtin(function)(make)


for _function in (collections.namedtuple, dataclasses.make_dataclass):
    _makes_class(_function)


@builtin(dataclasses.field)
def _field(tx: Frame, **kwargs: Value) -> Value:
    """A field of constants; a factory that the trace made is a real function of it."""
    named = {key: real_part(tx, key, value) for key, value in kwargs.items()}
    if any(isinstance(item, StandIn) for item in named.values()):
        return tx.unsupported("class-definition", "a field whose default is not known while tracing")
    return fold(tx, dataclasses.field, [], named)


@builtin(dataclasses.dataclass)
def _dataclass(tx: Frame, cls: Value | None = None, /, **kwargs: Value) -> Value:
    """The decorator on a class of the trace."""
    _, named = _plain(tx, (), kwargs, "dataclass")
    if cls is None:
        return tx.call(tx.wrap(functools.partial, None), [tx.wrap(dataclasses.dataclass, None)], kwargs)
    real = cls.as_constant()
    made = tx.trace.made_classes
    if real not in made:
        return tx.unsupported("class-definition", f"{real.__qualname__} is made a dataclass inside the region")
    if any(isinstance(item, StandIn) for item in vars(real).values()):
        return tx.unsupported("class-definition", "a dataclass with a default that is not known while tracing")
    recipe = made.recipe(real)
    try:
        changed = dataclasses.dataclass(real, **named)
    except Exception as error:
        return tx.raise_python(type(error), *error.args)
    return remember_class(tx, changed, Decorated(recipe, dataclasses.dataclass, named))
