"""What follows a saved graph, as JSON: the rows of `emit.ending`, with a closed list of what they may call.

Reading a file never runs code that the file chooses: a row calls only methods of builtin containers, makes only
containers and objects of plain data (data classes, named tuples, subclasses of builtin containers, without running
their initialisers), and prints, logs or warns. Who executes what a file holds anyway may allow objects of any class
(`any_class`), made without their initialisers as well.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

import torch

from triptych_dynamo.codec import Codec, Json, NotPortable, name_of, resolve
from triptych_dynamo.emit.ending import Ending, Row
from triptych_dynamo.guards.portable import source_from_json, source_to_json
from triptych_dynamo.runtime_output import warn_above, warn_at
from triptych_dynamo.sources import Source

Allowed = Callable[[type], bool]
_CONTAINERS = (dict, OrderedDict, defaultdict, list, tuple, set, frozenset, deque)
_CHANGING = ("__setitem__", "__delitem__", "clear", "update", "extend", "append", "move_to_end", "add", "discard")
_LOGGED = ("debug", "info", "warning", "error", "critical", "log")


def _table() -> dict[str, Any]:
    rows: dict[str, Any] = {"object.__new__": object.__new__, "print": print, "iter": iter}
    for name in ("__setattr__", "__delattr__"):
        rows[f"object.{name}"] = getattr(object, name)
    for cls in _CONTAINERS:
        rows[cls.__name__] = cls
        rows[f"{cls.__name__}.__new__"] = cls.__new__
        rows.update({f"{cls.__name__}.{name}": getattr(cls, name) for name in _CHANGING if hasattr(cls, name)})
    rows |= {"Size": torch.Size, "mappingproxy": MappingProxyType, "warn_at": warn_at, "warn_above": warn_above}
    for name in _LOGGED:
        rows[f"Logger.{name}"] = getattr(logging.Logger, name)
        rows[f"logging.{name}"] = getattr(logging, name)
    return rows


_CALLABLES = _table()
_NAMES = {obj: name for name, obj in reversed(_CALLABLES.items())}
_METHODS = frozenset({"update", "__setstate__"})  # of an object's dictionary and of an iterator


def is_data_class(cls: type) -> bool:
    """Whether objects of a class are plain data: made without its own code, dropped without it."""
    plain = dataclasses.is_dataclass(cls) or issubclass(cls, _CONTAINERS)
    return plain and not hasattr(cls, "__del__") and type(cls).__call__ is type.__call__


def _is_result_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and cls.__module__ == "torch.return_types" and issubclass(cls, tuple)


def any_class(cls: type) -> bool:
    """For files that are trusted: every class that an import finds."""
    return True


def _object_to_json(codec: Codec, obj: Any, allowed: Allowed) -> Json:
    if isinstance(obj, Callable) and obj in _NAMES:  # type: ignore[arg-type]
        return ["callable", _NAMES[obj]]
    if isinstance(obj, type):
        if not allowed(obj):
            raise NotPortable(f"the graph's result has a {obj.__qualname__}, which only the program can make")
        return ["class", name_of(obj)]
    if callable(obj):
        raise NotPortable(f"what follows the graph calls {getattr(obj, '__qualname__', obj)!r}")
    return ["const", codec.encode(obj)]


def _object_from_json(codec: Codec, kind: str, data: Json, allowed: Allowed) -> Row:
    if kind == "callable":
        if data not in _CALLABLES:
            raise NotPortable(f"{data} is nothing that may follow a graph")
        return ("object", _CALLABLES[data])
    if kind == "const":
        return ("const", codec.decode(data))
    cls = resolve(data)
    if not isinstance(cls, type) or not allowed(cls):
        raise NotPortable(f"{data} is no class of plain data")
    return ("object", cls)


# -- rows --------------------------------------------------------------------------------------------------------------
def ending_to_json(codec: Codec, rows: Ending, brought: dict[Source, str], allowed: Allowed = is_data_class) -> Json:
    """The rows as lists.

    Args:
        brought: names of the tensors that the file brings along, by their source.
        allowed: of which classes objects may be made.
    """
    _check_calls(rows)
    return [_row_to_json(codec, row, brought, allowed) for row in rows]


def _row_to_json(codec: Codec, row: Row, brought: dict[Source, str], allowed: Allowed) -> Json:
    kind, *rest = row
    if kind == "const":
        return [kind, codec.encode(rest[0])]
    if kind == "object":
        return _object_to_json(codec, rest[0], allowed)
    if kind == "source":
        return ["brought", brought[rest[0]]] if rest[0] in brought else [kind, source_to_json(rest[0])]
    return list(row)


def ending_from_json(codec: Codec, data: Json, allowed: Allowed = is_data_class) -> Ending:
    """The inverse of `ending_to_json`.

    Raises:
        NotPortable: the rows call something else than what they may.
    """
    rows: Ending = []
    for kind, *rest in data:
        if kind in ("const", "callable", "class"):
            rows.append(_object_from_json(codec, kind, rest[0], allowed))
        elif kind == "source":
            rows.append((kind, source_from_json(rest[0])))
        else:
            rows.append((kind, *rest))
    _check_calls(rows)
    return rows


def _check_calls(rows: Ending) -> None:
    """Every call is one of the closed list."""
    for row in rows:
        if row[0] != "call":
            continue
        kind, *rest = rows[row[1]]
        known = kind == "object" and (_is_known(rest[0]) or _is_result_tuple(rest[0]))
        method = kind == "attr" and rest[1] in _METHODS
        if not known and not method:
            name = rest[0] if kind == "object" else rest[-1]
            raise NotPortable(f"what follows the graph calls {getattr(name, '__qualname__', name)!r}")


def _is_known(obj: Any) -> bool:
    try:
        return obj in _NAMES
    except TypeError:
        return False


def sources_of(rows: Ending) -> Iterable[Source]:
    """Where the rows read."""
    return [row[1] for row in rows if row[0] == "source"]
