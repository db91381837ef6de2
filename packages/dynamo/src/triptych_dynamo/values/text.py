"""`str()` and `repr()` of values whose text is known while tracing."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import is_scalar
from triptych_dynamo.values.exceptions import ExceptionValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


def text_of(tx: Frame, value: Value, method: str) -> str:
    """The text of `method` (`__str__` or `__repr__`) as a Python string.

    Constants and containers of constants have theirs; symbolic numbers are specialised; objects run their own method.
    """
    specialize = getattr(value, "specialize", None)
    if specialize is not None:
        value = specialize(tx)
    if is_scalar(value) or value.is_constant():
        obj = value.as_constant()
        return str(obj) if method == "__str__" else repr(obj)
    if isinstance(value, ExceptionValue) and not isinstance(attributes.defines(value.cls, method), FunctionType):
        error = value.as_exception(tx)
        return str(error) if method == "__str__" else repr(error)
    items = getattr(value, "items", None)
    if value.python_type() in (list, tuple) and items is not None:
        return _bracketed([text_of(tx, item, "__repr__") for item in items], value.python_type())
    if value.python_type() is dict and value.source is None:
        return "{" + ", ".join(_pairs(tx, value)) + "}"
    text = value.call_method(tx, method, [], {})
    if text.python_type() is not str:
        tx.raise_python(TypeError, f"{method} returned non-string (type {text.python_type().__name__})")
    return str(text.as_constant())


def _bracketed(parts: list[str], cls: type) -> str:
    inner = ", ".join(parts)
    if cls is list:
        return f"[{inner}]"
    return f"({inner},)" if len(parts) == 1 else f"({inner})"


def _pairs(tx: Frame, value: Value) -> list[str]:
    entries = value.all_entries(tx)  # type: ignore[attr-defined]
    return [f"{text_of(tx, entry.key, '__repr__')}: {text_of(tx, entry.value, '__repr__')}" for entry in entries]
