"""Instructions that load and store variables, constants, attributes and cells, and that move stack items."""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING

from triptych_dynamo.bytecode.tables import FACTS
from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.interpreter.held import holds_real
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.cells import CellValue
from triptych_dynamo.values.callables.generators import GeneratorValue
from triptych_dynamo.values.null import NULL
from triptych_dynamo.values.objects.objects import ObjectValue

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value


@op("NOP", "NOT_TAKEN", "RESUME", "PRECALL", "EXTENDED_ARG", "CACHE", "SETUP_ANNOTATIONS")
def nothing(frame: Frame, instruction: Instruction) -> None:
    """No effect on values."""


# -- constants and stack -----------------------------------------------------------------------------------------------
@op("LOAD_CONST")
def load_const(frame: Frame, instruction: Instruction) -> None:
    frame.stack.append(frame.constant(instruction.argval))


@op("LOAD_COMMON_CONSTANT")
def load_common_constant(frame: Frame, instruction: Instruction) -> None:
    frame.stack.append(frame.constant(instruction.argval))


@op("POP_TOP", "POP_ITER", "END_FOR")
def pop_top(frame: Frame, instruction: Instruction) -> None:
    drop(frame, frame.stack[-1])
    frame.stack.pop()


def let_go(frame: Frame, name: str) -> None:
    """A local is about to be set or deleted: a generator made before the graph, held by it, may end."""
    if holds_real(frame, name):
        frame.unsupported("generator", "a generator made before the graph is dropped")


def drop(frame: Frame, value: Value) -> None:
    """A value leaves the stack for good: a generator that nothing else holds ends."""
    if isinstance(value, GeneratorValue):
        value.drop(frame)
    elif type(value) is ObjectValue and isinstance(value.real, GeneratorType) and value.real.gi_frame is not None:
        frame.unsupported("generator", "a generator made before the graph is dropped")


@op("COPY")
def copy(frame: Frame, instruction: Instruction) -> None:
    assert instruction.arg is not None
    frame.stack.append(frame.stack[-instruction.arg])


@op("SWAP")
def swap(frame: Frame, instruction: Instruction) -> None:
    assert instruction.arg is not None
    stack, depth = frame.stack, -instruction.arg
    stack[-1], stack[depth] = stack[depth], stack[-1]


@op("PUSH_NULL")
def push_null(frame: Frame, instruction: Instruction) -> None:
    frame.stack.append(NULL)


