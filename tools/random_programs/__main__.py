"""``python -m tools.random_programs [--count N] [--first SEED] [--backend eager] [--show SEED]``: random programs, each
run plain and compiled. Prints every seed whose program differs, and exits with status 1 when there is one.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings

import torch
import triptych_dynamo

from tools.random_programs.editions import EDITIONS, LATEST
from tools.random_programs.programs import split
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
    return _run_block(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--edition", type=int, default=LATEST, choices=sorted(EDITIONS), help="of the grammar")
    parser.add_argument("--backend", default="eager", help="of triptych_dynamo; triptych: the whole stack")
    parser.add_argument("--shrink", type=int, help="make the program of this seed small and print it")
    parser.add_argument("--show", type=int, help="print the program of this seed, and its difference")
    return parser.parse_args()


def _run_block(options: argparse.Namespace) -> int:
    """Programs one after another; each difference is printed when it is found."""
    started, wrong, seed = time.perf_counter(), [], options.first
    graphs = breaks = whole = endless = 0
    gc.freeze()  # what was imported need not be looked through after each program
    while seed < options.first + options.count and time.perf_counter() - started < options.seconds:
        tally = Tally()
        found = difference(Case(seed, options.edition, options.backend), tally=tally)
        if found:
            wrong.append(seed)
            print(f"seed {seed}: {found}", flush=True)
        graphs, breaks, endless = graphs + tally.graphs, breaks + tally.breaks, endless + tally.too_long
        whole += not tally.breaks and not tally.too_long
        triptych_dynamo.reset()
        gc.collect()
        seed += 1
    spent = time.perf_counter() - started
    done = seed - options.first
    print(
        f"{done} programs ({whole} without a break, {endless} endless), {graphs} graphs, {breaks} breaks, {spent:.0f} s"
    )
    print(f"edition {options.edition}, first {options.first}: {len(wrong)} differ {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
