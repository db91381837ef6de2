"""Starts one fresh process per measurement, with its own empty caches, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.bench.worker import Spec

ROOT = Path(__file__).resolve().parents[2]


def _environment(folder: Path, threads: int, freezing: bool) -> dict[str, str]:
    """The caller's environment with every compiler's cache in `folder`, thread count and freezing as given."""
    return os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "peer"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRIPTYCH_CACHE_DIR": str(folder / "triptych"),
        "OMP_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_FREEZING": str(int(freezing)),
        "TRIPTYCH_FREEZING": str(int(freezing)),
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_OFFLINE": "1",
    }


def run_one(spec: Spec, *, timeout: float = 900.0) -> dict[str, Any]:
    """Measures `spec` in a fresh process with empty caches.

    A crash or timeout comes back as a result with `failure`.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        out = folder / "result.json"
        command = [sys.executable, "-m", "tools.bench.worker", json.dumps(asdict(spec)), str(out)]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=_environment(folder, spec.threads, spec.freezing),
                timeout=timeout,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return {"spec": asdict(spec), "failure": f"no result within {timeout:.0f} s"}
        if not out.exists():
            return {"spec": asdict(spec), "failure": f"process ended with {done.returncode}: {done.stderr[-1500:]}"}
        return json.loads(out.read_text())


def run_all(specs: Iterable[Spec]) -> Iterator[dict[str, Any]]:
    """The results of `specs`, in order, as they come."""
    for spec in specs:
        yield run_one(spec)
