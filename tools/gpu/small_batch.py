"""Models of few samples under CUDA graphs, where a step is host time: triptych beside torch.compile and eager.

    python -m tools.gpu.small_batch [--models bert,gpt2,resnet50] [--out results]

Inference under bfloat16 autocast with `mode="reduce-overhead"`, inputs in other memory at each call, as in a server.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import torch
import triptych

from tools.gpu import common
from tools.gpu.zoo import inputs_for, row_named

SAMPLES, TOKENS = 1, 64


def few(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The first samples; the first tokens of texts."""
    return {k: v[:SAMPLES, :TOKENS].contiguous() if v.ndim == 2 else v[:SAMPLES] for k, v in inputs.items()}


def step_of(call: Callable[..., Any], batches: list[dict[str, torch.Tensor]]) -> Callable[[], Any]:
    """A function that runs the next batch."""
    turn = itertools.cycle(batches)

    def step() -> Any:
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            return call(**next(turn))

    return step


def measure(name: str) -> list[Any]:
    """Milliseconds of a step: eager, compiled by triptych, by torch.compile; the largest difference to eager."""
    torch.manual_seed(0)
    row = row_named(name)
    model = row.build().cuda().eval()
    batches = [few(inputs_for(row, "cuda", False)) for _ in range(4)]
    found: list[Any] = [name]
    for compiled in (
        model,
        triptych.compile(model, mode="reduce-overhead"),
        torch.compile(model, mode="reduce-overhead"),
    ):
        step = step_of(compiled, batches)
        for _ in range(12):
            step()
        found.append(1e3 * common.measure(step, repeats=50))
    return [*found, found[1] / found[2], found[3] / found[2]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="bert,gpt2,resnet50")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    rows = [measure(name) for name in given.models.split(",")]
    print(common.table(["model", "eager ms", "ours", "peer", "x eager", "x peer"], rows))
    if given.out:
        common.write(given.out, "small_batch.json", {"facts": common.facts(), "rows": rows})


if __name__ == "__main__":
    main()
