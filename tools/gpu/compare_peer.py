"""The models of `tools.gpu.models`, triptych beside torch.compile in one table, in as many runs as that takes.

    python -m tools.gpu.compare_peer --out results --seconds 560
    python -m tools.gpu.compare_peer --out results --seconds 560 --resume results/compare.json     # what is left
    python -m tools.gpu.compare_peer --out results --shard 1/2                                     # on two machines
    python -m tools.gpu.compare_peer --merge one.json two.json --out results                       # the table alone

A pair, a model in inference or in training, is measured by both within one run, one after the other, or again as a
whole: numbers of different runs of a shared machine are not compared. Results are written after each measurement. A
pair is begun only where the time left is enough for it. A tiny model runs first, unmeasured.
"""

from __future__ import annotations

import argparse
import json
import math
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.gpu import common, models
from tools.gpu.zoo import MODELS

Rows = list[dict[str, Any]]
Pair = tuple[str, str]
WHO = ("triptych", "peer")
START = 14.0  # seconds of a process before and after what is measured

PEER_COLD: dict[str, tuple[float, float]] = {
    "resnet50": (15, 40),
    "vit": (12, 30),
    "convnext": (15, 40),
    "mobilenet": (21, 63),
    "bert": (13, 30),
    "gpt2": (14, 32),
    "llama": (14, 40),
    "t5": (16, 55),
}
"""Seconds that torch.compile was seen to take in inference and training, for the order and the time of pairs."""


def expected(pair: Pair) -> float:
    """Seconds that both measurements of a pair should take."""
    model, mode = pair
    cold = PEER_COLD.get(model, (15.0, 30.0))[mode == "train"]
    return 2 * START + cold * 1.3


def pairs_of(names: Iterable[str], modes: Iterable[str], shard: str = "") -> list[Pair]:
    """The pairs of a shard "k/n" (all without one), shards about equally long, the longest pairs first."""
    pairs = sorted(((n, m) for m in modes for n in names), key=lambda pair: -expected(pair))
    if not shard:
        return pairs
    number, count = map(int, shard.split("/"))
    loads: list[list[Pair]] = [[] for _ in range(count)]
    for pair in pairs:
        min(loads, key=lambda load: sum(map(expected, load))).append(pair)
    return loads[number - 1]


def complete(rows: Rows) -> dict[Pair, Rows]:
    """Pairs that both measured within one run; a failure is a result unless the time had run out."""
    found: dict[tuple[Pair, str], dict[str, Any]] = {}
    for row in rows:
        found[((row["model"], row["mode"]), row["run"] + row["who"])] = row
    whole: dict[Pair, Rows] = {}
    for pair, run in dict.fromkeys((pair, key.removesuffix(row["who"])) for (pair, key), row in found.items()):
        both = [found.get((pair, run + who)) for who in WHO]
        if all(row is not None and not str(row.get("failed", "")).startswith("over ") for row in both):
            whole[pair] = [row for row in both if row is not None]  # the latest run's
    return whole


def merged(files: Sequence[str]) -> Rows:
    """The rows of results that exist."""
    rows: Rows = []
    for file in files:
        if Path(file).exists():
            rows += json.loads(Path(file).read_text())["rows"]
    return rows


def geomean(values: Sequence[float]) -> float:
    """The geometric mean; nan of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def verdicts(whole: dict[Pair, Rows]) -> list[str]:
    """What the issue asks for, and whether it holds: one line each, with the pairs that miss it."""
    good = {pair: rows for pair, rows in whole.items() if not any("failed" in row for row in rows)}
    lines = [f"{len(good)} pairs; failed: {_names(p for p in whole if p not in good)}"]
    if not good:
        return lines
    speed = {p: peer["step_ms"] / ours["step_ms"] for p, (ours, peer) in good.items()}
    for mode in dict.fromkeys(mode for _, mode in good):
        mine = [s for (_, m), s in speed.items() if m == mode]
        over = [ours["eager_step_ms"] / ours["step_ms"] for (_, m), (ours, _) in good.items() if m == mode]
        lines.append(f"{mode}: geomean {geomean(mine):.3f} of the peer's speed, {geomean(over):.3f} of eager's")
    lines.append(f"geomean of all {geomean(list(speed.values())):.3f} (at least 1)")
    lines.append(f"behind by over 5 %: {_names(p for p, s in speed.items() if s < 0.95)}")
    cold = {p: ours["cold_s"] / peer["cold_s"] for p, (ours, peer) in good.items()}
    lines.append(f"cold {geomean(list(cold.values())):.3f} of the peer's; over a third: {_names(_over(cold, 1 / 3))}")
    peaks = {p: ours["peak_gb"] / min(ours["eager_peak_gb"], peer["peak_gb"]) for p, (ours, peer) in _measured(good)}
    lines.append(f"memory over the peer's or eager's: {_names(_over(peaks, 1.0))}")
    errors = {p: ours.get("error_ratio", 0.0) for p, (ours, _) in good.items()}
    lines.append(f"errors over twice eager's: {_names(_over(errors, 2.0))}")
    return lines


def _measured(good: dict[Pair, Rows]) -> Iterable[tuple[Pair, Rows]]:
    return ((pair, rows) for pair, rows in good.items() if all(row.get("peak_gb") for row in rows))


def _over(values: dict[Pair, float], limit: float) -> Iterable[Pair]:
    return (pair for pair, value in values.items() if value > limit)


def _names(pairs: Iterable[Pair]) -> str:
    return ", ".join(f"{model} {mode}" for model, mode in pairs) or "none"


def measure(given: argparse.Namespace, rows: Rows, clock: common.Clock) -> list[Pair]:
    """Measure what is missing, as long as there is time; the pairs that are left."""
    run, left = uuid.uuid4().hex[:8], []
    done = complete(rows)
    for pair in pairs_of(given.models.split(","), given.modes.split(","), given.shard):
        if pair in done:
            continue
        if clock.left < expected(pair):
            left.append(pair)
            continue
        for who in WHO:
            row = models.run(*pair, who, given.steps, clock.left - 3, device=given.device)
            rows.append(row | {"run": run})
            shown = {k: v for k, v in rows[-1].items() if k not in ("fallbacks", "profile")}
            print(json.dumps(shown)[:900], flush=True)
            common.write(given.out, "compare.json", {"facts": common.facts(), "rows": rows})
    return left


def show(rows: Rows, left: Sequence[Pair]) -> None:
    """The table, the verdicts, and what was not measured."""
    whole = complete(rows)
    print(models.table([row for pair in sorted(whole, key=lambda p: (p[1], p[0])) for row in whole[pair]]))
    print("\n".join(verdicts(whole)))
    if left:
        print(f"not measured: {_names(left)} (about {sum(map(expected, left)):.0f} s)")


def main() -> None:
    """Measure, resume or merge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--modes", default="infer,train")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shard", default="", help="k/n")
    parser.add_argument("--resume", nargs="*", default=[], help="results of earlier runs")
    parser.add_argument("--merge", nargs="*", default=[], help="only show the table of these results")
    given = parser.parse_args()
    clock = common.Clock(given.seconds)
    rows = merged([*given.resume, *given.merge])
    if not given.merge:
        # On a fresh machine libraries come from disk: the first pair would pay for all.
        models.run("perceptron", "infer", WHO[0], 1, clock.left, device=given.device)
    left = [] if given.merge else measure(given, rows, clock)
    common.write(given.out, "compare.json", {"facts": common.facts(), "rows": rows})
    show(rows, left)


if __name__ == "__main__":
    main()
