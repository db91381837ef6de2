"""`str()` and `repr()` of values whose text is known while tracing."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import is_scalar
from triptych_dynamo.values.containers.deques import DequeValue
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.containers.sets import SetValue
from triptych_dynamo.values.objects.exceptions import ExceptionValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


def text_of(tx: Frame, value: Value, method: str) -> str:
    """The text of `method` (`__str__` or `__repr__`) as a Python string.

    Constants and containers of constants have theirs; symbolic numbers are specialised; objects run their own method.
    """
    specialize = getattr(value, "specialize", None)
    if specialize is not None:
        value = specialize(tx)
    if is_scalar(value) or (value.is_constant() and not isinstance(value, SetValue)):
        return _known(tx, value.as_constant(), method)
    if isinstance(value, ExceptionValue) and not isinstance(attributes.defines(value.cls, method), FunctionType):
        error = value.as_exception(tx)
        return str(error) if method == "__str__" else repr(error)
    container = _CONTAINERS.get(value.python_type())
    if container is not None and isinstance(value, container[0]):
        return container[1](tx, value)
    text = value.call_method(tx, method, [], {})
    if text.python_type() is not str:
        tx.raise_python(TypeError, f"{method} returned non-string (type {text.python_type().__name__})")
    return str(text.as_constant())


def _known(tx: Frame, obj: Any, method: str) -> str:
    """The text of an object, which may not have one (a number of too many digits)."""
    try:
        return str(obj) if method == "__str__" else repr(obj)
    except Exception as error:
        return tx.raise_caught(error)


# -- containers of what is not all known while tracing ----------------------------------------------------------------
def _texts(tx: Frame, values: Iterable[Value]) -> list[str]:
    return [text_of(tx, value, "__repr__") for value in values]


def _list(tx: Frame, value: SequenceValue) -> str:
    return f"[{', '.join(_texts(tx, value.items))}]"


def _tuple(tx: Frame, value: SequenceValue) -> str:
    parts = _texts(tx, value.items)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _deque(tx: Frame, value: DequeValue) -> str:
    bound = "" if value.maxlen is None else f", maxlen={value.maxlen}"
    return f"deque({_list(tx, value)}{bound})"


def _dict(tx: Frame, value: DictValue) -> str:
    pairs = [_texts(tx, (entry.key, entry.value)) for entry in value.all_entries(tx)]
    return "{" + ", ".join(": ".join(pair) for pair in pairs) + "}"


def _ordered_dict(tx: Frame, value: DictValue) -> str:
    entries = value.all_entries(tx)
    if not entries or sys.version_info >= (3, 12):
        return f"OrderedDict({_dict(tx, value) if entries else ''})"
    pairs = [", ".join(_texts(tx, (entry.key, entry.value))) for entry in entries]
    return f"OrderedDict([{', '.join(f'({pair})' for pair in pairs)}])"


def _default_dict(tx: Frame, value: DictValue) -> str:
    factory = "None" if value.default_factory is None else text_of(tx, value.default_factory, "__repr__")
    return f"defaultdict({factory}, {_dict(tx, value)})"


def _set(tx: Frame, value: SetValue) -> str:
    inner = "{" + ", ".join(_texts(tx, value.iterate(tx))) + "}"
    if value.cls is set:
        return inner if value.members else "set()"
    return f"frozenset({inner if value.members else ''})"


_CONTAINERS: dict[type, tuple[type, Callable[..., str]]] = {
    list: (SequenceValue, _list),
    tuple: (SequenceValue, _tuple),
    deque: (DequeValue, _deque),
    dict: (DictValue, _dict),
    OrderedDict: (DictValue, _ordered_dict),
    defaultdict: (DictValue, _default_dict),
    set: (SetValue, _set),
    frozenset: (SetValue, _set),
}
