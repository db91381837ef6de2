"""`python -m tools.bench_capture`: what capture alone costs, beside the peer: backend "eager", first call of a model.

One fresh process for each model, mode and compiler. Imports and the compile of a tiny module come before, for both. The
figure is CPU seconds of the first call less those of a second one, on one thread: it stays the same on a busy machine.
Prints a markdown table and the geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("bert", "gpt2", "llama", "t5", "resnet", "vit")
MODES = ("infer", "train")
COMPILERS = ("peer", "triptych")


def measure(name: str, mode: str, compiler: str) -> float:
    """CPU seconds that the first call of model `name` takes beyond the second one, in this process."""
    import torch

    from tools.bench import models

    torch.set_num_threads(1)
    wrap = __import__("torch" if compiler == "peer" else "triptych").compile
    wrap(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)), backend="eager")(torch.ones(2, 3))
    model, batch = models.make(name, training=mode == "train", batch_size=2)[:2]
    compiled = wrap(model, backend="eager")

    def step() -> float:
        start = sum(os.times()[:2])
        with torch.set_grad_enabled(mode == "train"):
            compiled(**batch)
        return sum(os.times()[:2]) - start

    first, second = step(), step()
    return first - second


def measure_apart(name: str, mode: str, compiler: str) -> float:
    """`measure` in a fresh process."""
    command = [sys.executable, "-m", "tools.bench_capture", "--one", name, mode, compiler]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main(arguments: list[str]) -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "MODE", "COMPILER"), help="in this process")
    options = parser.parse_args(arguments)
    if options.one:
        print(measure(*options.one))
        return
    print("| model | mode | torch.compile | triptych | ratio |\n|---|---|---|---|---|")
    ratios = []
    for name in options.models:
        for mode in MODES:
            peer, ours = (measure_apart(name, mode, compiler) for compiler in COMPILERS)
            ratios.append(ours / peer)
            print(f"| {name} | {mode} | {peer:.2f} | {ours:.2f} | {ours / peer:.2f} |", flush=True)
    print(f"\ngeometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
