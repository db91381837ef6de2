"""`LazyGraphModule`: a `torch.fx.GraphModule` whose Python code is generated when it is first asked for.

Generating and compiling the code of a graph of a thousand nodes takes about 0.1 s, and most graphs of this package
are only read by a compiler, never run.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.fx import Graph, GraphModule

_GENERATING = threading.RLock()  # whoever runs a graph waits for the thread that writes its code


class LazyGraphModule(GraphModule):
    """Behaves as a GraphModule; `recompile()` only notes that there is something to do."""

    def __init__(self, root: torch.nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        self.__dict__["_stale"] = True
        super().__init__(root, graph, class_name)

    def recompile(self) -> Any:
        """Generate the code at the next use. Returns None (the eager variant returns the code object)."""
        self.__dict__["_stale"] = True
        type(self).forward = _generate_then_run  # type: ignore[method-assign]
        return None

    def real_recompile(self) -> None:
        """Generate the code now, if it is stale."""
        with _GENERATING:
            if self.__dict__.get("_stale", True):
                self.__dict__["_stale"] = False
                super().recompile()

    @property
    def code(self) -> str:
        """The generated Python code."""
        self.real_recompile()
        return self._code

    def __reduce__(self) -> Any:
        self.real_recompile()
        return super().__reduce__()


def _generate_then_run(self: LazyGraphModule, *args: Any, **kwargs: Any) -> Any:
    self.real_recompile()
    return self.forward(*args, **kwargs)
