"""``python -m tools.random_programs [--count N] [--first SEED] [--backend eager] [--show SEED]``: random programs, each
run plain and compiled. Prints every seed whose program differs, and exits with status 1 when there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch

from tools.random_programs.runner import difference, difference_of
from tools.random_programs.shrink import shrink
from tools.random_programs.writer import PRELUDE, write_program


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--backend", default="eager", help="of triptych_dynamo; triptych: the whole stack")
    parser.add_argument("--shrink", type=int, help="make the program of this seed small and print it")
    parser.add_argument("--show", type=int, help="print the program of this seed, and its difference")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.show is not None:
        print(write_program(options.show)[len(PRELUDE) :])
        print(difference(options.show, options.backend) or "no difference")
        return 0
    if options.shrink is not None:
        grad = options.shrink % 3 == 0
        text = shrink(write_program(options.shrink), lambda text: bool(difference_of(text, options.backend, grad)))
        print(text, difference_of(PRELUDE + "\n" + text + "\n", options.backend, grad), sep="\n\n")
        return 0
    started, wrong, seed = time.perf_counter(), [], options.first
    while seed < options.first + options.count and time.perf_counter() - started < options.seconds:
        found = difference(seed, options.backend)
        if found:
            wrong.append(seed)
            print(f"seed {seed}: {found}", flush=True)
        seed += 1
    spent = time.perf_counter() - started
    print(f"{seed - options.first} programs, {len(wrong)} differ {wrong}, {spent:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
