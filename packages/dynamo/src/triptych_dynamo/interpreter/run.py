"""The run loop: instructions one after the other, traced exceptions sent to their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.handlers import Signal
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.values.constant import ConstantValue
from triptych_dynamo.values.generators import GeneratorValue

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
    on_step = frame.trace.on_root_step if frame.parent is None else None
    try:
        if frame.pending_throw is not None and _throw_into(frame):
            return Signal.YIELD
        while True:
            position = frame.next_position
            frame.position = position
            frame.next_position = position + 1
            if on_step is not None:
                on_step(frame)
            signal = handlers[position](frame, instructions[position])
            if signal is not None:
                return signal  # type: ignore[no-any-return]
    except TracedException as error:
        if not _dispatch(frame, error.value):
            raise
        return None


def _dispatch(frame: Frame, exception: Value) -> bool:
    """Send a traced exception to the handler that covers the current instruction; False when there is none."""
    instruction = frame.program.instructions[frame.position]
    if instruction.opname != "RERAISE":
        _chain_context(frame, exception)
    handler = instruction.handler
    if handler is None:
        return False
    del frame.stack[handler.depth :]
    if handler.lasti:
        frame.push(ConstantValue(instruction.offset))
    frame.push(exception)
    frame.next_position = frame.program.index[handler.target]
    return True


def _chain_context(frame: Frame, exception: Value) -> None:
    """`raise` inside a handler: the exception being handled becomes the context of the new one."""
    current = frame.trace.handled_exception(frame)
    attributes = getattr(exception, "attributes", None)
    if current is None or attributes is None or current is exception or "__context__" in attributes:
        return
    attributes["__context__"] = current


# -- exceptions thrown into generators -------------------------------------------------------------------------------
def _throw_into(frame: Frame) -> bool:
    """Raise the pending exception where a generator stands; True when an inner generator yielded instead."""
    exception = frame.pending_throw
    frame.pending_throw = None
    assert exception is not None
    send = _delegating_send(frame)
    if send is None:
        raise TracedException(exception)
    inner = frame.stack[-1]
    assert isinstance(inner, GeneratorValue)
    try:
        frame.result = inner.resume(frame, None, exception)
        return True
    except TracedException as error:
        if not (inner.finished and issubclass(error.value.python_type(), StopIteration)):
            raise
        finish_delegation(frame, send, error.value.get_attr(frame, "value"))
        return False


def _delegating_send(frame: Frame) -> Instruction | None:
    """The SEND of the `yield from` in which the frame stands over a generator of the trace, if it does."""
    instructions = frame.program.instructions
    resume = instructions[frame.next_position]
    if resume.opname != "RESUME" or (resume.arg or 0) & 3 != _YIELD_FROM_RESUME:
        return None
    if not frame.stack or not isinstance(frame.stack[-1], GeneratorValue):
        return None
    return instructions[frame.next_position + 1].target


def finish_delegation(frame: Frame, send: Instruction, result: Value) -> None:
    """`yield from` ends with `result`: the inner iterator is on top of the stack."""
    if LOOP.send_pops:
        frame.pop()
    frame.push(result)
    assert send.target is not None
    frame.next_position = frame.program.index[send.target]
