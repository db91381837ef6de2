"""Sweeps of torch's operator database in shards: each a process of its own that writes a line of JSON for each case.

Where a shard's process dies, the case at hand counts as crashed and a new process goes on behind it. A sweep is a
module that calls `add_arguments`, then `run_shard` where `given.shard` is set and `sweep` where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Case = tuple[str, str, str]  # op, variant, dtype
Result = dict[str, Any]
BAD = ("wrong", "failed", "crashed")
_PASSED_ON = ("dtypes", "only", "samples", "device")  # options that shards are given as the sweep was


def add_arguments(parser: argparse.ArgumentParser, *, dtypes: str, shards: int, seconds: float, device: str) -> None:
    """The options that every sweep has."""
    parser.add_argument("--device", default=device)
    parser.add_argument("--dtypes", default=dtypes)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--shards", type=int, default=shards)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--only", default="", help="parts of operator names, by comma")
    parser.add_argument("--out", default="")
    for hidden in ("shard", "log"):
        parser.add_argument(f"--{hidden}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)


def cases(given: argparse.Namespace) -> list[Case]:
    """Everything that is swept, in a fixed order."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    only = [part for part in given.only.split(",") if part]
    return [
        (op.name, op.variant_test_name, name)
        for op in op_db
        for name in given.dtypes.split(",")
        if (not only or any(part in op.name for part in only))
        and getattr(torch, name) in op.supported_dtypes(given.device)
    ]


def operators() -> dict[tuple[str, str], Any]:
    """The database by (name, variant)."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {(op.name, op.variant_test_name): op for op in op_db}


def run_shard(given: argparse.Namespace, check: Callable[[Case], Result], fatal: Callable[[Exception], bool]) -> None:
    """Check every n-th case from `--start` on, one line each before and after. `fatal`: errors that end the process,
    as the device is of no more use."""
    number, total = map(int, given.shard.split("/"))
    end = time.monotonic() + given.seconds
    with open(given.log, "a", encoding="utf-8") as log:

        def write(item: Result) -> None:
            log.write(json.dumps(item) + "\n")
            log.flush()

        for position, case in enumerate(cases(given)[number::total]):
            if position < given.start or time.monotonic() > end:
                continue
            head = dict(zip(("op", "variant", "dtype"), case, strict=True)) | {"position": position}
            write(head | {"state": "started"})
            start = time.perf_counter()
            try:
                result = check(case)
            except Exception as error:
                result = {"state": "failed", "why": f"{type(error).__name__}: {str(error).strip()[:400]}"}
                if fatal(error):
                    raise
            write(head | result | {"seconds": round(time.perf_counter() - start, 2)})


def results(log: Path) -> list[Result]:
    """The last line of each case; one that was only started is a crash."""
    last: dict[int, Result] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        item = json.loads(line)
        last[item["position"]] = item
    return [item | {"state": "crashed"} if item["state"] == "started" else item for item in last.values()]


def sweep(
    module: str, given: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> tuple[list[Result], str]:
    """Run all shards of a sweep to their end: (results, the ends of what they wrote to standard error)."""
    with tempfile.TemporaryDirectory() as name:
        logs = [Path(name) / f"shard{k}.jsonl" for k in range(given.shards)]
        _run(module, given, logs, {**os.environ, **(environment or {})})
        errors = "\n".join(p.read_text(errors="replace")[-1500:] for p in sorted(Path(name).glob("*.err")))
        return [item for log in logs for item in results(log)], errors


def _run(module: str, given: argparse.Namespace, logs: Sequence[Path], environment: Mapping[str, str]) -> None:
    end = time.monotonic() + given.seconds

    def start(k: int, position: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, "--shard", f"{k}/{given.shards}", "--log", str(logs[k])]
        command += ["--start", str(position), "--seconds", str(end - time.monotonic())]
        for option in _PASSED_ON:
            command += [f"--{option}", str(getattr(given, option))]
        with open(logs[k].with_suffix(".err"), "ab") as errors:
            return subprocess.Popen(command, env=dict(environment), stdout=errors, stderr=errors)

    running = {k: start(k, 0) for k in range(len(logs))}
    while running and time.monotonic() < end + 10:
        time.sleep(0.5)
        for k, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[k]
            if process.returncode != 0 and time.monotonic() < end:
                running[k] = start(k, max((item["position"] for item in results(logs[k])), default=-1) + 1)
    for process in running.values():
        process.kill()


def show(found: Sequence[Result], total: int) -> list[Result]:
    """Print what is bad, and counts by dtype and state; gives what is bad."""
    bad = sorted((r for r in found if r["state"] in BAD), key=lambda r: (r["state"], r["op"], r["dtype"]))
    for r in bad:
        print(f"{r['state']:8} {r['op']} {r['variant']} {r['dtype']}: {r.get('why', '')[:260]}")
    for (dtype, state), count in sorted(Counter((r["dtype"], r["state"]) for r in found).items()):
        print(f"{dtype:10} {state:14} {count:6}")
    print(f"{len(found)} of {total} swept, {len(bad)} bad")
    return bad
