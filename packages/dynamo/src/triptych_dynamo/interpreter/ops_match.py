"""Instructions of the match statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def _text_of_no_class() -> str:
    """How this version of Python refuses a pattern whose class is none."""
    number: Any = 0
    try:
        match None:
            case number():
                pass
    except TypeError as error:
        return str(error)
    raise AssertionError("a number is no class")


_NO_CLASS = _text_of_no_class()


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
    cls, names = cls_value.as_constant() if cls_value.is_constant() else None, names_value.as_constant()
    positional = instruction.arg or 0
    if not isinstance(cls, type):
        frame.raise_python(TypeError, _NO_CLASS)
    if not issubclass(subject.python_type(), cls):
        frame.push(ConstantValue(None))
        return
    found: list[Value] = []
    if positional and cls in _SELF_PATTERNS and not hasattr(cls, "__match_args__"):
        found.append(subject)
        wanted = names
    else:
        wanted = (*_positional_names(frame, cls_value, positional), *names)
    if len(set(wanted)) < len(wanted):
        twice = next(name for index, name in enumerate(wanted) if name in wanted[:index])
        frame.raise_python(TypeError, f"{cls.__name__}() got multiple sub-patterns for attribute {twice!r}")
    for name in wanted:
        item = frame.catches(AttributeError, lambda name=name: subject.get_attr(frame, name))  # type: ignore[misc]
        if item is None:
            frame.push(ConstantValue(None))
            return
        found.append(item)
    frame.push(TupleValue(found))


def _positional_names(frame: Frame, cls_value: Value, count: int) -> tuple[str, ...]:
    """The attributes that positional patterns look at."""
    name = cls_value.as_constant().__name__
    declared = frame.catches(AttributeError, lambda: cls_value.get_attr(frame, "__match_args__")) if count else None
    if declared is not None and declared.python_type() is not tuple:
        cls = declared.python_type().__name__
        frame.raise_python(TypeError, f"{name}.__match_args__ must be a tuple (got {cls})")
    known: list[Value] = [] if declared is None else list(declared.iterate(frame))
    if len(known) < count:
        plural = "" if len(known) == 1 else "s"
        frame.raise_python(TypeError, f"{name}() accepts {len(known)} positional sub-pattern{plural} ({count} given)")
    for item in known[:count]:
        if item.python_type() is not str:
            cls = item.python_type().__name__
            frame.raise_python(TypeError, f"__match_args__ elements must be strings (got {cls})")
    return tuple(item.as_constant() for item in known[:count])
