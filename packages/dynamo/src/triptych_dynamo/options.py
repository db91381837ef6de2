"""`Options`: what the user asks of the tracer, frozen and handed down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Options of one compiled callable.

    Attributes:
        fullgraph: a graph break is an error.
        dynamic: None: what changes becomes symbolic; True: all sizes but 0 and 1; False: none.
        on_error: what a fault of the tracer itself does. "raise": `TracerFault`; "eager": a warning, and the frame runs
            as it is.
        recompile_limit: how many entries one frame may have before it runs eagerly.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    recompile_limit: int = 8
    on_error: str = "raise"
