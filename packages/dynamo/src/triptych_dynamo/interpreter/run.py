"""The run loop: instructions one after the other, traced exceptions sent to their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.tables import FACTS
from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.handlers import Signal
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.trace.native_errors import Origin, origin_of
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import NotConstant
from triptych_dynamo.values.callables.generators import GeneratorValue
from triptych_dynamo.values.null import OFFSET
from triptych_dynamo.values.objects.exceptions import ExceptionValue

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value

_YIELD_FROM_RESUME = 2  # the kind of RESUME that stands behind the yield of a `yield from`


def run(frame: Frame) -> Value:
    """Run `frame` until it returns or yields; gives the value returned or yielded.

    Raises:
        TracedException: no handler of the frame takes it.
    """
    trace = frame.trace
    trace.enter_frame(frame)
    try:
        while True:
            signal = _step_until_signal(frame)
            if signal is not None:
                assert frame.result is not None
                return frame.result
    finally:
        trace.leave_frame(frame)


def _step_until_signal(frame: Frame) -> Signal | None:
    """Run instructions until one gives a signal; None after an exception was sent to its handler."""
    program = frame.program
    instructions, handlers = program.instructions, program.handlers
    plan = frame.trace.plan
    is_root = frame.parent is None
    log_line = frame.trace.log_line if frame.trace.logs_lines else None
    try:
        if frame.pending_call is not None:
            _finish_call(frame)
        if frame.pending_throw is not None and _throw_into(frame):
            return Signal.YIELD
        while True:
            position = frame.next_position
            frame.position = position
            frame.next_position = position + 1
            frame.steps += 1
            if is_root or frame.steps == frame.stop:
                plan.check(frame)
            if log_line is not None:
                log_line(frame)
            signal = handlers[position](frame, instructions[position])
            if signal is not None:
                return signal  # type: ignore[no-any-return]
    except TracedException as error:
        if not _dispatch(frame, error):
            raise
        return None
    except NotConstant as error:
        frame.unsupported("not-constant", str(error))
    except Exception as error:
        if origin_of(error) is not Origin.PROGRAM:
            raise
        frame.unsupported("native-error", f"{type(error).__qualname__}: {_text_of(error)}")


def _text_of(error: Exception) -> str:
    """The text of an error of the program, whose `__str__` may fail as well."""
    try:
        return str(error)
    except Exception:
        return "(an error without text)"


def _finish_call(frame: Frame) -> None:
    """The call under way when the frame began gives its value: one step, at the call's place."""
    frame.position = frame.next_position
    frame.steps += 1
    frame.trace.plan.check(frame)
    pending = frame.pending_call
    assert pending is not None
    frame.next_position = frame.position + 1
    try:
        frame.push(pending.run(frame))
    finally:
        frame.pending_call = None


def _dispatch(frame: Frame, error: TracedException) -> bool:
    """Send a traced exception to the handler that covers the current instruction; False when there is none."""
    instruction = frame.program.instructions[frame.position]
    exception = error.value
    if instruction.opname != "RERAISE" and not error.chained:
        _chain_context(frame, exception)
    error.chained = True
    handler = instruction.handler
    drop_generators(frame, 0 if handler is None else handler.depth)
    if handler is None:
        return False
    del frame.stack[handler.depth :]
    if handler.lasti:
        frame.push(OFFSET if FACTS.tagged_offsets else ConstantValue(instruction.offset))
    frame.push(exception)
    if isinstance(exception, ExceptionValue):
        exception.note_handled(len(frame.trace.frames) - 1)
    frame.next_position = frame.program.index[handler.target]
    return True


def drop_generators(frame: Frame, depth: int = 0) -> None:
    """The frame, or a block of it, is left: generators of its loops, on the stack above `depth`, end."""
    for value in frame.stack[depth:]:
        if isinstance(value, GeneratorValue):
            value.drop(frame)


def _chain_context(frame: Frame, exception: Value) -> None:
    """A raise inside a handler: the exception being handled becomes the context of the new one."""
    if not isinstance(exception, ExceptionValue):
        return
    exception.note_raised(tuple(caller.line_number() for caller in frame.trace.frames))
    current = frame.trace.handled_exception(frame)
    if current is None or current is exception:
        return
    _cut_cycle(frame, current, exception)
    exception.store_common(frame, "__context__", current)


def _cut_cycle(frame: Frame, current: Value, exception: Value) -> None:
    """Where the chain of contexts behind `current` leads to `exception`, it ends before it."""
    seen = set()
    while isinstance(current, ExceptionValue) and current not in seen:
        seen.add(current)
        context = current.get_attr(frame, "__context__")
        if context is exception:
            current.store_common(frame, "__context__", ConstantValue(None))
            return
        current = context


# -- exceptions thrown into generators -------------------------------------------------------------------------------
def _throw_into(frame: Frame) -> bool:
    """Raise the pending exception where a generator stands; True when an inner generator yielded instead."""
    exception = frame.pending_throw
    frame.pending_throw = None
    assert exception is not None
    try:
        return _throw_through(frame, exception)
    except TracedException:
        frame.push(ConstantValue(None))  # what `yield` would have given: handlers count it
        raise


def _throw_through(frame: Frame, exception: Value) -> bool:
    """The same, without what the stack gets where it is raised here."""
    send = _delegating_send(frame)
    if send is None:
        raise TracedException(exception)
    inner = frame.stack[-1]
    if not isinstance(inner, GeneratorValue):
        return _throw_into_other(frame, inner, exception)
    try:
        frame.result = inner.resume(frame, None, exception)
        return True
    except TracedException as error:
        if not (inner.finished and issubclass(error.value.python_type(), StopIteration)):
            raise
        finish_delegation(frame, send, error.value.get_attr(frame, "value"))
        return False


def _throw_into_other(frame: Frame, inner: Value, exception: Value) -> bool:
    """The same over an iterator that is no generator: it is closed, or asked for a `throw` of its own."""
    closes = issubclass(exception.python_type(), GeneratorExit)
    method = frame.catches(AttributeError, lambda: inner.get_attr(frame, "close" if closes else "throw"))
    if method is not None and not closes:
        frame.unsupported("generator", "an exception is thrown into an iterator with a `throw` of its own")
    if method is not None:
        method.call(frame, [], {})
    raise TracedException(exception)


def _delegating_send(frame: Frame) -> Instruction | None:
    """The SEND of the `yield from` in which the frame stands, if it does."""
    instructions = frame.program.instructions
    resume = instructions[frame.next_position]
    if resume.opname != "RESUME" or (resume.arg or 0) & 3 != _YIELD_FROM_RESUME:
        return None
    return instructions[frame.next_position + 1].target if frame.stack else None


def finish_delegation(frame: Frame, send: Instruction, result: Value) -> None:
    """`yield from` ends with `result`: the inner iterator is on top of the stack."""
    if LOOP.send_pops:
        frame.pop()
    frame.push(result)
    assert send.target is not None
    frame.next_position = frame.program.index[send.target]
