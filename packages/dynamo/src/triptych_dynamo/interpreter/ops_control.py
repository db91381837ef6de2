"""Instructions of control flow: jumps, loops, return, generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.analysis import only_raises
from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.handlers import Signal, op
from triptych_dynamo.interpreter.run import drop_generators, finish_delegation
from triptych_dynamo.interpreter.version import LOOP
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.generators import GeneratorValue
from triptych_dynamo.values.containers.iterators import get_iter as iterator_of
from triptych_dynamo.values.null import NULL
from triptych_dynamo.values.tensors.checks import assertion, goes_on
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


def jump_to(frame: Frame, target: Instruction | None) -> None:
    """Go on at `target`."""
    assert target is not None
    frame.next_position = frame.program.index[target]


@op("JUMP", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(frame: Frame, instruction: Instruction) -> None:
    jump_to(frame, instruction.target)


@op("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    if _is_assertion(frame, value) or _truth(frame, instruction, value, jumps_if=True):
        jump_to(frame, instruction.target)


def _truth(frame: Frame, instruction: Instruction, value: Value, jumps_if: bool) -> bool:
    """The truth of a branch's operand: of what only the run knows it is what does not lead to a `raise`."""
    if isinstance(value, (TensorValue, SymbolicValue)):
        assert instruction.target is not None
        ways = {jumps_if: frame.program.index[instruction.target], not jumps_if: frame.next_position}
        for truth, position in ways.items():
            if only_raises(frame.program.instructions, frame.program.index, position):
                return not truth if goes_on(frame, value, not truth) else value.truth(frame)
    return value.truth(frame)


def _is_assertion(frame: Frame, value: Value) -> bool:
    """Whether an `assert` of what only the run knows was put into the graph."""
    following = frame.program.instructions[frame.next_position]
    if following.opname != "LOAD_ASSERTION_ERROR" or not isinstance(value, (TensorValue, SymbolicValue)):
        return False
    message = frame.program.instructions[frame.next_position + 1]
    if message.opname == "RAISE_VARARGS":
        return assertion(frame, value, "")
    return message.opname == "LOAD_CONST" and assertion(frame, value, str(message.argval))


@op("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: Frame, instruction: Instruction) -> None:
    if not _truth(frame, instruction, frame.pop(), jumps_if=False):
        jump_to(frame, instruction.target)


@op("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_or_pop(frame: Frame, instruction: Instruction) -> None:
    if frame.stack[-1].truth(frame) == (instruction.opname == "JUMP_IF_TRUE_OR_POP"):
        jump_to(frame, instruction.target)
    else:
        frame.pop()


def is_none(value: Value) -> bool:
    """`value is None`."""
    return isinstance(value, ConstantValue) and value.value is None


@op("POP_JUMP_IF_NONE")
def pop_jump_if_none(frame: Frame, instruction: Instruction) -> None:
    if is_none(frame.pop()):
        jump_to(frame, instruction.target)


@op("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(frame: Frame, instruction: Instruction) -> None:
    if not is_none(frame.pop()):
        jump_to(frame, instruction.target)


# -- loops -----------------------------------------------------------------------------------------------------------
@op("GET_ITER")
def get_iter(frame: Frame, instruction: Instruction) -> None:
    value = frame.stack[-1]
    if isinstance(value, GeneratorValue) and not value.started:
        before = frame.program.instructions[frame.position - 1].opname
        value.only_iterated = before in ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
    frame.pop()
    frame.push(iterator_of(frame, value))


@op("FOR_ITER")
def for_iter(frame: Frame, instruction: Instruction) -> None:
    item = frame.stack[-1].next_item(frame)
    if item is not None:
        frame.push(item)
        return
    frame.pop()
    assert instruction.target is not None
    frame.next_position = frame.program.index[instruction.target] + LOOP.for_iter_skip


# -- leaving the frame -----------------------------------------------------------------------------------------------
@op("RETURN_VALUE")
def return_value(frame: Frame, instruction: Instruction) -> Signal:
    frame.result = frame.pop()
    drop_generators(frame)
    frame.finished = True
    return Signal.RETURN


@op("RETURN_CONST")
def return_const(frame: Frame, instruction: Instruction) -> Signal:
    frame.result = frame.constant(instruction.argval)
    drop_generators(frame)
    frame.finished = True
    return Signal.RETURN


# -- generators ------------------------------------------------------------------------------------------------------
@op("RETURN_GENERATOR")
def return_generator(frame: Frame, instruction: Instruction) -> None:
    """The call made the generator already; its body starts behind with one item that POP_TOP removes."""
    frame.push(NULL)


@op("YIELD_VALUE")
def yield_value(frame: Frame, instruction: Instruction) -> Signal:
    frame.result = frame.pop()
    return Signal.YIELD


@op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: Frame, instruction: Instruction) -> None:
    if not isinstance(frame.stack[-1], GeneratorValue):
        frame.push(iterator_of(frame, frame.pop()))


@op("SEND")
def send(frame: Frame, instruction: Instruction) -> None:
    """`yield from`: hand the sent value on; at the end, the inner generator's result takes its place."""
    sent = frame.pop()
    inner = frame.stack[-1]
    try:
        if isinstance(inner, GeneratorValue):
            item = inner.resume(frame, sent)
        elif is_none(sent):
            item = inner.call_method(frame, "__next__", [], {})
        else:
            item = frame.call(inner.get_attr(frame, "send"), [sent])
    except TracedException as error:
        if not issubclass(error.value.python_type(), StopIteration):
            raise
        finish_delegation(frame, instruction, error.value.get_attr(frame, "value"))
        return
    frame.push(item)


@op("END_SEND")
def end_send(frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@op("CLEANUP_THROW")
def cleanup_throw(frame: Frame, instruction: Instruction) -> None:
    """A StopIteration thrown into `yield from` gives its value; other exceptions go on."""
    _, _, exception = frame.popn(3)
    if not issubclass(exception.python_type(), StopIteration):
        raise TracedException(exception)
    frame.push(ConstantValue(None))
    frame.push(exception.get_attr(frame, "value"))
