"""From results to a table on the terminal, a JSON file and a plot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

Row = dict[str, Any]


def key_of(row: Row) -> tuple[str, str, str]:
    """Model (and batch size, where it is not its own), mode and precision: what the compilers are compared on."""
    spec = row["spec"]
    size, frozen = spec.get("batch_size"), spec.get("freezing")
    model = spec["model"] + (f" x{size}" if size else "")
    return model, "train" if spec["training"] else ("infer, frozen" if frozen else "infer"), spec["precision"]


def ratio_to_eager(row: Row) -> float:
    """Compiled over eager step time, both of the row's own process, where they ran in turns."""
    return row["step_s"] / row["eager_s"]


def against_peer(rows: Sequence[Row]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """For each comparison that has both: (cold of triptych / cold of peer, step of triptych / step of peer).

    Step times are taken relative to eager in each process, so that a machine that was slower for one of them cancels.
    """
    by_key: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if not row["failure"]:
            by_key.setdefault(key_of(row), {})[row["spec"]["compiler"]] = row
    return {
        key: (
            found["triptych"]["cold_s"] / found["peer"]["cold_s"],
            ratio_to_eager(found["triptych"]) / ratio_to_eager(found["peer"]),
        )
        for key, found in by_key.items()
        if {"triptych", "peer"} <= found.keys()
    }


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; nan of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _cell(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)


def table(rows: Sequence[Row]) -> Table:
    """One line per result, with the ratios to eager and to the peer."""
    peer = against_peer(rows)
    made = Table(title="cold seconds and step times", row_styles=["", "dim"])
    columns = "model mode precision compiler cold step eager x/eager x/peer cold/peer graphs breaks kernels fallbacks"
    for name in [*columns.split(), "error (eager)", "worst ratio"]:
        made.add_column(name, justify="left" if name in {"model", "mode", "precision", "compiler"} else "right")
    for row in sorted(rows, key=lambda row: (*key_of(row), row["spec"]["compiler"])):
        head = [*key_of(row), row["spec"]["compiler"]]
        if row["failure"]:
            made.add_row(*head, f"[red]{row['failure'].splitlines()[0][:60]}")
            continue
        cold, step = peer.get(key_of(row), (None, None)) if row["spec"]["compiler"] == "triptych" else (None, None)
        counts = row["counts"]
        made.add_row(
            *head,
            f"{row['cold_s']:.2f} s",
            f"{row['step_s'] * 1e3:.2f} ms",
            f"{row['eager_s'] * 1e3:.2f} ms",
            f"{ratio_to_eager(row):.3f}",
            _cell(step, ".3f"),
            _cell(cold, ".3f"),
            *(_cell(counts[name], "d") for name in ("graphs", "breaks", "kernels", "fallbacks")),
            f"{row['error']:.1e} ({row['eager_error']:.1e})",
            f"{row['error_ratio']:.2f}",
        )
    return made


def summary(rows: Sequence[Row]) -> str:
    """Geometric means against the peer, in one line; empty when there is nothing to compare."""
    peer = against_peer(rows)
    if not peer:
        return ""
    cold, step = geomean(c for c, _ in peer.values()), geomean(s for _, s in peer.values())
    return f"triptych against torch.compile, geometric mean of {len(peer)}: cold {cold:.3f}, step {step:.3f}"


def markdown(rows: Sequence[Row]) -> str:
    """The same table as GitHub-flavoured markdown, for docs/benchmarks.md."""
    made = table(rows)
    heads = [str(column.header) for column in made.columns]
    cells = [list(column.cells) for column in made.columns]
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join("---" for _ in heads) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in line) + " |" for line in zip(*cells, strict=True)]
    return "\n".join(lines)


def save_json(rows: Sequence[Row], path: Path) -> None:
    """Writes the results as they are, for later runs to merge with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows), indent=1) + "\n")


def save_plot(rows: Sequence[Row], path: Path) -> None:
    """Bars of cold seconds (logarithmic) and of step time relative to eager, for each comparison and compiler."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    good = [row for row in rows if not row["failure"]]
    keys = sorted({key_of(row) for row in good})
    names = sorted({row["spec"]["compiler"] for row in good} - {"eager"})
    figure, axes = pyplot.subplots(2, 1, figsize=(max(8, len(keys) * 0.9), 8), sharex=True)
    for place, name in enumerate(names):
        mine = {key_of(row): row for row in good if row["spec"]["compiler"] == name}
        at = [keys.index(key) + place * 0.8 / len(names) for key in mine]
        axes[0].bar(at, [row["cold_s"] for row in mine.values()], 0.8 / len(names), label=name)
        axes[1].bar(at, [ratio_to_eager(row) for row in mine.values()], 0.8 / len(names), label=name)
    axes[0].set_yscale("log")
    axes[0].set_ylabel("cold compile, s")
    axes[0].legend()
    axes[1].axhline(1.0, color="black", linewidth=0.8)
    axes[1].set_ylabel("step time / eager")
    axes[1].set_xticks(range(len(keys)), ["\n".join(key) for key in keys], fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
