"""Instructions of class bodies: names that live in a namespace, and the builder of classes."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from triptych_dynamo.interpreter.handlers import op
from triptych_dynamo.interpreter.ops_variables import raise_unbound_cell

if TYPE_CHECKING:
    from triptych_dynamo.bytecode.instruction import Instruction
    from triptych_dynamo.interpreter.frame import Frame


@op("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, instruction: Instruction) -> None:
    frame.push(frame.wrap(builtins.__build_class__, None))


@op("LOAD_NAME")
def load_name(frame: Frame, instruction: Instruction) -> None:
    name = instruction.argval
    frame.push(frame.locals[name] if name in frame.locals else frame.scope.load(frame, name))


@op("STORE_NAME")
def store_name(frame: Frame, instruction: Instruction) -> None:
    """A namespace that a metaclass prepared may keep something else than what is stored (members of enumerations)."""
    name, value = instruction.argval, frame.pop()
    if frame.class_namespace is not None and value.is_constant():
        stored = value.as_constant()
        try:
            frame.class_namespace[name] = stored
        except Exception as error:
            frame.raise_python(type(error), *error.args)
        kept = frame.class_namespace.get(name, stored)
        value = value if kept is stored else frame.constant(kept)
    frame.locals[name] = value


@op("DELETE_NAME")
def delete_name(frame: Frame, instruction: Instruction) -> None:
    if frame.locals.pop(instruction.argval, None) is None:
        frame.raise_python(NameError, f"name {instruction.argval!r} is not defined")


@op("SETUP_ANNOTATIONS")
def setup_annotations(frame: Frame, instruction: Instruction) -> None:
    if "__annotations__" not in frame.locals:
        frame.locals["__annotations__"] = frame.trace.make_dict([])


@op("LOAD_CLASSDEREF")
def load_class_deref(frame: Frame, instruction: Instruction) -> None:
    """A name of the body, else the variable of the enclosing function."""
    name = instruction.argval
    if name in frame.locals:
        frame.push(frame.locals[name])
        return
    content = frame.cells[name].read(frame)
    if content is None:
        raise_unbound_cell(frame, name)
    else:
        frame.push(content)


@op("LOAD_LOCALS")
def load_locals(frame: Frame, instruction: Instruction) -> None:
    frame.push(frame.trace.make_dict([]))  # only the two instructions below take it


@op("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(frame: Frame, instruction: Instruction) -> None:
    frame.pop()
    load_class_deref(frame, instruction)


@op("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(frame: Frame, instruction: Instruction) -> None:
    frame.pop()
    load_name(frame, instruction)
