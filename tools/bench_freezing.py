"""Evaluation with constant weights: eager, compiled, frozen, and torch.compile frozen, in turns in one process.

    python -m tools.bench_freezing --models resnet bert vit --precisions float32 bfloat16 --batch-sizes 1 8

CPU time of one step, the fastest of each; on a machine that others use too, ratios of one line are what counts. Printed
as a markdown table; bfloat16 is autocast.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triptych

from tools.bench import models

Step = Callable[[], Any]


@contextlib.contextmanager
def _peer_frozen() -> Iterator[None]:
    import torch._inductor.config as peer

    with peer.patch(freezing=True):
        yield


def steps(name: str, size: int, precision: str, with_peer: bool) -> dict[str, Step]:
    """What is compared, compiled and called once."""
    model, batch = models.make(name, training=False, batch_size=size)
    calls = {
        "eager": model,
        "triptych": triptych.compile(model, options={"freezing": False}),
        "triptych, frozen": triptych.compile(model, options={"freezing": True}),
    }
    if with_peer:
        calls["torch.compile, frozen"] = torch.compile(model)

    def step_of(call: Any) -> Step:
        def step() -> Any:
            half = torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()
            with torch.no_grad(), half:
                return call(**batch)

        return step

    made = {label: step_of(call) for label, call in calls.items()}
    for label, step in made.items():
        with _peer_frozen() if label.startswith("torch.compile") else contextlib.nullcontext():
            step()
    return made


def in_turns(made: dict[str, Step], seconds: float) -> dict[str, float]:
    """Milliseconds of CPU time of each, the fastest of its turns."""
    best = dict.fromkeys(made, float("inf"))
    for step in [*made.values()] * 2:
        step()
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end or rounds < 8:
        rounds += 1
        for label, step in made.items():
            start = time.process_time()
            step()
            best[label] = min(best[label], 1e3 * (time.process_time() - start))
    return best


def main() -> None:
    """Prints the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=models.WORKLOADS, default=["resnet", "bert", "vit"])
    parser.add_argument("--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="of taking turns, for each line")
    parser.add_argument("--no-peer", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.models:
        for precision in given.precisions:
            for size in given.batch_sizes:
                best = in_turns(steps(name, size, precision, not given.no_peer), given.seconds)
                cells = [f"{value:.2f} ({value / best['eager']:.2f})" for value in best.values()]
                print(f"| {name} | {precision} | {size} | {' | '.join(cells)} |", flush=True)
                torch.compiler.reset()


if __name__ == "__main__":
    main()
