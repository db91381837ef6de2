"""Values as JSON and back, without pickle: constants, containers, torch's descriptive types, objects by name.

>>> decode(json.loads(json.dumps(encode((1, float("nan"), torch.float32)))))
(1, nan, torch.float32)
"""

from __future__ import annotations

import base64
import importlib
import logging
import math
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, EllipsisType, ModuleType, NoneType
from typing import Any

import torch

Json = Any


class NotPortable(ValueError):
    """The object has no form outside of this process."""


class Codec:
    """Encodes by exact type. `row` adds a type; `Codec.NAMED` objects are those that an import finds again."""

    def __init__(self) -> None:
        self._by_type: dict[type, tuple[str, Callable[[Any], Json]]] = {}
        self._by_tag: dict[str, Callable[[Json], Any]] = {}

    def row(self, cls: type, tag: str, to_json: Callable[[Any], Json], from_json: Callable[[Json], Any]) -> None:
        """How objects of exactly `cls` are written and read."""
        self._by_type[cls] = (tag, to_json)
        self._by_tag[tag] = from_json

    def alias(self, cls: type, written_as: type) -> None:
        """Objects of exactly `cls` are written as, and come back as, objects of `written_as`."""
        tag, to_json = self._by_type[written_as]
        self._by_type[cls] = (tag, lambda obj: to_json(written_as(obj)))

    def encode(self, obj: Any) -> Json:
        """The JSON form.

        Raises:
            NotPortable: there is none; the text names the object.
        """
        if type(obj) in (NoneType, bool, int, str) or (type(obj) is float and math.isfinite(obj)):
            return obj
        if type(obj) is list:
            return [self.encode(item) for item in obj]
        found = self._by_type.get(type(obj))
        if found is not None:
            tag, to_json = found
            return {"$": tag, "v": to_json(obj)}
        return {"$": "named", "v": name_of(obj)}

    def decode(self, data: Json) -> Any:
        """What `encode` was given.

        Raises:
            NotPortable: an unknown tag, or a name that is not there.
        """
        if isinstance(data, list):
            return [self.decode(item) for item in data]
        if not isinstance(data, dict):
            return data
        if data["$"] == "named":
            return resolve(data["v"])
        if data["$"] not in self._by_tag:
            raise NotPortable(f"unknown kind of value {data['$']!r}")
        return self._by_tag[data["$"]](data["v"])


def name_of(obj: Any) -> str:
    """'module:qualified name' under which an import finds this very object.

    Raises:
        NotPortable: it has no such name.
    """
    if isinstance(obj, ModuleType):
        if sys.modules.get(obj.__name__) is obj and obj.__name__ != "__main__":
            return f"{obj.__name__}:"
        raise NotPortable(f"the module {obj.__name__} cannot be imported by that name")
    for text in _candidates(obj):
        try:
            if resolve(text) is obj:
                return text
        except NotPortable:
            continue
    raise NotPortable(f"{_short(obj)} has no name under which another process finds it")


def _candidates(obj: Any) -> Iterator[str]:
    short, own = getattr(obj, "__name__", None), getattr(obj, "__module__", None)
    if isinstance(obj, BuiltinFunctionType):  # torch's say that they belong to a hidden class
        yield from (f"{home}:{short}" for home in _HOMES)
    name = getattr(obj, "__qualname__", None) or short
    if isinstance(name, str) and "<locals>" in name:  # functions of torch that a function made
        yield from (f"{home}:{short}" for home in _HOMES)
    elif isinstance(name, str):
        homes = (own, *_HOMES) if isinstance(own, str) and own != "__main__" else _HOMES
        yield from (f"{home}:{name}" for home in homes)


# Where functions live that do not tell their module.
_HOMES = (
    *(
        "torch",
        "torch.functional",
        "torch.nn.functional",
        "torch._C._nn",
        "torch._C._linalg",
        "torch._C._fft",
        "torch._C._special",
        "torch._C",
    ),
    *("torch._C._VariableFunctions", "torch._C._autograd", "operator", "math", "builtins"),
)


def resolve(text: str) -> Any:
    """The object of a name; raises `NotPortable`."""
    module, _, path = text.partition(":")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        found = _attribute_path(module)
    for part in filter(None, path.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotPortable(f"there is no {text}") from None
    return found


def _attribute_path(module: str) -> Any:
    """Namespaces that are no importable modules, such as `torch._C._VariableFunctions`."""
    head, *rest = module.split(".")
    try:
        found: Any = importlib.import_module(head)
        for part in rest:
            found = getattr(found, part)
    except (ImportError, AttributeError):
        raise NotPortable(f"there is no module {module}") from None
    return found


def _short(obj: Any) -> str:
    text = repr(obj)
    return f"{type(obj).__qualname__} {text if len(text) <= 60 else text[:57] + '...'}"


def _torch_constant(text: str) -> Any:
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise NotPortable(f"torch has no constant {text}")
    return found


def make_codec() -> Codec:
    """A codec with the rows below; users of it add their own."""
    codec = Codec()
    encode, decode = codec.encode, codec.decode
    several: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
        (tuple, "tuple", tuple),
        (set, "set", set),
        (frozenset, "frozenset", frozenset),
        (torch.Size, "size", torch.Size),
    )
    for cls, tag, make in several:
        ordered = (lambda obj: list(obj)) if cls in (tuple, torch.Size) else (lambda obj: sorted(obj, key=repr))
        codec.row(cls, tag, lambda obj, o=ordered: encode(o(obj)), lambda data, m=make: m(decode(data)))  # type: ignore[misc]
    codec.row(dict, "dict", lambda obj: encode([list(pair) for pair in obj.items()]), lambda data: dict(decode(data)))
    codec.row(float, "float", lambda obj: repr(obj), float)
    codec.row(complex, "complex", lambda obj: encode([obj.real, obj.imag]), lambda data: complex(*decode(data)))
    codec.row(bytes, "bytes", lambda obj: base64.b64encode(obj).decode(), lambda data: base64.b64decode(data))
    codec.row(EllipsisType, "...", lambda obj: None, lambda data: ...)
    codec.row(range, "range", lambda obj: [obj.start, obj.stop, obj.step], lambda data: range(*data))
    codec.row(
        slice,
        "slice",
        lambda obj: encode([obj.start, obj.stop, obj.step]),
        lambda data: slice(*decode(data)),
    )
    codec.row(torch.device, "device", str, torch.device)
    for logger in (logging.Logger, logging.RootLogger):
        codec.row(logger, "logger", lambda obj: obj.name, logging.getLogger)
    for cls, tag in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        codec.row(cls, tag, str, _torch_constant)
    return codec
