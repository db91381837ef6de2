"""`Hooks`: what users may watch while frames are compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from torch import fx

    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.guards.facts import Guard


@dataclass(frozen=True)
class Hooks:
    """Callbacks of users; None is not called.

    Attributes:
        on_graph: `(graph_module, example_inputs)` before the backend.
        on_guards: `(list of guards)` of a finished frame.
        on_bytecode: `(original code, compiled code)`.
        on_recompile: `(reason text)`.
        on_break: `(Unsupported)` at each graph break.
        on_failure: `(text of the error)` where a compiled graph failed at run time and the program itself does not.
    """

    on_graph: Callable[[fx.GraphModule, list[Any]], Any] | None = None
    on_guards: Callable[[list[Guard]], Any] | None = None
    on_bytecode: Callable[[CodeType, CodeType], Any] | None = None
    on_recompile: Callable[[str], Any] | None = None
    on_break: Callable[[Unsupported], Any] | None = None
    on_failure: Callable[[str], Any] | None = None
