"""How a program with graph breaks runs from piece to piece without growing the stack.

A compiled piece that breaks does not call the next one: it returns a `Resume`. The root calls what it holds, until one
gives the frame's result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo._eval_frame import run_rest

if TYPE_CHECKING:
    from triptych_dynamo.emit.continuation import Layout


class Resume:
    """The rest of a frame: what a piece returns in place of the frame's result when there is more to run.

    Attributes:
        layout: where the frame goes on.
        function: runs the rest.
        args: what is alive, in the order of the layout's parameters.
    """

    __slots__ = ("args", "function", "layout")

    def __init__(self, layout: Layout, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.layout = layout
        self.function = function
        self.args = args

    def run(self) -> Any:
        """Run the rest, once; callers up the stack may hold on to this object, but not to what was alive in it.

        Nor may a local of this frame, which the traceback of an exception may keep for longer, or its stack, where the
        rest runs as plain Python: objects end there when the program drops them, in its order.
        """
        return run_rest(self.function, self._taken())

    def _taken(self) -> tuple[Any, ...]:
        args, self.args = self.args, ()
        return args


def finish(pending: Any) -> Any:
    """Run rests until one gives the frame's result; anything else than a `Resume` is the result."""
    while type(pending) is Resume:
        pending = pending.run()
    return pending
