"""The JSON form of plans: numbers and text as they are, everything else as a one-entry object that names its kind.

>>> encode((1, torch.float32))
{'tuple': [1, {'torch': 'float32'}]}
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

from triptych_aot_autograd.errors import AotError
from triptych_aot_autograd.facts import SymbolRef


class PlanError(AotError):
    """A plan holds something without a JSON form, or JSON data is no plan."""


_RECORDS: dict[str, Any] = {}
TORCH_KINDS = (torch.dtype, torch.layout, torch.memory_format)


def register(*classes: type) -> None:
    """Dataclasses that may be part of a plan."""
    _RECORDS.update({cls.__name__: cls for cls in classes})


def encode(value: Any) -> Any:
    """JSON-able data for a value. Raises `PlanError`."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    for kinds, name, text in _FORMS:
        if isinstance(value, kinds):
            return {name: text(value)}
    name = type(value).__name__
    if _RECORDS.get(name) is type(value):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(_RECORDS[name])}
        return {"record": name, "fields": fields}
    raise PlanError(f"{value!r} of type {type(value).__name__} cannot be stored")


# types, name in JSON, what is written: the first row that fits counts
_FORMS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (SymbolRef, "symbol", lambda v: v.index),
    (TORCH_KINDS, "torch", lambda v: str(v).removeprefix("torch.")),
    (torch.device, "device", str),
    (torch._ops.OpOverload, "op", str),
    (complex, "complex", lambda v: [encode(v.real), encode(v.imag)]),
    (slice, "slice", lambda v: [encode(v.start), encode(v.stop), encode(v.step)]),
    (tuple, "tuple", lambda v: [encode(item) for item in v]),  # sizes among them
    (list, "list", lambda v: [encode(item) for item in v]),
    (frozenset, "set", lambda v: [encode(item) for item in sorted(v)]),
    (dict, "dict", lambda v: [[encode(key), encode(item)] for key, item in v.items()]),
)


def _torch_constant(name: str) -> Any:
    found = getattr(torch, name, None)
    if not isinstance(found, TORCH_KINDS):
        raise PlanError(f"{name!r} is no dtype, layout or memory format of torch")
    return found


def operator_named(text: str) -> Any:
    """The `OpOverload` whose text is `namespace.name.overload`. Raises `PlanError` where there is none."""
    parts = text.split(".")
    try:
        found = torch.ops
        for part in parts:
            found = getattr(found, part)
    except AttributeError:
        found = None
    if len(parts) != 3 or not isinstance(found, torch._ops.OpOverload):
        raise PlanError(f"there is no operator {text!r}")
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "symbol": SymbolRef,
    "torch": _torch_constant,
    "device": torch.device,
    "op": operator_named,
    "complex": lambda v: complex(*map(decode, v)),
    "slice": lambda v: slice(*map(decode, v)),
    "tuple": lambda v: tuple(map(decode, v)),
    "list": lambda v: list(map(decode, v)),
    "set": lambda v: frozenset(map(decode, v)),
    "dict": lambda v: {decode(key): decode(item) for key, item in v},
}


def decode(data: Any) -> Any:
    """The value of what `encode` gave. Raises `PlanError`."""
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise PlanError("a bare list is no value of a plan")
        return data
    if "record" in data:
        cls = _RECORDS.get(data["record"])
        if cls is None:
            raise PlanError(f"unknown record {data['record']!r}")
        return cls(**{name: decode(item) for name, item in data["fields"].items()})
    if len(data) != 1 or next(iter(data)) not in _READERS:
        raise PlanError(f"unknown kind of value: {sorted(data)}")
    ((kind, content),) = data.items()
    return _READERS[kind](content)
