"""Calls for their side effect alone that can wait until the graph has run: logging and warnings.

In: such a call in the traced program. Out: an effect, replayed in the order of all effects. A function under
`lru_cache` that does nothing but log is deferred as a whole, so that its cache still decides how often it speaks.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.builtin_functions import builtin
from triptych_dynamo.values.common import none

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class DeferredCall:
    """An effect: `function(*args, **kwargs)`, its result dropped."""

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def replay(self, cg: Writer) -> None:
        """Emit the call."""
        cg.load(self.function)
        for value in (*self.args, *self.kwargs.values()):
            cg.load(value)
        cg.call(len(self.args) + len(self.kwargs), tuple(self.kwargs))
        cg.pop()


def defer(tx: Frame, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Record the call as an effect; it gives None."""
    tx.effects.mutated(DeferredCall(function, args, kwargs))
    return none(tx)


_LOGGING = [
    vars(logging.Logger)[name]
    for name in ("debug", "info", "warning", "error", "critical", "exception", "log", "warn")
    if name in vars(logging.Logger)
]
_MODULE_LEVEL = [logging.debug, logging.info, logging.warning, logging.error, logging.critical, warnings.warn]


def _deferring(function: object) -> None:
    def handler(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return defer(tx, tx.wrap(function, None), list(args), kwargs)

    builtin(function)(handler)


for _function in (*_LOGGING, *_MODULE_LEVEL):
    _deferring(_function)
