"""``python -m tools.bench_call``: what one call of a compiled ``x + 1`` costs, beside the plain call.

Each row runs in a fresh process. The time is the smallest of several medians, in microseconds, on one thread.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# name -> (compiler, backend); None is the plain function.
ROWS: dict[str, tuple[str, str] | None] = {
    "plain": None,
    "peer, eager": ("torch", "eager"),
    "triptych, eager": ("triptych", "eager"),
    "peer, inductor": ("torch", "inductor"),
    "triptych, inductor": ("triptych", "inductor"),
}


def add_one(x: Any) -> Any:
    """The function that is called."""
    return x + 1


def seconds_per_call(function: Callable[[], Any], *, calls: int = 2000, rounds: int = 15) -> float:
    """Smallest over `rounds` of the mean time of `calls` calls, after a warm-up."""
    for _ in range(calls):
        function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def measure(name: str) -> float:
    """Microseconds of one call of the row `name`, in this process."""
    import torch

    torch.set_num_threads(1)
    row, x, function = ROWS[name], torch.ones(4), add_one
    if row is not None:
        module = __import__(row[0])
        function = module.compile(add_one, backend=row[1])
    with torch.no_grad():
        return seconds_per_call(lambda: function(x)) * 1e6


def measure_fresh(name: str) -> float:
    """`measure` in a new process."""
    command = [sys.executable, "-m", "tools.bench_call", name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return float(json.loads(done.stdout))


def main() -> int:
    """Prints one line per row; with the name of a row, only its number as JSON."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return 0
    for name in ROWS:
        repeats = [measure_fresh(name) for _ in range(3)]
        print(
            f"{name:<20} {min(repeats):7.2f} us   (median of 3 processes {statistics.median(repeats):.2f})", flush=True
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
