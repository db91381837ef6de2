"""``python -m tools.bench``: measures, prints the table, writes JSON and PNG. See ``--help``."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.bench import report, runner
from tools.bench.compilers import COMPILERS
from tools.bench.models import WORKLOADS
from tools.bench.worker import Spec

MODES = {"infer": False, "train": True}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--compilers", nargs="+", choices=COMPILERS, default=["peer", "triptych"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--freezing", action="store_true", help="inference with parameters as constants")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[None], help="other than the models' own")
    parser.add_argument("--seconds", type=float, default=6.0, help="for the step times of one measurement")
    parser.add_argument("--out", type=Path, default=runner.ROOT / "out" / "bench", help="path without suffix")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="JSON files of earlier runs to show with it")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument("--no-run", action="store_true", help="only show what --merge holds")
    return parser.parse_args()


def _merged(rows: list[report.Row]) -> list[report.Row]:
    """The last result of each model, mode, precision and compiler."""
    return list({(*report.key_of(row), row["spec"]["compiler"]): row for row in rows}.values())


def main() -> int:
    """Returns the exit status: 1 when a measurement failed."""
    args = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 200)
    measured = (args.models, ["infer"] if args.freezing else args.modes, args.precisions, args.batch_sizes)
    specs = [
        Spec(model, MODES[mode], precision, compiler, args.device, args.threads, args.seconds, size, args.freezing)
        for model, mode, precision, size, compiler in product(*measured, args.compilers)
    ]
    rows = [row for path in args.merge for row in json.loads(path.read_text())]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("benchmark", total=len(specs))
        for spec in [] if args.no_run else specs:
            progress.update(task, description=f"{spec.model} {spec.compiler}", advance=0)
            rows.append(runner.run_one(spec))
            report.save_json(_merged(rows), args.out.with_suffix(".json"))
            progress.advance(task)
    rows = _merged(rows)
    if args.markdown:
        print(report.markdown(rows))
    else:
        console.print(report.table(rows))
    console.print(report.summary(rows))
    report.save_json(rows, args.out.with_suffix(".json"))
    report.save_plot(rows, args.out.with_suffix(".png"))
    return 1 if any(row["failure"] for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
