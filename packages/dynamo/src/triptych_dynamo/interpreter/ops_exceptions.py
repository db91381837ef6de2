"""Instructions of exceptions and `with` blocks."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.tables import FACTS
from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.type_names import TELLS_FULL_NAMES, full_name, short_name
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.null import HANDLING, NULL
from triptych_dynamo.values.tensors.contexts import manager_of

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


@op("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, instruction: Instruction) -> None:
    """The exception on top is being handled from here on."""
    exception = frame.pop()
    frame.push(HANDLING)
    frame.push(exception)
    frame.handled.append(exception)


@op("POP_EXCEPT")
def pop_except(frame: Frame, instruction: Instruction) -> None:
    frame.pop()
    frame.handled.pop()
    if frame.stack.count(HANDLING) > len(frame.handled):  # a handler that failed popped a copy: the mark means nothing
        place = max(at for at, value in enumerate(frame.stack) if value is HANDLING)
        frame.stack[place] = ConstantValue(None)


@op("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, instruction: Instruction) -> None:
    classes = frame.pop()
    exception = frame.stack[-1]
    wanted = classes.as_constant()
    for cls in wanted if isinstance(wanted, tuple) else (wanted,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            frame.raise_python(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    frame.push(ConstantValue(issubclass(exception.python_type(), wanted)))


@op("RAISE_VARARGS")
def raise_varargs(frame: Frame, instruction: Instruction) -> None:
    if not instruction.arg:
        current = frame.trace.handled_exception(frame)
        if current is None:
            frame.raise_python(RuntimeError, "No active exception to reraise")
        raise TracedException(current)
    cause = instantiate(frame, frame.pop()) if instruction.arg == 2 else None
    exception = instantiate(frame, frame.pop())
    if cause is not None:
        exception.set_attr(frame, "__cause__", cause)
    raise TracedException(exception)


def instantiate(frame: Frame, value: Value) -> Value:
    """`raise X` with a class makes an instance; what is no exception is a TypeError."""
    if value.is_constant():
        constant = value.as_constant()
        if constant is None:
            return value
        if inspect.isclass(constant) and issubclass(constant, BaseException):
            return value.call(frame, [], {})
    if not issubclass(value.python_type(), BaseException):
        frame.raise_python(TypeError, "exceptions must derive from BaseException")
    return value


@op("RERAISE")
def reraise(frame: Frame, instruction: Instruction) -> None:
    raise TracedException(frame.pop())


# -- with ------------------------------------------------------------------------------------------------------------
@op("BEFORE_WITH")
def before_with(frame: Frame, instruction: Instruction) -> None:
    """`manager -> manager.__exit__ manager.__enter__()`."""
    given = frame.stack[-1]
    for name in ("__enter__", "__exit__"):
        _check_special(frame, given, name, ("__exit__",))
    manager = manager_of(frame, given)
    leave = manager.get_attr(frame, "__exit__")
    entered = manager.call_method(frame, "__enter__", [], {})
    frame.pop()
    frame.push(leave)
    frame.push(entered if manager is given else given)


def _check_special(frame: Frame, manager: Value, name: str, told: tuple[str, ...]) -> None:
    cls = manager.python_type()
    if hasattr(cls, name):
        return
    missed = f" (missed {name} method)" if name in told else ""
    shown = full_name(cls) if TELLS_FULL_NAMES else short_name(cls)
    text = f"'{shown}' object does not support the context manager protocol{missed}"
    frame.raise_python(TypeError, text)


@op("LOAD_SPECIAL")
def load_special(frame: Frame, instruction: Instruction) -> None:
    """`manager -> method NULL`, the method bound: `__exit__`, then `__enter__` of a `with` statement."""
    name = instruction.argval
    _check_special(frame, frame.stack[-1], name, ("__enter__", "__exit__"))
    method = frame.stack[-1].get_attr(frame, name)
    frame.pop()
    frame.stack += (method, NULL)


@op("WITH_EXCEPT_START")
def with_except_start(frame: Frame, instruction: Instruction) -> None:
    """`exit lasti previous exception -> ... exit(type, exception, traceback)`; a NULL follows `exit` from 3.14 on."""
    exception = frame.stack[-1]
    leave = frame.stack[-5 if FACTS.special_methods else -4]
    cls = frame.constant(exception.python_type())
    frame.push(leave.call(frame, [cls, exception, exception.get_attr(frame, "__traceback__")], {}))
