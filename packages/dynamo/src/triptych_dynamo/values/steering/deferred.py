"""Output that can wait until the graph has run: printing, logging, warnings.

In: such a call in the traced program. Out: an effect, replayed in the order of all effects. What is shown is what it
was when the call was made: the texts of objects are taken while tracing; tensors and symbolic numbers are shown after
the graph, which is the same as long as the program does not write to them in between (a graph break keeps them apart
where it does). A function under `lru_cache` that does nothing but log is deferred as a whole, so that its cache still
decides how often it speaks.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from types import FunctionType
from typing import TYPE_CHECKING, Any

from triptych_dynamo._torch_compat import tensor_version
from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.runtime_output import Shown, warn_above, warn_at
from triptych_dynamo.sources import AttrSource, PinnedSource
from triptych_dynamo.values import attributes
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.atoms.text import text_of
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.common import constant_of, is_constant_equal, is_scalar, none
from triptych_dynamo.values.objects.exceptions import ExceptionValue
from triptych_dynamo.values.objects.objects import ObjectValue
from triptych_dynamo.values.objects.streams import StreamValue
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class DeferredCall:
    """An effect: `function(*args, **kwargs)`, its result dropped."""

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        shown = (value for value in (*args, *kwargs.values()) if isinstance(value, TensorValue))
        self._versions = {value: tensor_version(value.fake) for value in shown}

    def replay(self, cg: Writer) -> None:
        """Emit the call."""
        for shown, version in self._versions.items():
            if tensor_version(shown.fake) != version:
                cg.cannot_rebuild("input-output", "a tensor is shown, and written to afterwards")
        cg.load(self.function)
        for value in (*self.args, *self.kwargs.values()):
            cg.load(value)
        cg.call(len(self.args) + len(self.kwargs), tuple(self.kwargs))
        cg.pop()


def defer(tx: Frame, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Record the call as an effect; it gives None."""
    tx.effects.mutated(DeferredCall(function, args, kwargs))
    return none(tx)


# -- printing ----------------------------------------------------------------------------------------------------------
def _in_graph(value: Value) -> bool:
    return isinstance(value, (TensorValue, SymbolicValue))


def _writes_in_c(value: Value) -> bool:
    """Whether a file's `write` is code of C that the program cannot see into."""
    cls = value.python_type()
    return issubclass(cls, io.TextIOBase) and not isinstance(attributes.defines(cls, "write"), FunctionType)


def _redirected(tx: Frame) -> Value | None:
    """What the region has put in the place of `sys.stdout`."""
    scope = tx.trace.scope_of(vars(sys))
    if not scope.has_written("stdout"):
        return None
    found = scope.load(tx, "stdout")
    return tx.unsupported("input-output", "sys.stdout is None") if is_constant_equal(found, None) else found


def _print_now(tx: Frame, file: StreamValue, args: tuple[Value, ...], sep: Value | None, end: Value | None) -> Value:
    """Print to a file that the region made."""
    if any(isinstance(arg, TensorValue) for arg in args):
        return tx.unsupported("input-output", "printing a tensor to a file in memory that the region made")
    texts = [text_of(tx, arg, "__str__") for arg in args]
    options = (None if option is None else constant_of(tx, option, "an option of print") for option in (sep, end))
    return file.print(tx, texts, *options)


@builtin(print)
def _print(
    tx: Frame,
    *args: Value,
    sep: Value | None = None,
    end: Value | None = None,
    file: Value | None = None,
    flush: Value | None = None,
) -> Value:
    """The texts are taken now; the file, if none is given, is what `sys.stdout` is when the code runs."""
    if file is None or is_constant_equal(file, None):
        file = _redirected(tx)
    if isinstance(file, StreamValue):
        return _print_now(tx, file, args, sep, end)
    if file is not None and not _writes_in_c(file):
        return tx.unsupported("input-output", f"printing to a {file.python_type().__name__}")
    texts = [arg if _in_graph(arg) or is_scalar(arg) else tx.constant(text_of(tx, arg, "__str__")) for arg in args]
    given = {"sep": sep, "end": end, "file": file, "flush": flush}
    options = {name: value for name, value in given.items() if value is not None}
    for name in ("sep", "end"):
        if name in options:
            options[name] = tx.constant(constant_of(tx, options[name], name))
    return defer(tx, tx.wrap(print, None), texts, options)


