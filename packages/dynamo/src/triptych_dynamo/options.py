"""`Options`: what the user asks of the tracer, frozen and handed down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych_dynamo.guards.filters import GuardEntry
    from triptych_dynamo.profiles import Profile

ON_LIMIT = ("generalise", "error", "eager")


@dataclass(frozen=True)
class Options:
    """Options of one compiled callable.

    Attributes:
        fullgraph: a graph break is an error.
        dynamic: None: what changes becomes symbolic; True: all sizes; False: none.
        on_error: what a fault of the tracer itself does. "raise": `TracerFault`; "eager": a warning, and the frame runs
            as it is.
        recompile_limit: how many entries one frame may have.
        on_limit: what happens then. "generalise": one more compile for each tensor or number that differed and is not
            yet symbolic in all its dimensions, and when there is none, as "eager"; "error": `RecompileLimitError`;
            "eager": a warning with the guard that did not hold, and the frame runs as it is where no entry fits.
        guard_filter_fn: given the `GuardEntry` of each guard of a frame, says which to keep (see `guards.filters`).
        shapes_spec: what is known of the sizes and numbers of all calls; see `shape_specs`.
        dynamic_sources: sizes and numbers that vary, by the text of their source: `L['x']` (all dimensions), `L['x']:0`
            (one), or a regular expression of such texts.
        dynamic_values: sizes and numbers that vary where they have one of these values at the first call: stand-ins
            that a program is warmed up with. Parameters and attributes of modules are left out.
        unbacked_sources: as `dynamic_sources`, for sizes that no decision may depend on.
        profile: keeps what varied for other processes; see `profiles`.
        exporting: the trace is for a graph that leaves the program (`capture`); what `is_exporting()` tells.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    recompile_limit: int = 8
    on_error: str = "raise"
    on_limit: str = "generalise"
    guard_filter_fn: Callable[[Sequence[GuardEntry]], Sequence[bool]] | None = None
    exporting: bool = False
    shapes_spec: Any = None
    dynamic_sources: tuple[str, ...] = ()
    dynamic_values: tuple[int, ...] = ()
    unbacked_sources: tuple[str, ...] = ()
    profile: Profile | None = None

    def __post_init__(self) -> None:
        if self.on_limit not in ON_LIMIT:
            raise ValueError(f"on_limit is one of {', '.join(ON_LIMIT)}, not {self.on_limit!r}")
