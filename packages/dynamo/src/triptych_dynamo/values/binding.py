"""Binding of call arguments to the parameters of a function value, with Python's rules and error texts."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import Unread
from triptych_dynamo.values.constant import ConstantValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.functions import FunctionValue


def bind_arguments(tx: Frame, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Parameters by name. Raises the traced TypeError where Python would."""
    code = function.code
    positional = code.co_argcount
    names = code.co_varnames
    bound: dict[str, Value] = dict(zip(names[:positional], args, strict=False))
    named_count = positional + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    if len(args) > positional and not has_rest:
        raise_type_error(tx, code.co_name, f"takes {positional} positional arguments but {len(args)} were given")
    extra = _bind_keywords(tx, function, bound, kwargs)
    _fill_defaults(function, bound)
    missing = [name for name in names[:named_count] if name not in bound]
    if missing:
        kind = "positional" if missing[0] in names[:positional] else "keyword-only"
        listed = " and ".join(f"'{name}'" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise_type_error(tx, code.co_name, f"missing {len(missing)} required {kind} argument{plural}: {listed}")
    if has_rest:
        bound[names[named_count]] = tx.trace.make_tuple(args[positional:])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[named_count + has_rest]] = tx.trace.make_dict([(ConstantValue(k), v) for k, v in extra.items()])
    return bound


def _bind_keywords(
    tx: Frame, function: FunctionValue, bound: dict[str, Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    code = function.code
    named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    extra: dict[str, Value] = {}
    for key, value in kwargs.items():
        if key in named:
            if key in bound:
                raise_type_error(tx, code.co_name, f"got multiple values for argument '{key}'")
            bound[key] = value
        elif code.co_flags & inspect.CO_VARKEYWORDS:
            extra[key] = value
        else:
            raise_type_error(tx, code.co_name, f"got an unexpected keyword argument '{key}'")
    return extra


def _fill_defaults(function: FunctionValue, bound: dict[str, Value]) -> None:
    code = function.code
    first = code.co_argcount - len(function.defaults)
    for index, name in enumerate(code.co_varnames[first : code.co_argcount]):
        if name not in bound:
            bound[name] = read_default(function.defaults, index)
    for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
        if name not in bound and name in function.kwdefaults:
            bound[name] = read_default(function.kwdefaults, name)


def read_default(defaults: Any, key: Any) -> Value:
    """A default that the call uses: only now it is wrapped and guarded."""
    found = defaults[key]
    if isinstance(found, Unread):
        found = defaults[key] = found.read()
    return found  # type: ignore[no-any-return]


def raise_type_error(tx: Frame, name: str, text: str) -> None:
    """The TypeError of a call that does not fit."""
    tx.raise_python(TypeError, f"{name}() {text}")