# -- logging -----------------------------------------------------------------------------------------------------------
def _shown(tx: Frame, value: Value) -> Value:
    """An argument of a logging call as it is now."""
    if _in_graph(value) or is_scalar(value) or issubclass(value.python_type(), (logging.Logger, type)):
        return value
    if isinstance(value, ExceptionValue) or value.python_type() is not dict:
        shown = Shown(text_of(tx, value, "__str__"), text_of(tx, value, "__repr__"))
        return tx.wrap(shown, PinnedSource(shown, "shown"))
    pairs = [(entry.key, _shown(tx, entry.value)) for entry in value.all_entries(tx)]  # type: ignore[attr-defined]
    return tx.trace.make_dict(pairs)  # names of a format with %(name)s


def _is_logger(value: Value) -> bool:
    return issubclass(value.python_type(), logging.Logger)


_METHODS = ("debug", "info", "warning", "error", "critical", "log", "warn")
_LOGGING = [vars(logging.Logger)[name] for name in _METHODS if name in vars(logging.Logger)]
_MODULE_LEVEL = [logging.debug, logging.info, logging.warning, logging.error, logging.critical, logging.log]


def _deferring(function: object) -> None:
    def handler(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        if any(name != "stacklevel" for name in kwargs):
            return tx.unsupported("input-output", f"logging with {', '.join(kwargs)}")
        if any(isinstance(arg, ObjectValue) and arg.changed for arg in args if _is_logger(arg)):
            return tx.unsupported("input-output", "a logger is changed in the region and logs afterwards")
        return defer(tx, tx.wrap(function, None), [_shown(tx, arg) for arg in args], kwargs)

    builtin(function)(handler)


for _function in (*_LOGGING, *_MODULE_LEVEL):
    _deferring(_function)


@builtin(logging.exception, logging.Logger.exception)
def _exception(tx: Frame, *args: Value, **kwargs: Value) -> Value:
    return tx.unsupported("input-output", "logging the traceback of an exception")


@builtin(logging.getLogger)
def _get_logger(tx: Frame, name: Value | None = None) -> Value:
    """Loggers are made at their first use and kept by name: done now."""
    found = logging.getLogger(None if name is None else constant_of(tx, name, "the name of a logger"))
    return tx.wrap(found, PinnedSource(found, f"logger {found.name}"))


@builtin(logging.Logger.isEnabledFor)
def _is_enabled_for(tx: Frame, logger: Value, level: Value) -> Value:
    """Asked now; levels that change later are seen by the guard."""
    real = getattr(logger, "real", None)
    if not isinstance(real, logging.Logger):
        return tx.unsupported("input-output", "a logger made in the compiled region")
    number = constant_of(tx, level, "a level")
    answer = real.isEnabledFor(number)
    fact = PythonFact(lambda found: found.isEnabledFor(number) == answer, f"{real.name}.isEnabledFor({number})")
    tx.guard("python", PinnedSource(real, f"logger {real.name}"), fact)
    return tx.constant(answer)


# -- warnings ----------------------------------------------------------------------------------------------------------
def _raises_none(filters: Any) -> bool:
    """Whether no filter turns a warning into an exception."""
    return all(row[0] != "error" for row in filters)


_NO_ERRORS = PythonFact(_raises_none, "no filter of warnings raises")


@builtin(warnings.warn)
def _warn(
    tx: Frame, message: Value, category: Value | None = None, stacklevel: Value | None = None, source: Any = None
) -> Value:
    """The place is found now: a line of an inlined function, or of a caller of the compiled one."""
    if not _raises_none(warnings.filters):
        return tx.unsupported("input-output", "a warning that a filter may raise")
    tx.guard("python", AttrSource(PinnedSource(warnings, "warnings"), "filters"), _NO_ERRORS)
    level = 1 if stacklevel is None else max(1, constant_of(tx, stacklevel, "a stack level"))
    kind = none(tx) if category is None else category
    frames = tx.trace.frames
    if level > len(frames):
        above = tx.constant(level - len(frames))
        return defer(tx, tx.wrap(warn_above, None), [message, kind, above], {})
    frame = frames[-level]
    place = [tx.constant(frame.code.co_filename), tx.constant(frame.line_number())]
    return defer(tx, tx.wrap(warn_at, None), [message, kind, *place, frame.scope.as_dictionary()], {})
