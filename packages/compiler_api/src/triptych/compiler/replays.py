"""Hints of programs about recorded GPU work: taken anywhere; in compiled code they are given when the graph has run.

torch.compile's recorded graphs hand out memory that the next replay overwrites, so that programs have to say where a
step begins. Here outputs are copied out, and what a forward keeps for its backward is watched; a program that says
nothing is right all the same. What the hints change is told at `triptych_inductor.runtime.cuda.steps`.
"""

from __future__ import annotations

from triptych_dynamo.lazy import LazyModule
from triptych_dynamo.steering import mark

_steps = LazyModule("triptych_inductor.runtime.cuda.steps")


def cudagraph_mark_step_begin() -> None:
    """Say that a step of the program begins, and that it is done with what earlier steps computed.

    Recordings whose memory an earlier step still holds (by a loss that is kept, say) are then used again, and what is
    alive is moved; without the hint such calls run without CUDA graphs. Nothing that the program holds is overwritten.

    Example:
        >>> for x in data:
        ...     triptych.compiler.cudagraph_mark_step_begin()
        ...     losses.append(compiled(x))
    """
    _steps.mark_step_begin()


def cudagraph_mark_warmup_incomplete() -> None:
    """Say that the run at hand set something up that its next run needs too: the call after it is not recorded yet.

    For operators of one's own that allocate or time things at their first calls.
    """
    _steps.mark_warmup_incomplete()


for _hint in (cudagraph_mark_step_begin, cudagraph_mark_warmup_incomplete):
    mark(_hint, "hint")
