"""What a program says about its steps: where one begins, and that a run was no good warm-up.

Both are of the thread that says it. Recordings look here; nothing is kept for programs that say nothing.
"""

from __future__ import annotations

import threading


class _Marks(threading.local):
    step = 0
    warmup = 0


_marks = _Marks()


def mark_step_begin() -> None:
    """A step of the program begins: it is done with what earlier steps of this thread computed.

    Replays give outputs as copies, so nothing that the program holds is ever overwritten. What a forward keeps for its
    backward lies in the recording, and blocks it while it is alive; where that is of an earlier step (a loss that the
    program keeps holds all of it), the recording is used again, and what is alive is moved out of it.
    """
    _marks.step += 1


def mark_warmup_incomplete() -> None:
    """The run at hand, or the last one, set something up that the next one needs as well: it is no warm-up.

    Said while a graph runs, or behind that run, the graph's next call runs as it is too, and is recorded one call
    later. Recordings that exist stay.
    """
    _marks.warmup += 1


def step() -> tuple[int, int]:
    """This thread, and its step."""
    return threading.get_ident(), _marks.step


def warmup() -> tuple[int, int]:
    """This thread, and how many runs it called incomplete."""
    return threading.get_ident(), _marks.warmup
