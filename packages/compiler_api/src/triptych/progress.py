"""A line on the terminal while a compilation takes long; nothing anywhere else."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from triptych import configuration

DELAY = 2.0  # seconds before anything is shown
STEP = 0.5  # seconds between two looks of the line


@contextlib.contextmanager
def shown(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show `what` and the seconds that have passed, from `DELAY` seconds on, on standard error if it is a terminal."""
    stream = stream or sys.stderr
    if not configuration.get("progress") or not stream.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, stream, done), name="triptych-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, stream: TextIO, done: threading.Event) -> None:
    start = time.monotonic()
    if done.wait(DELAY):
        return
    with _line(stream) as update:
        while True:
            update(f"triptych: compiling {what}, {time.monotonic() - start:.0f} s")
            if done.wait(STEP):
                return


@contextlib.contextmanager
def _line(stream: TextIO) -> Iterator:
    """A function that sets the text of one line, which is gone afterwards."""
    try:
        from rich.console import Console  # noqa: PLC0415  (optional)
        from rich.status import Status  # noqa: PLC0415
    except ImportError:
        yield lambda text: print(f"\r\x1b[2K{text}", end="", file=stream, flush=True)
        print("\r\x1b[2K", end="", file=stream, flush=True)
        return
    with Status("", console=Console(file=stream)) as status:
        yield status.update
