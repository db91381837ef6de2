"""``python -m tools.random_programs [--count N] [--first SEED] [--backend eager] [--show SEED]``: random programs, each
run plain and compiled. Prints every seed whose program differs, and exits with status 1 when there is one.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from pathlib import Path

import torch
import triptych_dynamo

from tools.random_programs import record
from tools.random_programs.editions import EDITIONS, LATEST
from tools.random_programs.programs import split
from tools.random_programs.record import Part
from tools.random_programs.runner import Case, Tally, difference
from tools.random_programs.shrink import shrink


def main() -> int:
    """Run the command."""
    options = _options()
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda details: None  # generators that ignore their end, plain as compiled
    torch.set_num_threads(1)
    if options.show is not None:
        case = Case(options.show, options.edition, options.backend)
        print(split(case.text)[1])
        print(difference(case) or "no difference")
        return 0
    if options.shrink is not None:
        case = Case(options.shrink, options.edition, options.backend)
        prelude = split(case.text)[0]
        small = shrink(case.text, lambda text: bool(difference(case, text)))
        print(small, difference(case, prelude + small + "\n"), sep="\n\n")
        return 0
    return _run_parts(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--log", type=Path, help="a file of finished parts: a run that was stopped goes on behind them")
    parser.add_argument("--edition", type=int, default=LATEST, choices=sorted(EDITIONS), help="of the grammar")
    parser.add_argument("--backend", default="eager", help="of triptych_dynamo; triptych: the whole stack")
    parser.add_argument("--shrink", type=int, help="make the program of this seed small and print it")
    parser.add_argument("--show", type=int, help="print the program of this seed, and its difference")
    return parser.parse_args()


def _run_parts(options: argparse.Namespace) -> int:
    """Parts one after another, those that the log holds left out."""
    gc.freeze()  # what was imported need not be looked through after each program
    total = Part(options.edition, options.backend, options.first)
    until = time.perf_counter() + options.seconds
    known = {(part.edition, part.backend, part.first, part.count): part for part in record.read(options.log)}
    for first, count in record.starts(options.first, options.count):
        part = known.get((options.edition, options.backend, first, count))
        if part is None:
            part = _run_part(Part(options.edition, options.backend, first), count, until)
            record.append(options.log, part)
        total = total + part
        if time.perf_counter() > until:
            break
    print(total)
    return 1 if total.wrong else 0


def _run_part(part: Part, count: int, until: float) -> Part:
    """Programs one after another; each difference is printed when it is found."""
    started = time.perf_counter()
    while part.count < count and time.perf_counter() < until:
        seed, tally = part.first + part.count, Tally()
        found = difference(Case(seed, part.edition, part.backend), tally=tally)
        if found:
            part.wrong.append(seed)
            print(f"seed {seed}: {found}", flush=True)
        part.graphs += tally.graphs
        part.breaks += tally.breaks
        part.endless += tally.too_long
        part.whole += not tally.breaks and not tally.too_long
        part.count += 1
        triptych_dynamo.reset()
        gc.collect()
    part.seconds = round(time.perf_counter() - started, 1)
    return part


if __name__ == "__main__":
    sys.exit(main())
