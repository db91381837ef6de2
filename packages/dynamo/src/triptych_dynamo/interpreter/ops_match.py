"""Instructions of the match statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.containers.sequences import TupleValue

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame

_SEQUENCE_FLAG, _MAPPING_FLAG = 1 << 5, 1 << 6  # Py_TPFLAGS_SEQUENCE, Py_TPFLAGS_MAPPING
# Classes whose one positional pattern is the subject itself.
_SELF_PATTERNS = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@op("GET_LEN")
def get_len(frame: Frame, instruction: Instruction) -> None:
    frame.push(frame.stack[-1].call_method(frame, "__len__", [], {}))


@op("MATCH_SEQUENCE")
def match_sequence(frame: Frame, instruction: Instruction) -> None:
    frame.push(ConstantValue(bool(frame.stack[-1].python_type().__flags__ & _SEQUENCE_FLAG)))


@op("MATCH_MAPPING")
def match_mapping(frame: Frame, instruction: Instruction) -> None:
    frame.push(ConstantValue(bool(frame.stack[-1].python_type().__flags__ & _MAPPING_FLAG)))


@op("MATCH_KEYS")
def match_keys(frame: Frame, instruction: Instruction) -> None:
    """`subject keys -> subject keys values-or-None`."""
    subject, keys = frame.stack[-2:]
    found: list[Value] = []
    for key in keys.iterate(frame):
        if not operators.contains(frame, key, subject).truth(frame):
            frame.push(ConstantValue(None))
            return
        found.append(operators.get_item(frame, subject, key))
    frame.push(TupleValue(found))


@op("MATCH_CLASS")
def match_class(frame: Frame, instruction: Instruction) -> None:
    """`subject class names -> attributes-or-None`."""
    subject, cls_value, names_value = frame.popn(3)
    cls, names = cls_value.as_constant(), names_value.as_constant()
    positional = instruction.arg or 0
    if not issubclass(subject.python_type(), cls):
        frame.push(ConstantValue(None))
        return
    found: list[Value] = []
    if positional and cls in _SELF_PATTERNS and not hasattr(cls, "__match_args__"):
        found.append(subject)
        positional -= 1
    wanted = (*getattr(cls, "__match_args__", ())[:positional], *names)
    if len(wanted) < positional + len(names):
        frame.raise_python(TypeError, f"{cls.__name__}() accepts {len(wanted)} positional sub-patterns")
    for name in wanted:
        item = frame.catches(AttributeError, lambda name=name: subject.get_attr(frame, name))  # type: ignore[misc]
        if item is None:
            frame.push(ConstantValue(None))
            return
        found.append(item)
    frame.push(TupleValue(found))
