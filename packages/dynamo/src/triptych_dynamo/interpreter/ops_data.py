"""Instructions that build, take apart and combine data: operators, containers, unpacking, formatting."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.run_texts import join
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtins import format_value
from triptych_dynamo.values.containers.iterators import get_iter
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.ranges import SliceValue
from triptych_dynamo.values.containers.sequences import ListValue, TupleValue
from triptych_dynamo.values.containers.sets import SetValue

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


# -- operators -------------------------------------------------------------------------------------------------------
@op("BINARY_OP")
def binary_op(frame: Frame, instruction: Instruction) -> None:
    left, right = frame.popn(2)
    symbol = instruction.argval
    if symbol.endswith("="):
        frame.push(operators.inplace(frame, symbol[:-1], left, right))
    else:
        frame.push(operators.binary(frame, symbol, left, right))


_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~"}


@op(*_UNARY)
def unary_op(frame: Frame, instruction: Instruction) -> None:
    frame.push(operators.unary(frame, _UNARY[instruction.opname], frame.pop()))


@op("UNARY_NOT")
def unary_not(frame: Frame, instruction: Instruction) -> None:
    frame.push(ConstantValue(not frame.pop().truth(frame)))


BRANCHES = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"})


def _is_for_a_branch(frame: Frame) -> bool:
    """Whether a branch follows: it asks for the truth itself, so that a value that only the run knows is cut there."""
    return frame.program.instructions[frame.next_position].opname in BRANCHES


@op("TO_BOOL")
def to_bool(frame: Frame, instruction: Instruction) -> None:
    if not _is_for_a_branch(frame):
        frame.push(ConstantValue(frame.pop().truth(frame)))


_COMPARE_TO_BOOL = 16  # from 3.13 on: a comparison for a branch gives an exact bool


@op("COMPARE_OP")
def compare_op(frame: Frame, instruction: Instruction) -> None:
    left, right = frame.popn(2)
    result = operators.compare(frame, instruction.argval, left, right)
    wants_bool = instruction.flags & _COMPARE_TO_BOOL and not _is_for_a_branch(frame)
    frame.push(ConstantValue(result.truth(frame)) if wants_bool else result)


@op("IS_OP")
def is_op(frame: Frame, instruction: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(ConstantValue(is_identical(frame, left, right) != bool(instruction.arg)))


def is_identical(frame: Frame, left: Value, right: Value) -> bool:
    """`left is right`; that two objects of the program differ is guarded where both could become one."""
    if operators.is_same(left, right):
        return True
    both = left.source is not None and right.source is not None
    if both and left.python_type() is right.python_type() and not isinstance(left, ConstantValue):
        frame.guard("not_same_as", left.source, right.source)
    return False


@op("CONTAINS_OP")
def contains_op(frame: Frame, instruction: Instruction) -> None:
    item, container = frame.popn(2)
    found = operators.contains(frame, item, container)
    frame.push(ConstantValue(not found.truth(frame)) if instruction.arg else found)


# -- subscripts ------------------------------------------------------------------------------------------------------
@op("BINARY_SUBSCR")
def binary_subscr(frame: Frame, instruction: Instruction) -> None:
    container, key = frame.popn(2)
    frame.push(operators.get_item(frame, container, key))


@op("STORE_SUBSCR")
def store_subscr(frame: Frame, instruction: Instruction) -> None:
    value, container, key = frame.popn(3)
    operators.set_item(frame, container, key, value)


@op("DELETE_SUBSCR")
def delete_subscr(frame: Frame, instruction: Instruction) -> None:
    container, key = frame.popn(2)
    operators.del_item(frame, container, key)


@op("BINARY_SLICE")
def binary_slice(frame: Frame, instruction: Instruction) -> None:
    container, start, stop = frame.popn(3)
    frame.push(operators.get_item(frame, container, SliceValue(start, stop, ConstantValue(None))))


@op("STORE_SLICE")
def store_slice(frame: Frame, instruction: Instruction) -> None:
    value, container, start, stop = frame.popn(4)
    operators.set_item(frame, container, SliceValue(start, stop, ConstantValue(None)), value)


# -- containers ------------------------------------------------------------------------------------------------------
def _count(instruction: Instruction) -> int:
    assert instruction.arg is not None
    return instruction.arg


@op("BUILD_TUPLE")
def build_tuple(frame: Frame, instruction: Instruction) -> None:
    frame.push(TupleValue(frame.popn(_count(instruction))))


@op("BUILD_LIST")
def build_list(frame: Frame, instruction: Instruction) -> None:
    frame.push(ListValue(frame.popn(_count(instruction))))


@op("BUILD_SET")
def build_set(frame: Frame, instruction: Instruction) -> None:
    frame.push(SetValue.of(frame, frame.popn(_count(instruction))))


@op("BUILD_MAP")
def build_map(frame: Frame, instruction: Instruction) -> None:
    flat = frame.popn(2 * _count(instruction))
    frame.push(_dict_of(frame, zip(flat[::2], flat[1::2], strict=True)))


@op("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, instruction: Instruction) -> None:
    keys = frame.pop().iterate(frame)
    values = frame.popn(_count(instruction))
    frame.push(_dict_of(frame, zip(keys, values, strict=True)))


def _dict_of(frame: Frame, pairs: Any) -> Value:
    result = DictValue([])
    for key, value in pairs:
        operators.set_item(frame, result, key, value)
    return result


@op("BUILD_SLICE")
def build_slice(frame: Frame, instruction: Instruction) -> None:
    parts = frame.popn(_count(instruction))
    frame.push(SliceValue(parts[0], parts[1], parts[2] if len(parts) == 3 else ConstantValue(None)))


@op("BUILD_STRING")
def build_string(frame: Frame, instruction: Instruction) -> None:
    frame.push(join(frame, frame.popn(_count(instruction))))


# The container is `arg` below the operand; comprehensions and displays use these.
_EXTENDERS = {
    "LIST_APPEND": "append",
    "LIST_EXTEND": "extend",
    "SET_ADD": "add",
    "SET_UPDATE": "update",
    "DICT_UPDATE": "update",
}


@op(*_EXTENDERS)
def extend_container(frame: Frame, instruction: Instruction) -> None:
    item = frame.pop()
    frame.stack[-_count(instruction)].call_method(frame, _EXTENDERS[instruction.opname], [item], {})


@op("MAP_ADD")
def map_add(frame: Frame, instruction: Instruction) -> None:
    key, value = frame.popn(2)
    operators.set_item(frame, frame.stack[-_count(instruction)], key, value)


@op("DICT_MERGE")
def dict_merge(frame: Frame, instruction: Instruction) -> None:
    """`**mapping` of a call: a key that is there already is a TypeError."""
    other = frame.pop()
    target = frame.stack[-_count(instruction)]
    for key in list(other.call_method(frame, "keys", [], {}).iterate(frame)):
        if operators.contains(frame, key, target).truth(frame):
            frame.raise_python(TypeError, f"got multiple values for keyword argument '{key.as_constant()}'")
        operators.set_item(frame, target, key, operators.get_item(frame, other, key))


@op("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, instruction: Instruction) -> None:
    frame.push(TupleValue(list(frame.pop().iterate(frame))))


# -- unpacking -------------------------------------------------------------------------------------------------------
@op("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, instruction: Instruction) -> None:
    count = _count(instruction)
    value = frame.pop()
    items = _take(frame, value, count + 1)
    if len(items) > count:
        frame.raise_python(ValueError, f"too many values to unpack (expected {count}{_length_told(frame, value)})")
    if len(items) < count:
        frame.raise_python(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    frame.stack.extend(reversed(items))


def _length_told(frame: Frame, value: Value) -> str:
    """What the error of `a, b = value` says of its length, where that is known."""
    if not LOOP.tells_length or value.python_type() not in (list, tuple, dict):
        return ""
    return f", got {value.call_method(frame, '__len__', [], {}).as_constant()}"


def _take(frame: Frame, value: Value, limit: int) -> list[Value]:
    iterator = get_iter(frame, value)
    return list(itertools.islice(iterator.iterate(frame), limit))


@op("UNPACK_EX")
def unpack_ex(frame: Frame, instruction: Instruction) -> None:
    before, after = _count(instruction) & 0xFF, _count(instruction) >> 8
    items = list(get_iter(frame, frame.pop()).iterate(frame))
    if len(items) < before + after:
        text = f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        frame.raise_python(ValueError, text)
    end = len(items) - after
    frame.stack.extend(reversed(items[end:]))
    frame.push(ListValue(items[before:end]))
    frame.stack.extend(reversed(items[:before]))


# -- formatting ------------------------------------------------------------------------------------------------------
_CONVERSIONS = {0: "", 1: "s", 2: "r", 3: "a"}


@op("FORMAT_VALUE")
def format_value_op(frame: Frame, instruction: Instruction) -> None:
    flags = _count(instruction)
    spec = frame.pop() if flags & 4 else ConstantValue("")
    frame.push(format_value(frame, frame.pop(), _CONVERSIONS[flags & 3], spec))


@op("CONVERT_VALUE")
def convert_value(frame: Frame, instruction: Instruction) -> None:
    conversion = _CONVERSIONS[_count(instruction)]
    frame.push(format_value(frame, frame.pop(), conversion, ConstantValue("")))


@op("FORMAT_SIMPLE")
def format_simple(frame: Frame, instruction: Instruction) -> None:
    frame.push(format_value(frame, frame.pop(), "", ConstantValue("")))


@op("FORMAT_WITH_SPEC")
def format_with_spec(frame: Frame, instruction: Instruction) -> None:
    value, spec = frame.popn(2)
    frame.push(format_value(frame, value, "", spec))
