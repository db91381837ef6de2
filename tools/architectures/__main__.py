"""Capture on many architectures of `transformers`, against torch.compile's in the same run.

    python -m tools.architectures [--only t5,bert] [--compilers triptych,peer] [--processes 2] [--out results.json]

Each architecture and compiler is a process of its own. Ends with status 1 when one of ours is wrong, or has more breaks
than the peer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tools.architectures.table import ARCHITECTURES
from tools.architectures.worker import COMPILERS, MODES, Result

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def run(name: str, compiler: str, timeout: float = 600.0) -> list[Result]:
    """Both modes of one architecture under one compiler, in a fresh process. A crash is a result with `failure`."""
    command = [sys.executable, "-m", "tools.architectures.worker", compiler, name]
    failure = ""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | ENVIRONMENT, timeout=timeout, capture_output=True, text=True
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        failure = f"process ended with {done.returncode}: {done.stderr[-400:]}"
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        lines = [line for line in output.decode().splitlines() if line.startswith("{")]
        failure = f"no result within {timeout:.0f} s"
    results = [Result(**json.loads(line)) for line in lines]
    missing = MODES[len(results) :]
    return results + [Result(name, ARCHITECTURES[name].family, mode, compiler, failure=failure) for mode in missing]


def told(result: Result | None) -> str:
    """One cell of the table: "whole", "3 graphs, 2 breaks", and what is wrong."""
    if result is None:
        return ""
    if result.failure:
        return f"[red]{result.failure[:60]}"
    shape = "whole" if (result.graphs, result.breaks) == (1, 0) else f"{result.graphs} graphs, {result.breaks} breaks"
    wrong = "" if result.right else f" [red]error {result.error:.1e}[/red]"
    again = f" [yellow]+{result.recompiles}[/yellow]" if result.recompiles else ""
    return f"{shape}{wrong}{again} [dim]{result.first_s:.1f} s"


def summary(results: list[Result], compiler: str) -> str:
    """Counts over all rows of one compiler."""
    own = [r for r in results if r.compiler == compiler]
    whole = sum(r.right and (r.graphs, r.breaks) == (1, 0) for r in own)
    wrong = sum(not r.failure and not r.right for r in own)
    seconds = sum(r.first_s for r in own)
    return (
        f"{compiler}: {len(own)} runs, {whole} whole, {sum(r.breaks for r in own)} breaks, {wrong} wrong, "
        f"{sum(bool(r.failure) for r in own)} failed, first calls {seconds:.0f} s"
    )


def faults(results: list[Result]) -> list[str]:
    """What must not be: ours failed or wrong where eager runs, or more breaks than the peer where the peer runs."""
    by_key: dict[tuple[str, str], dict[str, Result]] = defaultdict(dict)
    for result in results:
        by_key[result.name, result.mode][result.compiler] = result
    found = []
    for (name, mode), pair in by_key.items():
        ours, peer = pair.get("triptych"), pair.get("peer")
        if ours is not None and not ours.right:
            found.append(f"{name} {mode}: {ours.failure or f'error {ours.error:.1e}'}")
        elif ours is not None and peer is not None and not peer.failure and ours.breaks > peer.breaks:
            found.append(f"{name} {mode}: {ours.breaks} breaks, the peer {peer.breaks}: {ours.reasons[:2]}")
    return found


def show(results: list[Result], compilers: list[str], console: Console) -> None:
    """The table, the counts and the faults."""
    table = Table("architecture", "family", "mode", *compilers)
    by_row: dict[tuple[str, str, str], dict[str, Result]] = defaultdict(dict)
    for result in results:
        by_row[result.name, result.family, result.mode][result.compiler] = result
    for key, cells in by_row.items():
        table.add_row(*key, *(told(cells.get(compiler)) for compiler in compilers))
    console.print(table)
    for compiler in compilers:
        console.print(summary(results, compiler))


def main() -> int:
    """Runs all, prints, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--compilers", default=",".join(COMPILERS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name] or list(ARCHITECTURES)
    if unknown := set(names).difference(ARCHITECTURES):
        known = ", ".join(ARCHITECTURES)
        parser.error(f"no architectures of these names: {', '.join(sorted(unknown))}; there are {known}")
    compilers = options.compilers.split(",")
    console = Console(width=None if sys.stdout.isatty() else 160)
    jobs = [(name, compiler) for name in names for compiler in compilers]
    results: list[Result] = []
    with ThreadPoolExecutor(options.processes) as pool:
        done = pool.map(lambda job: run(*job), jobs)
        for part in track(done, total=len(jobs), console=Console(stderr=True), description="architectures"):
            results += part
            if options.out:
                options.out.write_text(json.dumps([vars(r) for r in results], indent=1))
    show(results, compilers, console)
    wrong = faults(results)
    for line in wrong:
        console.print(line, style="red", markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
