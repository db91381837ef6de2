"""Steps of torch's optimisers that branch on their counters, which tensors hold.

Each has a second form, `capturable`, that computes both ways and selects; torch looks at the devices for it only where
it does not compile. A trace takes that form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim.asgd import asgd
from torch.optim.radam import radam

from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import FunctionObjectValue
from triptych_dynamo.values.callables.functions import wrap_function
from triptych_dynamo.values.registry import wraps_object

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class CapturableStepValue(FunctionObjectValue):
    """`function(..., capturable=...)`, traced with True."""

    def __init__(self, function: Any, source: Source | None, body: Value) -> None:
        super().__init__(function, source)
        self.body = body

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if "capturable" in kwargs:
            kwargs = {**kwargs, "capturable": tx.constant(True)}
        return tx.call(self.body, args, kwargs)


@wraps_object(asgd, radam)
def wrap_capturable_step(tx: Frame, obj: Any, source: Source | None) -> Value:
    """The functional form of an optimiser."""
    tx.guard("is", source, obj)
    return CapturableStepValue(obj, source, wrap_function(tx, obj, None))
