"""Instructions of calls, function creation, imports, and the intrinsics of newer versions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.tables import FACTS
from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.interpreter.ops_data import list_to_tuple
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.callables.functions import FunctionValue
from triptych_dynamo.values.null import NULL

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


# -- calls -----------------------------------------------------------------------------------------------------------
def annotations_of(frame: Frame, part: Value) -> Value:
    """Annotations come as a flat tuple of names and values, or as a dictionary."""
    if part.python_type() is not tuple:
        return part
    items = list(part.iterate(frame))
    return frame.trace.make_dict(list(zip(items[::2], items[1::2], strict=True)))


@op("KW_NAMES")
def kw_names(frame: Frame, instruction: Instruction) -> None:
    frame.keyword_names = instruction.argval


@op("CALL")
def call(frame: Frame, instruction: Instruction) -> None:
    names, frame.keyword_names = frame.keyword_names, ()
    _call(frame, instruction.arg or 0, names)


@op("CALL_KW")
def call_kw(frame: Frame, instruction: Instruction) -> None:
    names = frame.pop().as_constant()
    _call(frame, instruction.arg or 0, names)


def _call(frame: Frame, count: int, names: tuple[str, ...]) -> None:
    args = frame.popn(count)
    function = _pop_callable(frame, args)
    kwargs: dict[str, Value] = {}
    if names:
        split = len(args) - len(names)
        kwargs = dict(zip(names, args[split:], strict=True))
        args = args[:split]
    frame.push(frame.run_call(function, args, kwargs))


def _pop_callable(frame: Frame, args: list[Value]) -> Value:
    """Take the callable and the slot beside it; a `self` in the slot becomes the first argument."""
    first, second = frame.popn(2)
    if FACTS.null_first:
        if first is NULL:
            return second
        args.insert(0, second)
        return first
    if second is not NULL:
        args.insert(0, second)
    return first


@op("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, instruction: Instruction) -> None:
    kwargs: dict[str, Value] = {}
    if FACTS.null_for_keywords or (instruction.arg or 0) & 1:
        mapping = frame.pop()
        kwargs = {} if mapping is NULL else keyword_arguments(frame, mapping)
    args = list(frame.pop().iterate(frame))
    function = _pop_callable(frame, args)
    frame.push(frame.run_call(function, args, kwargs))


def keyword_arguments(frame: Frame, mapping: Value) -> dict[str, Value]:
    """`**mapping` as a Python dict of values."""
    result: dict[str, Value] = {}
    for key in list(mapping.call_method(frame, "keys", [], {}).iterate(frame)):
        if key.python_type() is not str:
            frame.raise_python(TypeError, "keywords must be strings")
        result[key.as_constant()] = operators.get_item(frame, mapping, key)
    return result


# -- functions -------------------------------------------------------------------------------------------------------
@op("MAKE_FUNCTION")
def make_function(frame: Frame, instruction: Instruction) -> None:
    code = frame.pop().as_constant()
    function = FunctionValue(code, frame.scope.namespace)
    flags = instruction.arg or 0
    for flag in (8, 4, 2, 1):
        if flags & flag:
            _set_part(frame, function, flag, frame.pop())
    frame.push(function)


@op("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: Frame, instruction: Instruction) -> None:
    part, function = frame.popn(2)
    assert isinstance(function, FunctionValue)
    _set_part(frame, function, instruction.arg or 0, part)
    frame.push(function)


def _set_part(frame: Frame, function: FunctionValue, flag: int, part: Value) -> None:
    if flag == 16:
        function.attributes["__annotate__"] = part
    elif flag == 8:
        function.closure = [cell for cell in part.iterate(frame) if isinstance(cell, CellValue)]
    elif flag == 4:
        function.attributes["__annotations__"] = annotations_of(frame, part)
    elif flag == 2:
        function.kwdefaults = keyword_arguments(frame, part)
    elif flag == 1:
        function.defaults = list(part.iterate(frame))


# -- imports ---------------------------------------------------------------------------------------------------------
@op("IMPORT_NAME")
def import_name(frame: Frame, instruction: Instruction) -> None:
    """Imports run while tracing, as the program would run them; a second import changes nothing."""
    level, names = (value.as_constant() for value in frame.popn(2))
    namespace = frame.scope.namespace
    try:
        module = importlib.__import__(instruction.argval, namespace, None, names or (), level)
    except ImportError as error:
        frame.raise_python(type(error), *error.args)
    frame.push(frame.wrap(module, None))


@op("IMPORT_FROM")
def import_from(frame: Frame, instruction: Instruction) -> None:
    module = frame.stack[-1]
    found = frame.catches(AttributeError, lambda: module.get_attr(frame, instruction.argval))
    if found is None:
        frame.raise_python(ImportError, f"cannot import name {instruction.argval!r}")
    frame.push(found)


# -- intrinsics ------------------------------------------------------------------------------------------------------
def _stop_iteration_error(frame: Frame, instruction: Instruction) -> None:
    """A StopIteration that leaves a generator: the generator value converts it."""


def _unary_positive(frame: Frame, instruction: Instruction) -> None:
    frame.push(operators.unary(frame, "+", frame.pop()))


INTRINSICS: dict[str, Callable[[Frame, Instruction], None]] = {
    "INTRINSIC_STOPITERATION_ERROR": _stop_iteration_error,
    "INTRINSIC_UNARY_POSITIVE": _unary_positive,
    "INTRINSIC_LIST_TO_TUPLE": list_to_tuple,
}


@op("CALL_INTRINSIC_1", "CALL_INTRINSIC_2")
def call_intrinsic(frame: Frame, instruction: Instruction) -> None:
    handler = INTRINSICS.get(instruction.argval)
    if handler is None:
        frame.unsupported("opcode", f"intrinsic {instruction.argval}")
    handler(frame, instruction)


@op("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, instruction: Instruction) -> None:
    frame.push(frame.constant(AssertionError))
