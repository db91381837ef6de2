"""`ExceptionValue`: exception objects, made by the traced program, by an operation that it ran, or before the trace.

They are instances like any other (`ObjectValue`); what C keeps in them (arguments, cause, context, traceback, and what
single classes add, such as `StopIteration.value`) is read and written here.
"""

from __future__ import annotations

import sys
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.polyfills import groups
from triptych_dynamo.sources import AttrSource
from triptych_dynamo.values import attributes
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import is_scalar
from triptych_dynamo.values.containers import sequences
from triptych_dynamo.values.objects import objects
from triptych_dynamo.values.objects.instances import makes
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

GROUP_METHODS = {"split": groups.split, "subgroup": groups.subgroup, "derive": groups.derive}
# What C keeps of every exception, and its value in a new one.
_COMMON = {"__cause__": None, "__context__": None, "__suppress_context__": False}


class ExceptionValue(objects.ObjectValue):
    """An exception instance.

    Args:
        exc_type: its class.
        args: its positional arguments; None: those of `real`, unread.
        real: the object itself when the program had it before the trace.
    """

    def __init__(
        self, exc_type: type[BaseException], args: list[Value] | None, source: Source | None = None, real: Any = None
    ) -> None:
        if real is None:
            super().__init__(exc_type, source)
        else:
            super().__init__(exc_type, source, real)
        self.exc_type = exc_type
        self.keywords: dict[str, Value] = {}
        self.stack_lines: tuple[int, ...] = ()  # where it was raised in the trace: the line of each frame there
        self.lines: tuple[int, ...] = ()  # of the frames that it went through
        self.traceback: Value | None = None  # the one that it had before it was raised there
        self._args = args
        self._args_written = False

    # -- what C keeps --------------------------------------------------------------------------------------------------
    def arguments(self, tx: Frame) -> list[Value]:
        """The values of `args`."""
        if self._args is None:
            source = AttrSource(self.source, "args") if self.source is not None else None
            self._args = list(tx.wrap(self.real.args, source).iterate(tx))
        return self._args

    def set_arguments(self, tx: Frame, args: list[Value]) -> None:
        """Store `args`."""
        self._args = list(args)
        self._args_written = True
        if not self.is_new:
            tx.effects.mutated(self)

    def read_slot(self, tx: Frame, raw: Any, name: str) -> Value:
        if name == "args":
            return tx.trace.make_tuple(self.arguments(tx))
        if name == "__traceback__" and name not in self.slots:
            raised = self.lines or (not self.is_new and self.real.__traceback__ is not None)
            return TracebackValue(self) if raised else ConstantValue(None)
        if name in self.slots or name in ("__dict__", "__class__", "__doc__"):
            return super().read_slot(tx, raw, name)
        if not self.is_new:
            return super().read_slot(tx, raw, name)
        if name in _COMMON:
            return ConstantValue(_COMMON[name])
        if issubclass(self.exc_type, BaseExceptionGroup) and name in ("message", "exceptions"):
            message, members = self.arguments(tx)
            return message if name == "message" else tx.trace.make_tuple(list(members.iterate(tx)))
        if name == "value" and issubclass(self.exc_type, StopIteration):
            return self.arguments(tx)[0] if self.arguments(tx) else ConstantValue(None)
        if name in self.keywords:
            return self.keywords[name]
        return tx.constant(getattr(self.as_exception(tx), name))

    def generic_set(self, tx: Frame, name: str, value: Value) -> None:
        if name == "args":
            self.set_arguments(tx, list(value.iterate(tx)))
        elif name in _COMMON or name == "__traceback__":
            self.store_common(tx, name, value)
        else:
            super().generic_set(tx, name, value)

    def store_common(self, tx: Frame, name: str, value: Value) -> None:
        """Set what C keeps of every exception; a cause suppresses the context."""
        self._store_slot(tx, name, value)
        if name == "__cause__":
            self._store_slot(tx, "__suppress_context__", ConstantValue(True))

    def note_raised(self, lines: tuple[int, ...]) -> None:
        """It is raised: its traceback gets an entry for each of `lines`, outermost frame first."""
        if self.is_new:
            self.traceback = self.slots.pop("__traceback__", self.traceback)
            self.written_slots.pop("__traceback__", None)
            self.lines = self.stack_lines = lines

    def note_handled(self, depth: int) -> None:
        """A frame that `depth` others called handles it: those have no part in its traceback."""
        self.lines = self.stack_lines[depth:]

    # -- methods -------------------------------------------------------------------------------------------------------
    def call_c_method(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods that exception classes inherit from C."""
        if name == "__init__":
            self.set_arguments(tx, args)
            self.keywords = dict(kwargs)
            return ConstantValue(None)
        if name in ("__str__", "__repr__"):
            return ConstantValue(getattr(cls, name)(self.as_exception(tx)))
        if name == "with_traceback":
            self.store_common(tx, "__traceback__", args[0])
            return self
        if name == "add_note":
            return self._add_note(tx, args[0])
        if name in GROUP_METHODS:
            return tx.call(tx.wrap(GROUP_METHODS[name], None), [self, *args], kwargs)
        if name in ("__reduce__", "__setstate__"):
            return tx.unsupported("call", f"{cls.__qualname__}.{name} of an exception")
        return super().call_c_method(tx, cls, name, args, kwargs)

    def _add_note(self, tx: Frame, note: Value) -> Value:
        notes = self.field(tx, "__notes__")
        if notes is None:
            notes = sequences.ListValue([])
            self.store_field(tx, "__notes__", notes)
        return notes.call_method(tx, "append", [note], {})

    def as_exception(self, tx: Frame) -> BaseException:
        """A real exception of constant arguments, to read its text."""
        if issubclass(self.exc_type, BaseExceptionGroup):
            message, members = self.arguments(tx)
            return self.exc_type.__new__(
                self.exc_type,
                message.as_constant(),
                [item.as_exception(tx) for item in members.iterate(tx)],  # type: ignore[attr-defined]
            )
        given = [*self.arguments(tx), *self.keywords.values()]
        if not all(arg.is_constant() for arg in given):
            return tx.unsupported("call", f"text of {self!r}")
        if not self.is_new and not self._args_written:
            return self.real  # type: ignore[no-any-return]
        plain = [arg.as_constant() for arg in self.arguments(tx)]
        error = self.exc_type.__new__(self.exc_type, *plain)
        named = {name: value.as_constant() for name, value in self.keywords.items()}
        base = objects.builtin_base(self.exc_type)
        base.__init__(error, *plain, **named)  # type: ignore[misc]
        return error

    # -- code after the graph ------------------------------------------------------------------------------------------
    def reconstruct(self, cg: Writer) -> None:
        """Made by `__new__` and the initialiser written in C: one in Python ran in the trace."""
        base = objects.builtin_base(self.exc_type)
        args = self._args or []
        cg.load_object(_make)
        cg.load_object(base)
        cg.load_object(self.exc_type)
        cg.load_const(self.lines)
        cg.load(self.traceback if self.traceback is not None else ConstantValue(None))
        for arg in (*args, *self.keywords.values()):
            cg.load(arg)
        cg.call(4 + len(args) + len(self.keywords), tuple(self.keywords))
        cg.later(self)

    def replay(self, cg: Writer) -> None:
        super().replay(cg)
        if self._args_written and not self.is_new:
            assert self._args is not None
            for arg in self._args:
                cg.load(arg)
            cg.build("TUPLE", len(self._args))
            cg.load(self)
            cg.store_attr("args")

    def __repr__(self) -> str:
        return f"Exception({self.exc_type.__name__}, {self._args})"


def _make(base: type, cls: type, lines: tuple[int, ...], behind: Any, /, *args: Any, **keywords: Any) -> BaseException:
    """An exception as `cls(*args)` makes it, without the initialisers written in Python.

    Args:
        lines: where it was raised, of each frame that it went through.
        behind: the traceback that it had before.
    """
    error: BaseException = base.__new__(cls, *args)
    base.__init__(error, *args, **keywords)  # type: ignore[misc]
    traceback = behind
    for line in reversed(lines):
        traceback = TracebackType(traceback, sys._getframe(1), 0, line)
    error.__traceback__ = traceback
    return error


class TracebackValue(Value):
    """The traceback of an exception that was raised: there is one; what it says is not known while tracing."""

    def __init__(self, owner: ExceptionValue) -> None:
        super().__init__()
        self.owner = owner

    def python_type(self) -> type:
        return TracebackType

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "tb_lineno" and self.owner.lines:
            return ConstantValue(self.owner.lines[0])
        return super().get_attr(tx, name)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.owner)
        cg.load_attr("__traceback__")


@makes(lambda cls: issubclass(cls, BaseException))
def _make_exception(tx: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if issubclass(cls, BaseExceptionGroup):
        return _make_group(tx, cls, args, kwargs)
    if objects.is_c_class(cls) and all(map(is_scalar, (*args, *kwargs.values()))):
        _check_arguments(
            tx, cls, [arg.as_constant() for arg in args], {name: item.as_constant() for name, item in kwargs.items()}
        )
    made = ExceptionValue(cls, list(args))  # type: ignore[arg-type]
    if not isinstance(attributes.defines(cls, "__init__"), FunctionType):
        made.keywords = dict(kwargs)
    return made


def _check_arguments(tx: Frame, cls: type, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Some classes look at what they are given (`UnicodeError`, names of `ImportError`): what they say is traced."""
    try:
        cls(*args, **kwargs)
    except Exception as error:
        tx.raise_caught(error)


def _make_group(tx: Frame, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A group: its members are fixed now; one of ordinary errors alone is an `ExceptionGroup`."""
    members = list(args[1].iterate(tx)) if len(args) == 2 and not kwargs else []
    if not members or not all(isinstance(member, ExceptionValue) for member in members):
        return tx.unsupported("call", f"{cls.__name__} of what are no exceptions of the traced program")
    ordinary = all(issubclass(member.python_type(), Exception) for member in members)
    if not ordinary and issubclass(cls, Exception):
        return tx.raise_python(TypeError, "Cannot nest BaseExceptions in an ExceptionGroup")
    kind: Any = ExceptionGroup if cls is BaseExceptionGroup and ordinary else cls
    kept = sequences.ListValue(members) if args[1].python_type() is list else sequences.TupleValue(members)
    return ExceptionValue(kind, [args[0], kept])


@wraps_if(lambda obj: isinstance(obj, BaseException), order=30)
def wrap_exception(tx: Frame, obj: BaseException, source: Source | None) -> Value:
    """An exception of the program, such as one that a handler behind a graph break is given."""
    tx.guard("type_is", source, type(obj))
    value = ExceptionValue(type(obj), None, source, obj)
    tx.trace.remember(obj, value)
    objects.attach_real(tx, value, obj, source)
    return value
