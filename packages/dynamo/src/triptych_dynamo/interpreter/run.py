"""The run loop: instructions one after the other, traced exceptions sent to their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.handlers import Signal
from triptych_dynamo.values.constant import ConstantValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


def run(frame: Frame) -> Value:
    """Run `frame` until it returns or yields; gives the value returned or yielded.

    Raises:
        TracedException: no handler of the frame takes it.
    """
    trace = frame.trace
    trace.enter_frame(frame)
    try:
        while True:
            signal = step_until_signal(frame)
            if signal is not None:
                assert frame.result is not None
                return frame.result
    finally:
        trace.leave_frame(frame)


def step_until_signal(frame: Frame) -> Signal | None:
    """Run instructions until one gives a signal; None after an exception was sent to its handler."""
    program = frame.program
    instructions, handlers = program.instructions, program.handlers
    on_step = frame.trace.on_root_step if frame.parent is None else None
    try:
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
        if not dispatch_exception(frame, error.value):
            raise
        return None


def dispatch_exception(frame: Frame, exception: Value) -> bool:
    """Send a traced exception to the handler that covers the current instruction; False when there is none."""
    instruction = frame.program.instructions[frame.position]
    if instruction.opname != "RERAISE":
        chain_context(frame, exception)
    handler = instruction.handler
    if handler is None:
        return False
    del frame.stack[handler.depth :]
    if handler.lasti:
        frame.push(ConstantValue(instruction.offset))
    frame.push(exception)
    frame.next_position = frame.program.index[handler.target]
    return True


def chain_context(frame: Frame, exception: Value) -> None:
    """`raise` inside a handler: the exception being handled becomes the context of the new one."""
    current = frame.trace.handled_exception(frame)
    attributes = getattr(exception, "attributes", None)
    if current is None or attributes is None or current is exception or "__context__" in attributes:
        return
    attributes["__context__"] = current