# -- locals ----------------------------------------------------------------------------------------------------------
@op("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(frame: Frame, instruction: Instruction) -> None:
    try:
        frame.stack.append(frame.locals[instruction.argval])
    except KeyError:
        if instruction.argval in frame.cells:  # the variable of an inlined comprehension: a cell for a while
            frame.stack.append(frame.cells[instruction.argval])
            return
        text = f"cannot access local variable '{instruction.argval}' where it is not associated with a value"
        frame.raise_python(UnboundLocalError, text)


@op("STORE_FAST")
def store_fast(frame: Frame, instruction: Instruction) -> None:
    let_go(frame, instruction.argval)
    value = frame.stack.pop()
    if value is NULL or isinstance(value, CellValue):  # what LOAD_FAST_AND_CLEAR saved
        restore_local(frame, instruction.argval, value)
    else:
        frame.locals[instruction.argval] = value


@op("DELETE_FAST")
def delete_fast(frame: Frame, instruction: Instruction) -> None:
    if instruction.argval not in frame.locals:
        text = f"cannot access local variable '{instruction.argval}' where it is not associated with a value"
        frame.raise_python(UnboundLocalError, text)
    let_go(frame, instruction.argval)
    del frame.locals[instruction.argval]


@op("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, instruction: Instruction) -> None:
    """Save a local that an inlined comprehension is about to use; NULL when it is not set."""
    name = instruction.argval
    if name in frame.cells and name not in frame.code.co_freevars and name not in frame.locals:
        frame.stack.append(frame.cells.pop(name))
        return
    frame.stack.append(frame.locals.pop(name, NULL))


@op("STORE_FAST_MAYBE_NULL")
def store_fast_maybe_null(frame: Frame, instruction: Instruction) -> None:
    restore_local(frame, instruction.argval, frame.stack.pop())


def restore_local(frame: Frame, name: str, value: Value) -> None:
    """Put a saved local (or its absence) back."""
    frame.locals.pop(name, None)
    frame.cells.pop(name, None) if name not in frame.code.co_freevars else None
    if isinstance(value, CellValue):
        frame.cells[name] = value
    elif value is not NULL:
        frame.locals[name] = value


# -- cells -----------------------------------------------------------------------------------------------------------
@op("MAKE_CELL")
def make_cell(frame: Frame, instruction: Instruction) -> None:
    name = instruction.argval
    content = frame.locals.pop(name, None)
    frame.cells[name] = CellValue(content)


@op("COPY_FREE_VARS")
def copy_free_vars(frame: Frame, instruction: Instruction) -> None:
    """The frame was built with its free variables in place."""


@op("LOAD_CLOSURE")
def load_closure(frame: Frame, instruction: Instruction) -> None:
    frame.stack.append(frame.cells[instruction.argval])


@op("LOAD_DEREF")
def load_deref(frame: Frame, instruction: Instruction) -> None:
    name = instruction.argval
    content = frame.cells[name].read(frame)
    if content is None:
        raise_unbound_cell(frame, name)
    else:
        frame.stack.append(content)


def raise_unbound_cell(frame: Frame, name: str) -> None:
    """The error of reading an empty cell."""
    if name in frame.code.co_freevars:
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        frame.raise_python(NameError, text)
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    frame.raise_python(UnboundLocalError, text)


@op("STORE_DEREF")
def store_deref(frame: Frame, instruction: Instruction) -> None:
    frame.cells[instruction.argval].write(frame, frame.stack.pop())


@op("DELETE_DEREF")
def delete_deref(frame: Frame, instruction: Instruction) -> None:
    cell = frame.cells[instruction.argval]
    if cell.read(frame) is None:
        raise_unbound_cell(frame, instruction.argval)
    cell.write(frame, None)


# -- globals ---------------------------------------------------------------------------------------------------------
@op("LOAD_GLOBAL")
def load_global(frame: Frame, instruction: Instruction) -> None:
    value = frame.scope.load(frame, instruction.argval)
    if not instruction.flags:
        frame.stack.append(value)
    elif FACTS.null_first:
        frame.stack += (NULL, value)
    else:
        frame.stack += (value, NULL)


@op("STORE_GLOBAL")
def store_global(frame: Frame, instruction: Instruction) -> None:
    frame.scope.store(frame, instruction.argval, frame.stack.pop())


@op("DELETE_GLOBAL")
def delete_global(frame: Frame, instruction: Instruction) -> None:
    frame.scope.delete(frame, instruction.argval)


# -- attributes ------------------------------------------------------------------------------------------------------
@op("LOAD_ATTR")
def load_attr(frame: Frame, instruction: Instruction) -> None:
    value = frame.stack[-1].get_attr(frame, instruction.argval)
    frame.stack.pop()
    if instruction.flags & 1:
        push_callable(frame, value)
    else:
        frame.stack.append(value)


@op("LOAD_METHOD")
def load_method(frame: Frame, instruction: Instruction) -> None:
    value = frame.stack[-1].get_attr(frame, instruction.argval)
    frame.stack.pop()
    push_callable(frame, value)


def push_callable(frame: Frame, value: Value) -> None:
    """Push a callable (a bound method as one object) the way that CALL wants it."""
    frame.stack += (NULL, value) if FACTS.null_first else (value, NULL)


@op("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, instruction: Instruction) -> None:
    super_class, cls, owner = frame.popn(3)
    proxy = super_class.call(frame, [cls, owner] if instruction.flags & 2 else [], {})
    value = proxy.get_attr(frame, instruction.argval)
    if instruction.flags & 1:
        push_callable(frame, value)
    else:
        frame.stack.append(value)


@op("STORE_ATTR")
def store_attr(frame: Frame, instruction: Instruction) -> None:
    value, owner = frame.popn(2)
    owner.set_attr(frame, instruction.argval, value)


@op("DELETE_ATTR")
def delete_attr(frame: Frame, instruction: Instruction) -> None:
    frame.stack.pop().del_attr(frame, instruction.argval)
