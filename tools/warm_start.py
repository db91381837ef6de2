"""`python -m tools.warm_start MODEL {infer,train} {triptych,peer}`: CPU seconds of a model's first call.

Imports and a first tiny compile are not counted; compilers that are started count. Run it twice with one cache folder
(TRIPTYCH_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR): the first run is a cold start, the second a warm one. CPU seconds and one
thread, because they stay the same on a busy machine.
"""

from __future__ import annotations

import os
import sys

import torch
import triptych

from tools.bench import models


def clock() -> float:
    """CPU seconds of this process and of those it waited for."""
    return sum(os.times()[:4])


def main(name: str, mode: str, who: str) -> None:
    """Measure and print."""
    compiler = triptych.compile if who == "triptych" else torch.compile
    model, batch = models.make(name, training=mode == "train", batch_size=2)[:2]
    tiny = compiler(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)))
    tiny(torch.ones(2, 3)).sum().backward()
    compiled = compiler(model)

    def step() -> float:
        start = clock()
        if mode == "train":
            compiled(**batch).loss.backward()
        else:
            with torch.no_grad():
                compiled(**batch)
        return clock() - start

    first, second = step(), step()
    print(f"{who} {name} {mode}: {first - second:.2f} CPU seconds more in the first call than in the second")


if __name__ == "__main__":
    main(*sys.argv[1:4])
