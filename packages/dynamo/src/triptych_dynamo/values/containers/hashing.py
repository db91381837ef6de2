"""Stand-ins of values as keys of dictionaries and members of sets, and the error of what cannot be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException
from triptych_dynamo.values.atoms.type_names import TELLS_FULL_NAMES, full_name

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


def key_of(tx: Frame, value: Value) -> Any:
    """The stand-in of a dictionary's key."""
    return _stand_in(tx, value, "dict key")


def member_of(tx: Frame, value: Value) -> Any:
    """The stand-in of a set's element."""
    return _stand_in(tx, value, "set element")


def _stand_in(tx: Frame, value: Value, use: str) -> Any:
    try:
        return value.key(tx)
    except TracedException as error:
        text = _text(tx, error) if TELLS_FULL_NAMES else None
        if text is None:
            raise
    return tx.raise_python(TypeError, f"cannot use '{full_name(value.python_type())}' as a {use} ({text})")


def _text(tx: Frame, error: TracedException) -> str | None:
    """The text of a plain TypeError."""
    arguments = getattr(error.value, "arguments", None)
    if error.value.python_type() is not TypeError or arguments is None:
        return None
    parts = arguments(tx)
    return str(parts[0].as_constant()) if len(parts) == 1 and parts[0].is_constant() else None
