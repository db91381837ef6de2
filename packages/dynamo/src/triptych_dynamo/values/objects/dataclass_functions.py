"""Functions of `dataclasses` that ask about the class: answered from the class, guarded once for all its instances."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from triptych_dynamo.sources import AttrSource, PinnedSource
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.containers.sequences import TupleValue
from triptych_dynamo.values.objects.classes import ClassValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


def class_of(value: Value) -> type:
    """The dataclass that a class or an instance stands for."""
    return value.cls if isinstance(value, ClassValue) else value.python_type()


@builtin(dataclasses.fields)
def _fields(tx: Frame, class_or_instance: Value) -> Value:
    cls = class_of(class_or_instance)
    if not dataclasses.is_dataclass(cls):
        return tx.raise_python(TypeError, "must be called with a dataclass type or instance")
    tx.guard("is", AttrSource(PinnedSource(cls, cls.__qualname__), "__dataclass_fields__"), cls.__dataclass_fields__)
    return TupleValue([tx.wrap(field, None) for field in dataclasses.fields(cls)])


@builtin(dataclasses.is_dataclass)
def _is_dataclass(tx: Frame, obj: Value) -> Value:
    return tx.constant(hasattr(class_of(obj), "__dataclass_fields__"))
