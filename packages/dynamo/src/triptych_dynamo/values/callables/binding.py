"""Binding of call arguments to the parameters of a function value, with Python's rules and error texts."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import Unread

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.callables.functions import FunctionValue


def bind_arguments(tx: Frame, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Parameters by name. Raises the traced TypeError where Python would."""
    code = function.code
    positional = code.co_argcount
    names = code.co_varnames
    bound: dict[str, Value] = dict(zip(names[:positional], args, strict=False))
    named_count = positional + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    extra = _bind_keywords(tx, function, bound, kwargs)
    if len(args) > positional and not has_rest:
        _raise_too_many(tx, function, len(args), bound)
    _fill_defaults(function, bound)
    _check_missing(tx, function, names[:positional], "positional", bound)
    _check_missing(tx, function, names[positional:named_count], "keyword-only", bound)
    if has_rest:
        bound[names[named_count]] = tx.trace.make_tuple(args[positional:])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[named_count + has_rest]] = tx.trace.make_dict([(ConstantValue(k), v) for k, v in extra.items()])
    return bound


def _raise_too_many(tx: Frame, function: FunctionValue, given: int, bound: dict[str, Value]) -> None:
    """More positional arguments than parameters."""
    code = function.code
    most, optional = code.co_argcount, len(function.defaults)
    takes = f"from {most - optional} to {most}" if optional else str(most)
    plural = "s" if optional or most != 1 else ""
    keyword_only = sum(name in bound for name in code.co_varnames[most : most + code.co_kwonlyargcount])
    also = ""
    if keyword_only:
        also = f" positional argument{'s' * (given != 1)} (and {keyword_only} keyword-only argument"
        also += f"{'s' * (keyword_only != 1)})"
    verb = "was" if given == 1 and not keyword_only else "were"
    raise_type_error(tx, function, f"takes {takes} positional argument{plural} but {given}{also} {verb} given")


def _check_missing(
    tx: Frame, function: FunctionValue, names: tuple[str, ...], kind: str, bound: dict[str, Value]
) -> None:
    """Every parameter of `names` has a value."""
    missing = [repr(name) for name in names if name not in bound]
    if not missing:
        return
    listed = " and ".join(missing) if len(missing) < 3 else f"{', '.join(missing[:-1])}, and {missing[-1]}"
    plural = "s" if len(missing) > 1 else ""
    raise_type_error(tx, function, f"missing {len(missing)} required {kind} argument{plural}: {listed}")


def _bind_keywords(
    tx: Frame, function: FunctionValue, bound: dict[str, Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    code = function.code
    named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    extra: dict[str, Value] = {}
    for key, value in kwargs.items():
        if key in named:
            if key in bound:
                raise_type_error(tx, function, f"got multiple values for argument '{key}'")
            bound[key] = value
        elif code.co_flags & inspect.CO_VARKEYWORDS:
            extra[key] = value
        else:
            only = [name for name in code.co_varnames[: code.co_posonlyargcount] if name in kwargs]
            if only:
                text = f"got some positional-only arguments passed as keyword arguments: '{', '.join(only)}'"
                raise_type_error(tx, function, text)
            raise_type_error(tx, function, f"got an unexpected keyword argument '{key}'")
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


def raise_type_error(tx: Frame, function: FunctionValue, text: str) -> None:
    """The TypeError of a call that does not fit."""
    tx.raise_python(TypeError, f"{function.qualified_name}() {text}")
