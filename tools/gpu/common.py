"""Shared by the GPU scripts: timing, versions, results as JSON, and text tables."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch


class Clock:
    """Time left of what was given."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


def measure(function: Callable[[], Any], repeats: int = 15, warm: int = 3) -> float:
    """Median seconds of `function` on the GPU, by events (without one: by the clock); results are dropped between
    calls."""
    for _ in range(warm):
        function()
    if not torch.cuda.is_available():
        return statistics.median(_clocked(function) for _ in range(repeats))
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def _clocked(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def synchronize() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_gigabytes(function: Callable[[], Any]) -> tuple[Any, float]:
    """What `function` gives, and the most memory of the GPU that was taken meanwhile (0 without one)."""
    if not torch.cuda.is_available():
        return function(), 0.0
    torch.cuda.reset_peak_memory_stats()
    return function(), torch.cuda.max_memory_allocated() / 1e9


def host_time(function: Callable[[], Any], repeats: int = 300, warm: int = 20) -> float:
    """Seconds of host time a call takes while the GPU keeps up: the least of three rounds."""
    for _ in range(warm):
        function()
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        best = min(best, (time.perf_counter() - start) / repeats)
        torch.cuda.synchronize()
    return best


def copy_bandwidth(gigabytes: float = 4.0) -> float:
    """Bytes a second of a device copy, read and write counted."""
    source = torch.empty(int(gigabytes * 2**30), dtype=torch.uint8, device="cuda").fill_(1)
    target = torch.empty_like(source)
    return 2 * source.numel() / measure(lambda: target.copy_(source))


def facts() -> dict[str, Any]:
    """Date, device and versions, for the head of a result."""
    device = torch.cuda.get_device_properties(0).name if torch.cuda.is_available() else platform.processor()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }


def write(folder: str, name: str, data: Any) -> None:
    """Write a result as JSON where the caller wants results; nothing for an empty folder name."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_text(json.dumps(data, indent=1, default=str))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Text columns; numbers to the right."""
    cells = [list(map(str, head)), *([_cell(c) for c in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = []
    for row in cells:
        lines.append(
            "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        )
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
