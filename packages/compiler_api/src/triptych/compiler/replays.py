"""Hints of programs about recorded GPU work. Both are accepted anywhere and are not needed here.

torch.compile's recorded graphs hand out memory that the next replay overwrites, so a program has to say where a step
begins. Here outputs of a replay are copied out of the recording, and a shape is recorded at its second call, and
again when an input's memory moved.
"""

from __future__ import annotations


def cudagraph_mark_step_begin() -> None:
    """Say that a step of the program begins. Outputs of earlier steps stay valid either way."""


def cudagraph_mark_warmup_incomplete() -> None:
    """Say that the present call is no good warm-up. A recording is made of a later call, and made anew when needed."""
